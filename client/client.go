// Package client enqueues events in Postrider. A Client does so over HTTP, from anywhere. EnqueueTx does so in a pgx
// transaction of the caller's, for those whose data is in the PostgreSQL that Postrider uses.
//
// It manages nothing: tenants, endpoints and the review of deliveries are the HTTP API's and the command line's.
package client

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The defaults of the options. A call that is never answered well is tried for about thirteen seconds, besides what the tries
// themselves take: long enough for a restart of the server.
const (
	defaultRetries   = 6
	defaultFirst     = 200 * time.Millisecond
	defaultMost      = 10 * time.Second
	defaultTimeout   = 30 * time.Second
	defaultUserAgent = "postrider-go"
	defaultIdle      = 64 // connections kept
)

// Client enqueues events over HTTP. It is safe for concurrent use and keeps connections open, so make one and use it for all.
type Client struct {
	base, key   string
	agent       string
	http        *http.Client
	retries     int
	first, most time.Duration
	timeout     time.Duration
}

// Option changes a Client as New makes it.
type Option func(*Client) error

// New makes a Client for the server at a URL such as https://postrider.example.com, with an API key that has the scope
// events:write. It asks the server nothing yet.
func New(server, key string, opts ...Option) (*Client, error) {
	base, err := parseBase(server)
	if err != nil {
		return nil, err
	}
	if key == "" || !isPrintable(key) || strings.Contains(key, " ") {
		return nil, errors.New("postrider: the API key is empty or has characters that none has")
	}
	c := &Client{
		base: base, key: key, agent: defaultUserAgent, http: &http.Client{Transport: newTransport()},
		retries: defaultRetries, first: defaultFirst, most: defaultMost, timeout: defaultTimeout,
	}
	for _, opt := range opts {
		if err := opt(c); err != nil {
			return nil, err
		}
	}
	// Whoever is redirected to would be sent the key and the payload, and a POST can become a GET on the way.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// parseBase takes a server's URL with or without the /v1 that its API begins with.
func parseBase(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("postrider: the server's URL has to be one like https://postrider.example.com")
	}
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(server, "/"), "/v1"), "/"), nil
}

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: defaultIdle,
		IdleConnTimeout:     90 * time.Second,
	}
}

// WithHTTPClient has calls made by h, whose transport and time limit then hold. h itself is not changed, and redirects are
// not followed in any case. Default: a client of its own, which takes a proxy from the environment.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) error {
		if h == nil {
			return errors.New("postrider: WithHTTPClient needs a client")
		}
		own := *h
		c.http = &own
		return nil
	}
}

// WithRetries says how often a call is tried again after its first try failed in a way that may pass: no answer, or one of
// 408, 425, 429 and 5xx. 0: never. Default: 6.
func WithRetries(n int) Option {
	return func(c *Client) error {
		if n < 0 {
			return fmt.Errorf("postrider: %d retries make no sense", n)
		}
		c.retries = n
		return nil
	}
}

// WithBackoff says how long the waits between tries are: the first is up to first, each further one up to twice as long as the
// one before, and none longer than most. By chance a wait is down to half of that, so that those who failed together do not
// come back together. A Retry-After makes a wait longer. Default: 200 ms and 10 s.
func WithBackoff(first, most time.Duration) Option {
	return func(c *Client) error {
		if first <= 0 || most < first {
			return fmt.Errorf("postrider: waits from %s to %s make no sense", first, most)
		}
		c.first, c.most = first, most
		return nil
	}
}

// WithTimeout bounds each try, from the dial to the end of the answer; the context bounds the call. Default: 30 s.
func WithTimeout(d time.Duration) Option {
	return func(c *Client) error {
		if d <= 0 {
			return fmt.Errorf("postrider: a timeout of %s makes no sense", d)
		}
		c.timeout = d
		return nil
	}
}

// WithUserAgent says what the requests' User-Agent is, such as shop/1.2. Default: postrider-go.
func WithUserAgent(agent string) Option {
	return func(c *Client) error {
		if agent == "" || !isPrintable(agent) {
			return errors.New("postrider: a User-Agent has printable ASCII characters")
		}
		c.agent = agent
		return nil
	}
}

// isPrintable reports whether a header can hold s.
func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
}
