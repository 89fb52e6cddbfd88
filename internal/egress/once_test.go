package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/postrider/postrider/internal/pkitest"
)

// TestOneRequestPerDo is FC-020: a receiver that takes the second request of a connection whole and hangs up. Each Do is one
// request on the wire, also where net/http would send again (an Idempotency-Key, an empty body).
func TestOneRequestPerDo(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "Idempotency-Key", "X-Idempotency-Key"} {
		for _, body := range []string{`{"a":1}`, ""} {
			t.Run(key+"/"+body, func(t *testing.T) {
				t.Parallel()
				var hungUp atomic.Bool // once is enough
				w := newWire(t, func(x *exchange) {
					for n := 0; ; n++ {
						if _, _, err := x.read(); err != nil || (n == 1 && hungUp.CompareAndSwap(false, true)) {
							return
						}
						x.say(okAnswer)
					}
				})
				c := newTestClient(t, Config{Policy: loopback()})
				post := func() error {
					req := newPost(t, hang, w.url("/"), []byte(body))
					if key != "" {
						req.Header.Set(key, "k")
					}
					return do(c, req, 10).err
				}
				// On a busy machine a connection may not be kept in time, so it can take more than two calls.
				calls, err := 0, error(nil)
				for ; !hungUp.Load() && err == nil; calls++ {
					err = post()
				}
				if !errors.Is(err, io.EOF) && !errors.Is(err, errRefused) {
					t.Errorf("the call that was hung up on: %v", err)
				}
				if err := post(); err != nil {
					t.Errorf("the one after: %v", err)
				}
				if n := len(w.requests()); n != calls+1 {
					t.Errorf("%d requests on the wire for %d calls", n, calls+1)
				}
			})
		}
	}
}

// TestOneRequestPerDoHTTP2: where HTTP/2 would send again by itself.
func TestOneRequestPerDoHTTP2(t *testing.T) {
	t.Parallel()
	rst := func(code http2.ErrCode) func(*h2call) bool {
		return func(c *h2call) bool { return c.fr.WriteRSTStream(c.stream, code) == nil }
	}
	for name, script := range map[string]func(*h2call) bool{
		"REFUSED_STREAM": rst(http2.ErrCodeRefusedStream),
		"PROTOCOL_ERROR": rst(http2.ErrCodeProtocol),
		"GOAWAY": func(c *h2call) bool {
			return c.fr.WriteGoAway(0, http2.ErrCodeNo, nil) == nil
		},
		"GOAWAY and close": func(c *h2call) bool {
			c.readBody()
			_ = c.fr.WriteGoAway(0, http2.ErrCodeNo, nil)
			return false
		},
	} {
		for _, body := range []string{`{"a":1}`, ""} {
			t.Run(name+"/"+body, func(t *testing.T) {
				t.Parallel()
				h := newH2(t, script)
				c := newTestClient(t, h.config())
				for call := 1; call <= 2; call++ {
					req := newPost(t, hang, h.url(), []byte(body))
					req.Header.Set("Idempotency-Key", "k")
					err := mustFail(t, c, req)
					if !errors.Is(err, errRefused) {
						t.Errorf("call %d: %v", call, err)
					}
					if n := h.seen(); n != call {
						t.Fatalf("%d requests on the wire after %d calls", n, call)
					}
				}
			})
		}
	}
}

// TestHTTP2Busy: a connection without a free stream is no reason to fail, and not one to send twice. The receiver takes the
// 100 streams at a time the client supposes until it is told, and answers none before a second connection is needed.
func TestHTTP2Busy(t *testing.T) {
	t.Parallel()
	const streams, calls = 100, 120
	var seen atomic.Int64
	enough := make(chan struct{})
	ca := pkitest.NewAuthority(t, "an authority")
	s := newHTTPServer(t, ca.Server(t, pkitest.Wanted{Hosts: []string{"127.0.0.1"}}), true, func(_ http.ResponseWriter, r *http.Request) {
		if seen.Add(1) == streams+1 {
			close(enough)
		}
		if r.ProtoMajor != 2 {
			t.Errorf("%s", r.Proto)
		}
		select {
		case <-enough:
		case <-r.Context().Done():
		}
	})
	c := newTestClient(t, Config{Policy: loopback(), TLS: &tls.Config{RootCAs: ca.Pool()}})
	var wg sync.WaitGroup
	for i := range calls {
		req := newPost(t, hang, s.URL, []byte("{}")[:2*(i%2)])
		wg.Go(func() {
			if a := do(c, req, 10); a.err != nil || a.bodyErr != nil {
				t.Error(a.err, a.bodyErr)
			}
		})
	}
	wg.Wait()
	if n := seen.Load(); n != calls {
		t.Errorf("%d requests for %d calls", n, calls)
	}
}

