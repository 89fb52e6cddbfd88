package egress

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/postrider/postrider/internal/fault"
)

// perLookup is how many questions a lookup is: one for v4 and one for v6.
const perLookup = 2

// directory is a zone that counts and can be changed.
type directory struct {
	mu    sync.Mutex
	addrs map[string][]netip.Addr
	code  dnsmessage.RCode // for the names that are not in addrs
	asked map[string]int
}

func newDirectory() *directory {
	return &directory{addrs: map[string][]netip.Addr{}, code: dnsmessage.RCodeNameError, asked: map[string]int{}}
}

func (d *directory) set(name string, addrs ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addrs[name] = nil
	for _, a := range addrs {
		d.addrs[name] = append(d.addrs[name], netip.MustParseAddr(a))
	}
}

// lookups gives how often a name was looked up.
func (d *directory) lookups(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return (d.asked[name] + perLookup - 1) / perLookup
}

func (d *directory) answer(name string) ([]netip.Addr, dnsmessage.RCode, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[name]++
	if addrs, ok := d.addrs[name]; ok {
		return addrs, dnsmessage.RCodeSuccess, false
	}
	return nil, d.code, false
}

// aging gives the client's answers a clock that later moves.
func aging(c *Client) (later func(time.Duration)) {
	var ahead atomic.Int64
	c.dialer.names.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	return func(d time.Duration) { ahead.Add(int64(d)) }
}

// oneShot answers and hangs up, so that the next request needs a connection of its own.
const oneShot = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

// TestBurstIsOneQuestion: many new connections to one receiver ask the DNS once while the answer is fresh, and a change of the
// answer is seen when it is not, which is after 10 s or the record's TTL.
func TestBurstIsOneQuestion(t *testing.T) {
	t.Parallel()
	old := newWire(t, answering(oneShot))
	_, port, _ := net.SplitHostPort(old.addr)
	ln, err := net.Listen("tcp4", "127.0.0.2:"+port)
	if err != nil {
		t.Skipf("no 127.0.0.2 on this host: %v", err)
	}
	moved := serveWire(t, ln, answering(oneShot))
	for _, c := range []struct {
		name string
		keep time.Duration
	}{
		{"a.ttl60", keepAnswer},
		{"a.ttl5", 5 * time.Second},
	} {
		d := newDirectory()
		d.set(c.name, "127.0.0.1")
		client := newTestClient(t, Config{Policy: loopback(), Resolver: newResolver(t, d.answer)})
		later := aging(client)
		before := [2]int{old.accepted(), moved.accepted()}
		dials := func() (toOld, toMoved int) { return old.accepted() - before[0], moved.accepted() - before[1] }
		post := func(host string) { mustDo(t, client, newPost(t, hang, "http://"+host+":"+port+"/", []byte("{}"))) }

		const burst = 20
		var wg sync.WaitGroup
		for range burst {
			wg.Go(func() { post(c.name) })
		}
		wg.Wait()
		d.set(c.name, "127.0.0.2")
		later(c.keep - time.Second)
		post("A" + c.name[1:])
		if a, b := dials(); d.lookups(c.name) != 1 || a != burst+1 || b != 0 {
			t.Errorf("%s, fresh: looked up %d times, %d and %d connections", c.name, d.lookups(c.name), a, b)
		}
		later(time.Second)
		post(c.name)
		if a, b := dials(); d.lookups(c.name) != 2 || a != burst+1 || b != 1 {
			t.Errorf("%s, old: looked up %d times, %d and %d connections", c.name, d.lookups(c.name), a, b)
		}
	}
}

// TestTTLZeroIsNotKept: who says so wants to be asked each time.
func TestTTLZeroIsNotKept(t *testing.T) {
	t.Parallel()
	w := newWire(t, answering(oneShot))
	_, port, _ := net.SplitHostPort(w.addr)
	d := newDirectory()
	d.set("zero.test", "127.0.0.1")
	c := newTestClient(t, Config{Policy: loopback(), Resolver: newResolver(t, d.answer)})
	for n := 1; n <= 3; n++ {
		mustDo(t, c, newPost(t, hang, "http://zero.test:"+port+"/", nil))
		if got := d.lookups("zero.test"); got != n {
			t.Errorf("looked up %d times for %d connections", got, n)
		}
	}
	if n := len(c.dialer.names.kept); n != 0 {
		t.Errorf("%d answers kept", n)
	}
}

// TestKeptAnswerIsChecked: an answer that is at hand is judged at each dial as the first was, and before each request to a proxy.
func TestKeptAnswerIsChecked(t *testing.T) {
	t.Parallel()
	bird := newCanary(t, "0")
	proxy, lines := fakeProxy(t, bird.port, "")
	for _, cfg := range []Config{{}, {ProxyURL: &url.URL{Scheme: "http", Host: proxy.addr}}} {
		d := newDirectory()
		d.set("inside.ttl60", "127.0.0.1", "::1")
		cfg.Policy, cfg.Resolver = Policy{AllowHTTP: true}, newResolver(t, d.answer)
		c := newTestClient(t, cfg)
		for range 3 {
			err := mustFail(t, c, newPost(t, hang, "http://inside.ttl60:"+bird.port+"/", nil))
			if !fault.Is(err, fault.Blocked) {
				t.Errorf("proxy %v: %v", cfg.ProxyURL, err)
			}
		}
		if n := d.lookups("inside.ttl60"); n != 1 {
			t.Errorf("proxy %v: looked up %d times", cfg.ProxyURL, n)
		}
	}
	if n := bird.visits.Load(); n != 0 || len(lines()) != 0 {
		t.Errorf("%d visits to the canary, the proxy saw %q", n, lines())
	}
}

