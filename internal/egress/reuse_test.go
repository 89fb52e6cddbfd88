package egress

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/pkitest"
)

// TestConnectionReuse: a body read to its end leaves the connection to the next request; a cut one and a 101 do not.
func TestConnectionReuse(t *testing.T) {
	t.Parallel()
	for answer, kept := range map[string]bool{
		okAnswer: true,
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd":                                         true,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n":              true,
		"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n":                                           true,
		"HTTP/1.1 307 Away\r\nLocation: /x\r\nContent-Length: 2\r\n\r\nok":                         true,
		"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabcdef":                                       false,
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok":                      false,
		"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n": false,
	} {
		w := newWire(t, answering(answer))
		client := newTestClient(t, Config{Policy: loopback()})
		// Three calls; more only if the machine is too busy for net/http to keep any connection in time.
		calls := 0
		for calls < 3 || (kept && calls < 100 && w.accepted() == calls) {
			calls++
			if a := do(client, newPost(t, hang, w.url("/"), []byte("{}")), 4); a.err != nil || a.bodyErr != nil {
				t.Fatal(a.err, a.bodyErr)
			}
		}
		if n := w.accepted(); (n < calls) != kept {
			t.Errorf("%.40q: %d connections for %d calls", answer, n, calls)
		}
	}
}

// TestTLSSessionIsResumed: a new connection to a receiver that was spoken to before saves the certificates and a signature, and over
// TLS 1.2 a round trip.
func TestTLSSessionIsResumed(t *testing.T) {
	t.Parallel()
	ca := pkitest.NewAuthority(t, "an authority")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, h2 := range []bool{false, true} {
			type connection struct {
				from    string
				resumed bool
			}
			served := make(chan connection, 1)
			cfg := ca.Server(t, pkitest.Wanted{Hosts: []string{"receiver.test"}})
			cfg.MinVersion, cfg.MaxVersion = version, version
			s := newHTTPServer(t, cfg, h2, func(_ http.ResponseWriter, r *http.Request) {
				served <- connection{r.RemoteAddr, r.TLS.DidResume}
			})
			c := newTestClient(t, Config{
				Policy: loopback(), TLS: &tls.Config{RootCAs: ca.Pool()},
				Resolver: newResolver(t, fixed(map[string]string{"receiver.test": "127.0.0.1"})),
			})
			_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
			seen := map[string]bool{}
			// A connection may be a moment late to be idle, and then serves the next request too.
			for len(seen) < 3 {
				// The ticket comes before the answer, so that it has been read when the answer has.
				mustDo(t, c, newPost(t, hang, "https://receiver.test:"+port+"/", []byte("{}")))
				c.CloseIdleConnections()
				if got := <-served; !seen[got.from] {
					if got.resumed != (len(seen) > 0) {
						t.Errorf("%s, HTTP/2 %v: connection %d resumed: %v", tls.VersionName(version), h2, len(seen), got.resumed)
					}
					seen[got.from] = true
				}
			}
		}
	}
}

// TestBurstKeepsItsConnections: what a burst of requests to one host has opened, the next one uses. By itself net/http keeps two
// for a host. It does not keep one whose answer outruns the news that the request was written, as may happen on a busy machine;
// hence as many bursts as it takes.
func TestBurstKeepsItsConnections(t *testing.T) {
	t.Parallel()
	const burst = 32
	arrived := make(chan chan struct{}, burst) // each request of a burst with how to let it go
	s := newHTTPServer(t, nil, false, func(_ http.ResponseWriter, r *http.Request) {
		leave := make(chan struct{})
		arrived <- leave
		select {
		case <-leave:
		case <-r.Context().Done():
		}
	})
	c := newTestClient(t, Config{Policy: loopback()})
	send := func() (reused int64) {
		var again atomic.Int64
		ctx := httptrace.WithClientTrace(within(t, hang), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
			if i.Reused {
				again.Add(1)
			}
		}})
		var wg sync.WaitGroup
		for range burst {
			wg.Go(func() { _ = do(c, newPost(t, hang, s.URL, []byte("{}")).WithContext(ctx), 10) })
		}
		// All are held until all are here, so that no connection serves two of a burst.
		held := make([]chan struct{}, burst)
		for i := range held {
			held[i] = <-arrived
		}
		for _, leave := range held {
			close(leave)
		}
		wg.Wait()
		return again.Load()
	}
	for range 100 {
		if send() > burst/2 {
			return
		}
	}
	t.Errorf("no burst of %d used more than half as many connections again", burst)
}

// TestIdleConnectionsAreBounded: 0 would be no bound at net/http.
func TestIdleConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	tr := newTestClient(t, Config{}).transport
	if tr.MaxIdleConns <= 0 || tr.MaxIdleConnsPerHost > tr.MaxIdleConns || tr.IdleConnTimeout <= 0 || tr.IdleConnTimeout > time.Minute {
		t.Errorf("%d, %d per host, %v", tr.MaxIdleConns, tr.MaxIdleConnsPerHost, tr.IdleConnTimeout)
	}
}
