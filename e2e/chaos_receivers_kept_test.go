//go:build chaos

package e2e

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Receivers that end kept-alive connections around the moment at which the next request comes, many times. Whatever the order
// of the two is, each attempt is a request that the receiver saw, and each such request is an attempt: a connection that died
// before the first byte of a request is dialled anew (decision 0013), any other is a failure, which is retried.
func TestChaosReceiversEndKeptConnections(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	p := serve(t, settings{
		// Every other attempt fails in some: none of 80 deliveries may ever run out of them.
		"DELIVERY_RETRY_SCHEDULE": strings.Repeat("50ms,", 39) + "50ms",
		"SSL_CERT_FILE":           ca.file, "DELIVERY_TIMEOUT": "10s", "DELIVERY_LEASE": "20s",
	})
	for _, secure := range []*tls.Config{nil, ca.server(t, "http/1.1")} {
		for _, c := range []struct {
			name   string
			play   func(*guest)
			broken bool // each second request of a connection fails for certain
		}{
			// FC-020: the receiver has the second request whole, and hangs up.
			{"hangs up on the second request", func(g *guest) {
				if g.request() && g.say(ok) && g.request() {
					return
				}
			}, true},
			{"resets on the second request", func(g *guest) {
				if g.request() && g.say(ok) && g.request() {
					g.reset()
				}
			}, true},
			{"hangs up on the first byte of the second request", func(g *guest) {
				if g.request() && g.say(ok) && g.first() {
					g.reset()
				}
			}, true},
			// The receiver says it will close and does, or does so without a word.
			{"closes after each answer, and says so", func(g *guest) {
				if g.request() {
					g.say(answer(http.StatusOK, "Connection: close"))
				}
			}, false},
			// It stops talking with the answer's last byte, and reads on, so that it sees what was sent too late.
			{"closes after each answer without a word", func(g *guest) {
				if g.request() && g.say(ok) {
					g.deafen()
				}
			}, false},
			{"closes a moment after each answer", func(g *guest) {
				if g.request() && g.say(ok) {
					<-time.After(time.Duration(g.n%20) * 500 * time.Microsecond)
					g.deafen()
				}
			}, false},
		} {
			name := c.name
			if secure != nil {
				name += ", TLS"
			}
			t.Run(name, func(t *testing.T) {
				r := &rogue{tls: secure, play: c.play}
				r.serve(t)
				p.endsKept(t, r, c.broken)
			})
		}
	}
}

// deafen ends our half of the connection, and counts the requests that come all the same.
func (g *guest) deafen() {
	if secure, is := g.Conn.(*tls.Conn); is {
		_ = secure.CloseWrite()
	}
	_ = g.raw.CloseWrite()
	for g.request() {
		continue // nobody answers it
	}
}

// endsKept sends events one after the other, each as soon as the one before has been answered, and compares the books.
func (p *process) endsKept(t *testing.T, r *rogue, broken bool) {
	t.Helper()
	tenant := p.tenant()
	p.endpoint(tenant, r.url(), object{"max_in_flight": 2})
	n := load(80)
	p.batch(tenant, many("kept", n))
	var all []object
	eventually(t, func() string {
		all = p.get("/v1/deliveries?limit=250&tenant=" + tenant).list("data")
		for _, d := range all {
			if d.text("state") != "succeeded" {
				return "not delivered: " + sprint(d)
			}
		}
		return ""
	})
	attempts, lost := 0, 0
	for _, d := range all {
		attempts += d.number("attempts")
		for _, a := range p.attempts(d) {
			switch outcome := a.text("outcome"); outcome {
			case "succeeded":
			case "connect_error":
				lost++
			default:
				t.Errorf("an attempt is %s", sprint(a))
			}
		}
	}
	conns, requests := r.counted()
	if len(all) != n || attempts != n+lost || requests != attempts {
		t.Errorf("%d deliveries of %d in %d attempts, %d of them in vain, in %d requests", len(all), n, attempts, lost, requests)
	}
	if broken && lost == 0 {
		t.Error("no request came over a kept-alive connection")
	}
	t.Logf("%d deliveries in %d attempts on %d connections", n, attempts, conns)
}
