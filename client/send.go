package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// answerLimit bounds what is read of an answer, in bytes: the receipts of 1,000 events with the longest names stay far below.
	answerLimit = 4 << 20
	// longestAsked is the longest Retry-After that is waited for. A server that wants more is for the caller to come back to.
	longestAsked = time.Minute
)

// call is one request, the same in all its tries.
type call struct {
	target      string // path and query
	contentType string
	key         string // the Idempotency-Key
	body        []byte
}

// answer is what came back, read.
type answer struct {
	header http.Header
	body   []byte
}

// failure is a try that was no success.
type failure struct {
	err   error
	pass  bool          // whether it may pass, so that another try makes sense
	asked time.Duration // the Retry-After; 0: none
}

// send tries a call until it is answered for good. An answer that is lost on its way may have been a success: that is why each
// try has the same key.
func (c *Client) send(ctx context.Context, r call) (answer, error) {
	var last error // what the latest try died of, if not of the context
	for tries := 1; ; tries++ {
		a, failed := c.try(ctx, r)
		if failed == nil {
			return a, nil
		}
		if ctx.Err() == nil || !errors.Is(failed.err, ctx.Err()) {
			last = failed.err
		}
		switch {
		case ctx.Err() != nil:
			return answer{}, stopped(ctx, tries, last)
		case !failed.pass:
			return answer{}, failed.err
		case tries > c.retries:
			return answer{}, fmt.Errorf("gave up after %s: %w", count(tries), failed.err)
		case failed.asked > longestAsked:
			return answer{}, fmt.Errorf("gave up after %s, as the server asks to come back in %s: %w", count(tries), failed.asked, failed.err)
		}
		pause := time.NewTimer(max(c.wait(tries, rand.Float64()), failed.asked))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return answer{}, stopped(ctx, tries, last)
		}
	}
}

func count(tries int) string {
	if tries == 1 {
		return "1 try"
	}
	return strconv.Itoa(tries) + " tries"
}

// stopped says that the context ended a call, and what the last try died of if that was something else.
func stopped(ctx context.Context, tries int, last error) error {
	if last == nil {
		return fmt.Errorf("stopped after %s: %w", count(tries), context.Cause(ctx))
	}
	return fmt.Errorf("stopped after %s: %w; before that: %w", count(tries), context.Cause(ctx), last)
}

// wait is how long to wait after so many tries. chance is from [0, 1).
func (c *Client) wait(tries int, chance float64) time.Duration {
	full := c.most
	if doublings := tries - 1; doublings < 62 && c.first <= c.most>>doublings {
		full = c.first << doublings
	}
	return full - time.Duration(chance*float64(full)/2)
}

// try makes the request once.
func (c *Client) try(ctx context.Context, r call) (answer, *failure) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errTooSlow)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+r.target, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, &failure{err: fmt.Errorf("make the request: %w", err)}
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", r.contentType)
	req.Header.Set("Idempotency-Key", r.key)
	req.Header.Set("User-Agent", c.agent)
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, &failure{err: unanswered(ctx, err), pass: true}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit+1))
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		// What could be read of a refusal will do.
		return answer{}, &failure{err: readProblem(resp, body), pass: mayPass(resp.StatusCode), asked: retryAfter(resp.Header, time.Now())}
	case err != nil:
		return answer{}, &failure{err: fmt.Errorf("the answer broke off: %w", err), pass: true}
	case len(body) > answerLimit:
		return answer{}, &failure{err: fmt.Errorf("the answer is over %d bytes: is this a Postrider?", answerLimit)}
	}
	return answer{header: resp.Header, body: body}, nil
}

var errTooSlow = errors.New("it took longer than a try may")

// unanswered leaves out of an error the URL, which has the event's uid and group key in it.
func unanswered(ctx context.Context, err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if errors.Is(context.Cause(ctx), errTooSlow) {
		err = errTooSlow
	}
	return fmt.Errorf("no answer: %w", err)
}

// mayPass reports whether a refusal is of the kind that passes by itself.
func mayPass(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500 && status <= 599
}

// retryAfter reads seconds or a date. What is past or makes no sense is none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// readProblem makes an Error of an answer. Of what does not come from Postrider, such as a proxy's page, the status is told.
func readProblem(resp *http.Response, body []byte) *Error {
	var p struct {
		Title, Detail string
		Errors        []FieldError
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/problem+json") || json.Unmarshal(body, &p) != nil {
		e := &Error{Status: resp.StatusCode, Title: http.StatusText(resp.StatusCode)}
		if resp.StatusCode >= 300 && resp.StatusCode <= 399 {
			e.Detail = "the server at this URL redirects, which is not followed"
		}
		return e
	}
	for n, at := range p.Errors { // a raw call's query parameters, ?uid, are fields of the event here
		if name, query := strings.CutPrefix(at.Pointer, "?"); query {
			p.Errors[n].Pointer = "/" + name
		}
	}
	return &Error{Status: resp.StatusCode, Title: p.Title, Detail: p.Detail, Errors: p.Errors}
}