// TestSecondPassageIsBarred: when the transport hands a request that was sent another connection, its context is over (if it has no
// body and so could be sent again) and, over HTTP/1.1, nothing can be written there.
func TestSecondPassageIsBarred(t *testing.T) {
	t.Parallel()
	for _, sent := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		f := &flight{Context: ctx, cancel: cancel}
		first, second := newConn(discard{}), newConn(discard{})
		f.gotConn(httptrace.GotConnInfo{Conn: first})
		if sent {
			_, _ = first.Write([]byte("x"))
		}
		f.gotConn(httptrace.GotConnInfo{Conn: second, Reused: true})
		n, err := second.Write([]byte("x"))
		if errors.Is(err, errRefused) != sent || (n == 0) != sent || errors.Is(context.Cause(ctx), errRefused) != sent {
			t.Errorf("sent %v: wrote %d, %v; context %v", sent, n, err, context.Cause(ctx))
		}
	}
}

// TestSecondPassageWithBody is the same for a request whose context cannot be ended: over HTTP/1.1 the connection alone is barred, and
// else it waits.
func TestSecondPassageWithBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		again := func(second net.Conn) time.Duration {
			first := newConn(discard{})
			f := &flight{Context: ctx}
			f.gotConn(httptrace.GotConnInfo{Conn: first})
			_, _ = first.Write([]byte("x"))
			f.gotConn(httptrace.GotConnInfo{Conn: second})
			return time.Since(began)
		}
		second := newConn(discard{})
		if waited := again(second); waited != 0 {
			t.Errorf("HTTP/1.1 waited %v", waited)
		}
		if n, err := second.Write([]byte("x")); n != 0 || !errors.Is(err, errRefused) {
			t.Errorf("HTTP/1.1 wrote %d, %v", n, err)
		}
		if waited := again(discard{}); waited != time.Hour {
			t.Errorf("a connection that is none of ours, after %v", waited)
		}
	})
}

// discard is a connection that takes everything.
type discard struct{ net.Conn }

func (discard) RemoteAddr() net.Addr { return &net.TCPAddr{} }

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// gate stands below a client's connection and holds back the news that the peer has gone, to bring about what happens
// otherwise by chance: a kept-alive connection that is dead when it is handed out.
type gate struct {
	net.Conn
	armed   atomic.Bool   // hold from now on
	gone    chan struct{} // closed when something has come and is held
	open    chan struct{} // closing it lets the reader hear of it
	closed  chan struct{} // closed by Close
	once    sync.Once
	onOpen  sync.Once
	onClose sync.Once
}

func (g *gate) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if g.armed.Load() {
		g.once.Do(func() { close(g.gone) })
		<-g.open
	}
	return n, err
}

// Write lets the reader hear of it once a request has come this far, if nothing has before.
func (g *gate) Write(p []byte) (int, error) {
	n, err := g.Conn.Write(p)
	if g.armed.Load() {
		g.release()
	}
	return n, err
}

func (g *gate) release() { g.onOpen.Do(func() { close(g.open) }) }

func (g *gate) Close() error {
	g.onClose.Do(func() { close(g.closed) })
	return g.Conn.Close()
}

// gateFirst puts a gate below the first connection c dials.
func gateFirst(t *testing.T, c *Client) *gate {
	t.Helper()
	g := &gate{gone: make(chan struct{}), open: make(chan struct{}), closed: make(chan struct{})}
	var dialled atomic.Int64
	c.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := c.dialer.dial(ctx, network, address)
		if err == nil && dialled.Add(1) == 1 {
			base := nc.(*conn)
			g.Conn, base.Conn = base.Conn, g
		}
		return nc, err
	}
	return g
}

// staleCase is one way for a kept-alive connection to be dead.
type staleCase struct {
	name  string
	reset bool // the receiver goes with an RST, so that the first write fails; else with a FIN, so that it does not
	early bool // the client hears of it when it has taken the connection and written nothing
	again bool // what is right: dial anew
	body  string
}

// TestStaleConnection: a kept-alive connection that died before our first byte is dialled anew; one that died after is not.
func TestStaleConnection(t *testing.T) {
	t.Parallel()
	ca := pkitest.NewAuthority(t, "an authority")
	for _, c := range []staleCase{
		{"reset, unheard", true, false, true, `{"a":1}`},
		{"reset, unheard, no body", true, false, true, ""},
		{"reset, heard in time", true, true, true, `{"a":1}`},
		{"closed, heard in time", false, true, true, `{"a":1}`},
		{"closed, heard in time, no body", false, true, true, ""},
		{"closed, unheard", false, false, false, `{"a":1}`},
		{"closed, unheard, no body", false, false, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for !c.run(t, nil, nil) {
			}
		})
		t.Run(c.name+", TLS", func(t *testing.T) {
			t.Parallel()
			for !c.run(t, ca.Server(t, pkitest.Wanted{Hosts: []string{"127.0.0.1"}}), &tls.Config{RootCAs: ca.Pool()}) {
			}
		})
	}
}

