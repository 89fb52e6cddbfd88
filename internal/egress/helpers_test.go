package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// hang is the time after which a test that waits for something is broken. Nothing is asserted about it.
const hang = 20 * time.Second

// loopback is the policy most tests run with.
func loopback() Policy {
	return Policy{AllowHTTP: true, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

func newTestClient(t testing.TB, cfg Config) *Client {
	t.Helper()
	c := New(cfg)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// newPost makes the kind of request the dispatcher makes, with a deadline in d.
func newPost(t testing.TB, d time.Duration, url string, body []byte) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t, d), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "Postrider/test")
	return req
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// wire is a TCP receiver that speaks only what its script says, and keeps what it was sent.
type wire struct {
	ln   net.Listener
	addr string // host:port

	mu    sync.Mutex
	heads []string
	conns []net.Conn
	wg    sync.WaitGroup
}

// exchange is one connection from the receiver's side.
type exchange struct {
	net.Conn
	br   *bufio.Reader
	n    int           // the connection's number, from 0
	done chan struct{} // closed when the test ends
	wire *wire
}

// newWire serves each connection to 127.0.0.1 by script until the test ends. The connection is closed when script returns.
func newWire(t testing.TB, script func(*exchange)) *wire {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveWire(t, ln, script)
}

func serveWire(t testing.TB, ln net.Listener, script func(*exchange)) *wire {
	t.Helper()
	w := &wire{ln: ln, addr: ln.Addr().String()}
	done := make(chan struct{})
	w.wg.Go(func() {
		for n := 0; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			w.mu.Lock()
			w.conns = append(w.conns, c)
			w.mu.Unlock()
			w.wg.Go(func() {
				defer c.Close()
				script(&exchange{Conn: c, br: bufio.NewReader(c), n: n, done: done, wire: w})
			})
		}
	})
	t.Cleanup(func() {
		close(done)
		_ = ln.Close()
		w.mu.Lock()
		for _, c := range w.conns {
			_ = c.Close()
		}
		w.mu.Unlock()
		w.wg.Wait()
	})
	return w
}

func (w *wire) url(path string) string { return "http://" + w.addr + path }

// requests gives the request heads seen so far, in the order they came.
func (w *wire) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.heads...)
}

// accepted gives the number of connections so far.
func (w *wire) accepted() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.conns)
}

// read takes one whole request off the wire.
func (x *exchange) read() (head string, body []byte, err error) {
	var b strings.Builder
	for {
		line, err := x.br.ReadString('\n')
		if err != nil {
			return "", nil, err
		}
		b.WriteString(line)
		if line == "\r\n" {
			break
		}
	}
	head = b.String()
	x.wire.mu.Lock()
	x.wire.heads = append(x.wire.heads, head)
	x.wire.mu.Unlock()
	n, err := strconv.Atoi(headerOf(head, "content-length"))
	if err != nil {
		return head, nil, errors.New("no content-length")
	}
	body = make([]byte, n)
	_, err = io.ReadFull(x.br, body)
	return head, body, err
}

// say writes raw bytes.
func (x *exchange) say(s string) bool {
	_, err := io.WriteString(x, s)
	return err == nil
}

// reset closes the connection with an RST.
func (x *exchange) reset() {
	c := x.Conn
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

func headerOf(head, name string) string {
	for line := range strings.SplitSeq(head, "\r\n") {
		k, v, ok := strings.Cut(line, ":")
		if ok && strings.EqualFold(k, name) {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// answering reads requests and gives each the same raw answer, for as long as the connection lasts.
func answering(raw string) func(*exchange) {
	return func(x *exchange) {
		for {
			if _, _, err := x.read(); err != nil {
				return
			}
			if !x.say(raw) {
				return
			}
		}
	}
}

// answer is what came of one request: err, or the rest.
type answer struct {
	status    int
	header    http.Header
	body      []byte
	truncated bool
	bodyErr   error
	err       error
}

// do sends req and reads up to limit bytes of the answer's body.
func do(c *Client, req *http.Request, limit int64) answer {
	resp, err := c.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	a.body, a.truncated, a.bodyErr = readExcerpt(resp, limit)
	return a
}

// itsDeadline reports whether err is the context's own and nothing around it. net's time-outs say they are that too, so errors.Is
// cannot tell the end of an attempt from the end of a dial.
func itsDeadline(err error) bool {
	return err == context.DeadlineExceeded //nolint:errorlint // see above
}

// mustDo posts and gives the status and the whole body.
func mustDo(t testing.TB, c *Client, req *http.Request) (status int, body string) {
	t.Helper()
	a := do(c, req, 1<<20)
	if err := errors.Join(a.err, a.bodyErr); err != nil {
		t.Fatal(err)
	}
	return a.status, string(a.body)
}

// mustFail posts and gives the error.
func mustFail(t testing.TB, c *Client, req *http.Request) error {
	t.Helper()
	a := do(c, req, 0)
	if a.err == nil {
		t.Errorf("%s: status %d, want an error", req.URL, a.status)
	}
	return a.err
}

// newHTTPServer is net/http's own server, for what needs no hand-made receiver: plain without cfg, HTTP/2 with h2, up to 100
// streams at a time.
func newHTTPServer(t testing.TB, cfg *tls.Config, h2 bool, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 100}
	s.EnableHTTP2 = h2
	if s.TLS = cfg; cfg == nil {
		s.Start()
	} else {
		s.StartTLS()
	}
	t.Cleanup(s.Close)
	return s
}

// readExcerpt reads as the dispatcher does, and says what became of the body.
func readExcerpt(resp *http.Response, limit int64) (body []byte, truncated bool, err error) {
	defer func() { _ = resp.Body.Close() }()                   // the excerpt is in hand; Close can only say that the rest is lost
	body, err = io.ReadAll(io.LimitReader(resp.Body, limit+1)) // one more, to tell "all" from "more"
	if int64(len(body)) > limit {
		return body[:limit], true, nil
	}
	return body, false, err
}

// newTLSWire is newWire behind TLS.
func newTLSWire(t testing.TB, cfg *tls.Config, script func(*exchange)) *wire {
	t.Helper()
	ln, err := tls.Listen("tcp4", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return serveWire(t, ln, script)
}
