package egress

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// v4 and v6 are addresses on which a test's own control decides what becomes of a dial. The first two have listeners.
var v4, v6, otherV4, otherV6 = net.IPAddr{IP: net.IPv4(127, 0, 0, 1)}, net.IPAddr{IP: net.IPv6loopback},
	net.IPAddr{IP: net.IPv4(127, 0, 0, 2)}, net.IPAddr{IP: net.ParseIP("2001:db8::1")}

var errTurnedAway = errors.New("turned away")

// TestRoute: which address is taken when, and what is said if it is none. The fate of an address is "" (answers), "mute" (nothing
// until the time is up) or "no" (fails at once).
func TestRoute(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		addrs []net.IPAddr
		fates map[string]string
		to    string        // what is reached; "" is nothing
		after time.Duration // on the test's clock
		err   string        // address and cause, of the first
	}{
		"one":                        {[]net.IPAddr{v4}, nil, "127.0.0.1", 0, ""},
		"first of two":               {[]net.IPAddr{v4, otherV4}, nil, "127.0.0.1", 0, ""},
		"second, first fails":        {[]net.IPAddr{otherV4, v4}, map[string]string{"127.0.0.2": "no"}, "127.0.0.1", 0, ""},
		"second, first is mute":      {[]net.IPAddr{otherV4, v4}, map[string]string{"127.0.0.2": "mute"}, "127.0.0.1", 5 * time.Second, ""},
		"other family, first fails":  {[]net.IPAddr{otherV6, v4}, map[string]string{"2001:db8::1": "no"}, "127.0.0.1", 0, ""},
		"other family, first mute":   {[]net.IPAddr{otherV6, v4}, map[string]string{"2001:db8::1": "mute"}, "127.0.0.1", secondFamilyAfter, ""},
		"other family, the same way": {[]net.IPAddr{otherV4, v6}, map[string]string{"127.0.0.2": "mute"}, "::1", secondFamilyAfter, ""},
		"all fail":                   {[]net.IPAddr{otherV4, otherV6}, map[string]string{"127.0.0.2": "no", "2001:db8::1": "no"}, "", 0, "127.0.0.2 turned away"},
		"all fail, v6 first":         {[]net.IPAddr{otherV6, otherV4}, map[string]string{"127.0.0.2": "no", "2001:db8::1": "no"}, "", 0, "2001:db8::1 turned away"},
		"all mute":                   {[]net.IPAddr{otherV4, otherV6}, map[string]string{"127.0.0.2": "mute", "2001:db8::1": "mute"}, "", 10 * time.Second, "127.0.0.2 i/o timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				port := listenBoth(t)
				r := route{network: "tcp", port: port, dialer: &net.Dialer{
					ControlContext: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
						host, _, _ := net.SplitHostPort(address)
						switch c.fates[host] {
						case "no":
							return errTurnedAway
						case "mute":
							<-ctx.Done()
							return context.Cause(ctx)
						}
						return nil
					},
				}}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				began := time.Now()
				conn, err := r.dial(ctx, c.addrs)
				if took := time.Since(began); took != c.after {
					t.Errorf("after %v, want %v", took, c.after)
				}
				if err == nil {
					defer conn.Close()
					if got := conn.RemoteAddr().(*net.TCPAddr).IP.String(); got != c.to {
						t.Errorf("reached %s, want %q", got, c.to)
					}
					return
				}
				var op *net.OpError
				if !errors.As(err, &op) || op.Op != "dial" || op.Addr == nil || c.to != "" {
					t.Fatalf("%v, want %q", err, c.to)
				}
				host, _, _ := net.SplitHostPort(op.Addr.String())
				addr, cause, _ := strings.Cut(c.err, " ")
				if host != addr || !strings.Contains(op.Err.Error(), cause) && !op.Timeout() {
					t.Errorf("%v, want %s", err, c.err)
				}
			})
		})
	}
}

// listenBoth listens on v4 and v6 on one port without ever accepting; the backlog is enough.
func listenBoth(t *testing.T) (port string) {
	t.Helper()
	four, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = four.Close() })
	_, port, _ = net.SplitHostPort(four.Addr().String())
	six, err := net.Listen("tcp6", "[::1]:"+port)
	if err != nil {
		t.Skipf("no ::1 on this host, or its port %s is taken: %v", port, err)
	}
	t.Cleanup(func() { _ = six.Close() })
	return port
}

// TestRaceClosesTheLoser: when both families get through, the connection that nobody wants is closed.
func TestRaceClosesTheLoser(t *testing.T) {
	t.Parallel()
	for _, firstWins := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			won, lost := &closing{}, &closing{}
			quick := func(context.Context) (net.Conn, error) { return won, nil }
			late := func(ctx context.Context) (net.Conn, error) {
				<-ctx.Done() // and yet it got through
				return lost, nil
			}
			first, second := quick, late
			if !firstWins {
				first, second = late, quick
			}
			c, err := race(t.Context(), first, second)
			synctest.Wait()
			if c != won || err != nil || won.closed || !lost.closed {
				t.Errorf("first wins %v: error %v; closed: winner %v, loser %v", firstWins, err, won.closed, lost.closed)
			}
		})
	}
}

// closing is a connection that knows whether it was closed.
type closing struct {
	net.Conn
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}
