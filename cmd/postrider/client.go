package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	callTimeout = time.Minute
	// answerLimit bounds what is read of an answer: a full page of events with their metadata stays far below it.
	answerLimit = 64 << 20
	// pageLimit is how many things the API gives at once.
	pageLimit = 250
)

// client calls the HTTP API of a running server.
type client struct {
	base string // without a slash at the end
	key  string
	http *http.Client
}

func newClient(base, key string) (*client, error) {
	if err := checkBase(base); err != nil {
		return nil, fmt.Errorf("the server's URL (--url or POSTRIDER_URL): %w", err)
	}
	return &client{trimBase(base), key, &http.Client{
		Timeout: callTimeout,
		// A command makes a call or two: there is nothing to keep a connection for.
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
		// A server that redirects is not ours, and would be sent the key.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// checkBase says what is wrong with a server's URL.
func checkBase(base string) error {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return fmt.Errorf("%s is not a URL like %s", quote(base), defaultURL)
	}
	return nil
}

// checkTarget says what is wrong with a URL that something is posted to.
func checkTarget(target string) error {
	u, err := url.Parse(target)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("%s is not a URL like http://127.0.0.1:3000/webhooks", quote(target))
	}
	return nil
}

// trimBase takes a server's URL as `postrider dev` prints it, with the API's /v1, for the server's.
func trimBase(base string) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1"), "/")
}

// call is one request. A body is JSON unless header says otherwise.
type call struct {
	method string
	path   []string // under /v1, each part as it is
	query  url.Values
	header http.Header
	body   []byte // nil: none
}

// do makes a call and gives the answer's body. An answer that is an error is a *problem.
func (c *client) do(ctx context.Context, call call) (json.RawMessage, error) {
	req, err := c.request(ctx, call)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return body, nil
	}
	return nil, readProblem(resp, body)
}

func (c *client) request(ctx context.Context, call call) (*http.Request, error) {
	target := c.base + "/v1"
	for _, part := range call.path {
		target += "/" + url.PathEscape(part)
	}
	if len(call.query) > 0 {
		target += "?" + call.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, call.method, target, bytes.NewReader(call.body))
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	if call.header != nil {
		req.Header = call.header
	}
	if call.body != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("User-Agent", userAgent())
	return req, nil
}

// unreachable says what kept a call from being answered.
func (c *client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the URL, which stands in front
	}
	return fmt.Errorf("call %s: %w; is it a running `postrider serve` or `postrider dev`? (--url or POSTRIDER_URL says where)", c.base, err)
}

// problem is an answer that is an error (RFC 9457).
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Errors []struct {
		Pointer string `json:"pointer"`
		Detail  string `json:"detail"`
	} `json:"errors"`
}

func readProblem(resp *http.Response, body []byte) error {
	var p problem
	if json.Unmarshal(body, &p) != nil || p.Status != resp.StatusCode {
		return fmt.Errorf("the server answered %d and not as Postrider does; is this its URL?", resp.StatusCode)
	}
	return &p
}

// Error is the whole problem in one line.
func (p *problem) Error() string {
	var places []string
	for _, e := range p.Errors {
		places = append(places, strings.TrimPrefix(e.Pointer+": "+e.Detail, ": "))
	}
	detail := p.Detail
	if len(places) > 0 {
		detail = strings.Join(places, "; ")
	}
	return fmt.Sprintf("%s (%d %s)", detail, p.Status, strings.ToLower(p.Title))
}

// isStatus reports whether err is an answer with this status.
func isStatus(err error, status int) bool {
	var p *problem
	return errors.As(err, &p) && p.Status == status
}

// page is one page of a list, or several that follow each other.
type page struct {
	Data []json.RawMessage `json:"data"`
	Next *string           `json:"next_cursor"`
}

// list gets up to limit things, from as many pages as that takes.
func (c *client) list(ctx context.Context, path []string, query url.Values, limit int) (page, error) {
	all := page{Data: []json.RawMessage{}}
	for {
		query.Set("limit", strconv.Itoa(min(limit-len(all.Data), pageLimit)))
		body, err := c.do(ctx, call{method: http.MethodGet, path: path, query: query})
		if err != nil {
			return page{}, err
		}
		one, err := decode[page](body)
		if err != nil {
			return page{}, err
		}
		all.Data, all.Next = append(all.Data, one.Data...), one.Next
		if all.Next == nil || len(all.Data) >= limit {
			return all, nil
		}
		query.Set("cursor", *all.Next)
	}
}

// decode reads the fields that T has; what else the server says is for --json.
func decode[T any](body json.RawMessage) (T, error) {
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("read the server's answer: %w", err)
	}
	return v, nil
}

// rows reads each thing of a page.
func rows[T any](p page) ([]T, error) {
	out := make([]T, 0, len(p.Data))
	for _, raw := range p.Data {
		v, err := decode[T](raw)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// rest waits, and no longer than ctx.
func rest(ctx context.Context, d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	}
}
