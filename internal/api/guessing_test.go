package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/auth"
)

// guessers is a world that trusts the test's own address as a proxy, so that a request may come from anywhere, and that
// takes three failures of an address.
type guessers struct {
	*world
	mu   sync.Mutex
	told map[auth.Failure]int
	held []netip.Addr
}

func newGuessers(t *testing.T) *guessers {
	t.Helper()
	g := &guessers{told: map[auth.Failure]int{}}
	g.world = newWorld(t, func(d *api.Deps) {
		d.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		d.Door = auth.NewDoor(d.Keys, auth.DoorOptions{
			Burst: 3,
			Tell:  func(f auth.Failure) { g.mu.Lock(); g.told[f]++; g.mu.Unlock() },
			Warn:  func(a netip.Addr) { g.mu.Lock(); g.held = append(g.held, a); g.mu.Unlock() },
		})
	})
	return g
}

// list reads from an address with a key, enqueue posts an event, by the quick way.
func (g *guessers) list(from, key string) response {
	return g.do(request{method: "GET", path: "/v1/deliveries", key: key, header: map[string]string{"X-Forwarded-For": from}})
}

func (g *guessers) enqueue(from, key string) response {
	return g.do(request{method: "POST", path: "/v1/tenants/acme/events", key: key, body: `{"type":"a","payload":1}`, header: map[string]string{"X-Forwarded-For": from}})
}

func TestAnAddressThatGuessesIsHeldUp(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]func(*guessers, string, string) response{"the general way": (*guessers).list, "the quick way": (*guessers).enqueue} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuessers(t)
			tenant := g.tenant("acme")
			neighbour, stranger := g.apiKey(tenant, "admin"), g.apiKey(tenant, "admin")
			want := func(status int, from, key string) response {
				t.Helper()
				res := way(g, from, key)
				if res.status != status && !(status == http.StatusOK && res.status == http.StatusAccepted) {
					t.Errorf("from %s with %.12s…: %d, want %d: %s", from, key, res.status, status, res.body)
				}
				return res
			}
			const home = "192.0.2.1"
			want(200, home, neighbour)
			for i := range 3 {
				want(401, home, "prk_guess_number_"+strconv.Itoa(i))
			}
			res := want(429, home, "prk_guess_number_3")
			if after, err := strconv.Atoi(res.header.Get("Retry-After")); err != nil || after < 1 || after > 3 {
				t.Errorf("Retry-After: %q", res.header.Get("Retry-After"))
			}
			if res.header.Get("WWW-Authenticate") != "" {
				t.Error("it is asked for a key, as if it had none")
			}
			want(200, home, neighbour) // a key that was good behind the same address
			want(429, home, stranger)  // one that was not seen yet
			want(200, "192.0.2.2", stranger)
			want(200, home, stranger) // and now it was
			want(401, home, "none")   // without a key nobody guesses
			// A key that was revoked is no neighbour's any more, though its last use was a good one.
			if err := g.keys.Revoke(t.Context(), g.principal(neighbour).Key); err != nil {
				t.Fatal(err)
			}
			if res := way(g, home, neighbour); res.status == 200 || res.status == 202 {
				t.Errorf("a revoked key passes: %d", res.status)
			}
			want(429, home, neighbour)
			want(200, home, stranger) // the revocation of one does not make the others unknown

			g.mu.Lock()
			defer g.mu.Unlock()
			// The quick way finds the revoked key out, and leaves it to the general one to say so, which holds it up.
			told := map[auth.Failure]int{auth.NoKey: 1, auth.UnknownKey: 4, auth.TooMany: 3}
			if name == "the quick way" {
				told[auth.UnknownKey], told[auth.TooMany] = 3, 4
			}
			if !maps.Equal(g.told, told) {
				t.Errorf("told of %v", g.told)
			}
			if len(g.held) != 1 || g.held[0] != netip.MustParseAddr(home) {
				t.Errorf("warned of %v", g.held)
			}
		})
	}
}

func (g *guessers) principal(key string) auth.Principal {
	g.t.Helper()
	p, err := g.keys.Authenticate(g.t.Context(), key)
	if err != nil {
		g.t.Fatal(err)
	}
	return p
}

// The customers of a network are told apart by their /64, and what a client writes into the header itself counts for
// nothing.
func TestWhoIsHeldUpWithAnAddress(t *testing.T) {
	t.Parallel()
	g := newGuessers(t)
	for i := range 3 {
		g.list(fmt.Sprintf("198.51.100.%d, 2001:db8::%d", i, i+1), "prk_guess_number_"+strconv.Itoa(i))
	}
	for from, want := range map[string]int{
		"2001:db8::ffff": 429, "2001:db8:0:0:1::": 429, "192.0.2.7, [2001:db8::9]:4711": 429, "2001:db8:0:1::1": 401, "198.51.100.0": 401, "": 401,
	} {
		if res := g.list(from, "prk_another_guess"); res.status != want {
			t.Errorf("from %q: %d, want %d", from, res.status, want)
		}
	}
	log := g.log.String()
	if !strings.Contains(log, `"status":429`) || !strings.Contains(log, `"from":"2001:db8::ffff"`) {
		t.Errorf("the log does not say who was held up: %s", log)
	}
}