// run brings the case about. It gives false when the connection was not kept alive, as it may be on a busy machine: net/http waits
// 50 ms for word of the write and no longer.
func (c staleCase) run(t *testing.T, server, client *tls.Config) (kept bool) {
	t.Helper()
	leave := make(chan struct{})
	w, scheme := c.receiver(t, server, leave)
	egress := newTestClient(t, Config{Policy: loopback(), TLS: client})
	g := gateFirst(t, egress)
	post := func(trace *httptrace.ClientTrace) *http.Request {
		req := newPost(t, hang, scheme+w.addr+"/", []byte(c.body))
		return req.WithContext(httptrace.WithClientTrace(req.Context(), trace))
	}
	var idle atomic.Bool
	mustDo(t, egress, post(&httptrace.ClientTrace{PutIdleConn: func(err error) { idle.Store(err == nil) }}))
	if !idle.Load() {
		g.release()
		close(leave)
		return false
	}
	g.armed.Store(true)
	close(leave)
	<-g.gone

	var handed atomic.Int64
	err := do(egress, post(&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if handed.Add(1) == 1 && c.early {
			g.release()
			<-g.closed
		}
	}}), 10).err
	want := int64(1)
	if c.again {
		want = 2
	}
	if (err == nil) != c.again || handed.Load() != want || int64(w.accepted()) != want {
		t.Errorf("error %v, %d connections taken, %d accepted", err, handed.Load(), w.accepted())
	}
	return true
}

// receiver answers the first request of its first connection, and goes when told; later connections it serves.
func (c staleCase) receiver(t *testing.T, cfg *tls.Config, leave <-chan struct{}) (w *wire, scheme string) {
	t.Helper()
	script := func(x *exchange) {
		if x.n > 0 {
			answering(okAnswer)(x)
			return
		}
		if _, _, err := x.read(); err != nil {
			return
		}
		x.say(okAnswer)
		<-leave
		if c.reset {
			x.reset()
		}
	}
	if cfg == nil {
		return newWire(t, script), "http://"
	}
	return newTLSWire(t, cfg, script), "https://"
}

// TestFreshConnectionIsNotRedialled: a receiver that hangs up on a new connection means it, sent or not.
func TestFreshConnectionIsNotRedialled(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 10)
	w := newWire(t, func(x *exchange) {
		x.reset()
		gone <- struct{}{}
	})
	c := newTestClient(t, Config{Policy: loopback()})
	c.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := c.dialer.dial(ctx, network, address)
		<-gone // so that no byte is written, or hardly ever
		return nc, err
	}
	const calls = 20
	for range calls {
		_ = mustFail(t, c, newPost(t, hang, w.url("/"), []byte("{}")))
	}
	if n := w.accepted(); n != calls {
		t.Errorf("%d connections for %d calls", n, calls)
	}
}

// TestCallersTraceStillFires: the hooks Do needs do not cost the caller its own.
func TestCallersTraceStillFires(t *testing.T) {
	t.Parallel()
	ca := pkitest.NewAuthority(t, "an authority")
	for _, h2 := range []bool{false, true} {
		s := newHTTPServer(t, ca.Server(t, pkitest.Wanted{Hosts: []string{"receiver.test"}}), h2, http.NotFound)
		c := newTestClient(t, Config{
			Policy: loopback(), TLS: &tls.Config{RootCAs: ca.Pool()},
			Resolver: newResolver(t, fixed(map[string]string{"receiver.test": "127.0.0.1"})),
		})
		var mu sync.Mutex
		fired := map[string]int{}
		note := func(name string) {
			mu.Lock()
			defer mu.Unlock()
			fired[name]++
		}
		ctx := httptrace.WithClientTrace(within(t, hang), &httptrace.ClientTrace{
			DNSStart:         func(httptrace.DNSStartInfo) { note("dns start") },
			DNSDone:          func(httptrace.DNSDoneInfo) { note("dns done") },
			ConnectDone:      func(string, string, error) { note("connect done") },
			TLSHandshakeDone: func(tls.ConnectionState, error) { note("tls done") },
			GotConn: func(info httptrace.GotConnInfo) {
				note("got conn")
				if addr := info.Conn.RemoteAddr(); addr.Network() != "tcp" || addr.String() != s.Listener.Addr().String() {
					t.Errorf("HTTP/2 %v: a connection to %s %s", h2, addr.Network(), addr)
				}
			},
			WroteHeaders:         func() { note("wrote headers") },
			WroteRequest:         func(httptrace.WroteRequestInfo) { note("wrote request") },
			GotFirstResponseByte: func() { note("first byte") },
		})
		url := "https://receiver.test:" + s.URL[strings.LastIndex(s.URL, ":")+1:]
		if status, _ := mustDo(t, c, newPost(t, hang, url, []byte("{}")).WithContext(ctx)); status != http.StatusNotFound {
			t.Errorf("status %d", status)
		}
		for _, name := range []string{"dns start", "dns done", "connect done", "tls done", "got conn", "wrote headers", "wrote request", "first byte"} {
			if fired[name] != 1 {
				t.Errorf("HTTP/2 %v: %s fired %d times", h2, name, fired[name])
			}
		}
	}
}