// TestFailureIsNotKept: a name that comes into being, and a name server that recovers, are seen at once.
func TestFailureIsNotKept(t *testing.T) {
	t.Parallel()
	w := newWire(t, answering(okAnswer))
	_, port, _ := net.SplitHostPort(w.addr)
	for _, code := range []dnsmessage.RCode{dnsmessage.RCodeNameError, dnsmessage.RCodeServerFailure, dnsmessage.RCodeSuccess} {
		d := newDirectory()
		if d.code = code; code == dnsmessage.RCodeSuccess {
			d.set("new.ttl60") // there is the name, and no address
		}
		c := newTestClient(t, Config{Policy: loopback(), Resolver: newResolver(t, d.answer)})
		at := "http://new.ttl60:" + port + "/"
		var dns *net.DNSError
		if err := mustFail(t, c, newPost(t, hang, at, nil)); !errors.As(err, &dns) {
			t.Errorf("%v: %v", code, err)
		}
		d.set("new.ttl60", "127.0.0.1")
		mustDo(t, c, newPost(t, hang, at, nil))
	}
}

// TestDNSHooks: they fire for who waits for the DNS, and not for an answer that is at hand.
func TestDNSHooks(t *testing.T) {
	t.Parallel()
	w := newWire(t, answering(oneShot))
	_, port, _ := net.SplitHostPort(w.addr)
	d := newDirectory()
	d.set("a.ttl60", "127.0.0.1")
	c := newTestClient(t, Config{Policy: loopback(), Resolver: newResolver(t, d.answer)})
	for n := range 2 {
		var started, done, dialled atomic.Int64
		ctx := httptrace.WithClientTrace(within(t, hang), &httptrace.ClientTrace{
			DNSStart: func(i httptrace.DNSStartInfo) {
				if started.Add(1); i.Host != "a.ttl60" {
					t.Errorf("%q", i.Host)
				}
			},
			DNSDone: func(i httptrace.DNSDoneInfo) {
				if done.Add(1); i.Err != nil || i.Coalesced || len(i.Addrs) != 1 || i.Addrs[0].String() != "127.0.0.1" {
					t.Errorf("%+v", i)
				}
			},
			ConnectDone: func(_, address string, err error) {
				if dialled.Add(1); err != nil || address != w.addr {
					t.Errorf("%s: %v", address, err)
				}
			},
		})
		mustDo(t, c, newPost(t, hang, "http://a.ttl60:"+port+"/", nil).WithContext(ctx))
		if want := int64(1 - n); started.Load() != want || done.Load() != want || dialled.Load() != 1 {
			t.Errorf("request %d: %d, %d, %d", n, started.Load(), done.Load(), dialled.Load())
		}
	}
}

// TestSharedLookup: one who gives up takes the question away from nobody, and is told as net.Resolver would.
func TestSharedLookup(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	d := newDirectory()
	d.set("slow.ttl60", "127.0.0.1")
	n := newNames(newResolver(t, func(name string) ([]netip.Addr, dnsmessage.RCode, bool) {
		<-release
		return d.answer(name)
	}), hang)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for _, ctx := range []context.Context{cancelled, expired} {
		_, err := n.addresses(ctx, "slow.ttl60")
		_, want := (&net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}).LookupIPAddr(ctx, "slow.ttl60")
		var got, std *net.DNSError
		if !errors.As(err, &got) || !errors.As(want, &std) || !errors.Is(err, ctx.Err()) ||
			got.Error() != std.Error() || got.IsTimeout != std.IsTimeout || got.IsTemporary != std.IsTemporary {
			t.Errorf("%+v, want %+v", err, want)
		}
	}
	coalesced := false
	ctx := httptrace.WithClientTrace(within(t, hang), &httptrace.ClientTrace{
		DNSStart: func(httptrace.DNSStartInfo) { close(release) },
		DNSDone:  func(i httptrace.DNSDoneInfo) { coalesced = i.Coalesced },
	})
	if addrs, err := n.addresses(ctx, "slow.ttl60"); err != nil || len(addrs) != 1 || !coalesced {
		t.Errorf("%v, %v, coalesced %v", addrs, err, coalesced)
	}
	if got := d.lookups("slow.ttl60"); got != 1 {
		t.Errorf("looked up %d times", got)
	}
}

// TestNamesAreBounded: a full store forgets a name that has had its time, or else any other, and takes the new one.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	d := newDirectory()
	d.set("new.ttl60", "127.0.0.1")
	over := make(chan struct{})
	close(over)
	for _, age := range []time.Duration{-time.Hour, time.Hour} {
		n := newNames(newResolver(t, d.answer), hang)
		for i := range maxNames {
			n.kept[strconv.Itoa(i)] = &lookup{done: over, until: time.Now().Add(age)}
		}
		if _, err := n.addresses(within(t, hang), "new.ttl60"); err != nil {
			t.Fatal(err)
		}
		if _, ok := n.kept["new.ttl60"]; !ok || len(n.kept) != maxNames {
			t.Errorf("age %v: %d names, the new one among them: %v", age, len(n.kept), ok)
		}
	}

	// With fewer fresh names than makeRoom looks at, none of them goes while there is an old one.
	const fresh = 15
	n := newNames(nil, hang)
	for i := range maxNames {
		until := time.Time{}
		if i < fresh {
			until = time.Now().Add(time.Hour)
		}
		n.kept[strconv.Itoa(i)] = &lookup{done: over, until: until}
	}
	for i := range 1000 {
		n.makeRoom()
		n.kept["old"+strconv.Itoa(i)] = &lookup{done: over}
	}
	for i := range fresh {
		if _, ok := n.kept[strconv.Itoa(i)]; !ok {
			t.Errorf("fresh name %d was forgotten", i)
		}
	}
}
