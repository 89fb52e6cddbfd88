package egress

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/postrider/postrider/internal/egresstest"
	"github.com/postrider/postrider/internal/fault"
)

// canary listens on one port of 127.0.0.1 and ::1, and counts who comes.
type canary struct {
	port   string
	visits atomic.Int64
}

func newCanary(t *testing.T, port string) *canary {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:"+port)
	if err != nil {
		t.Skipf("the port is taken on 127.0.0.1: %v", err)
	}
	c := &canary{port: strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)}
	lns := []net.Listener{ln}
	if six, err := net.Listen("tcp6", "[::1]:"+c.port); err == nil { // a host may have no v6
		lns = append(lns, six)
	}
	for _, ln := range lns {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				c.visits.Add(1)
				_ = conn.Close()
			}
		}()
		t.Cleanup(func() { _ = ln.Close(); <-done })
	}
	return c
}

// TestDialRefusesEverySpellingOfTheInside is the second half of FC-030: a row that is in the database all the same. Once with the
// check of the URL, and once past it, so that the socket's own check is what holds.
func TestDialRefusesEverySpellingOfTheInside(t *testing.T) {
	t.Parallel()
	bird := newCanary(t, "0")
	c := newTestClient(t, Config{
		Policy:   Policy{AllowHTTP: true},
		Resolver: newResolver(t, fixed(map[string]string{"localhost": "127.0.0.1 ::1"})),
	})
	for _, raw := range egresstest.Inside(bird.port) {
		err := mustFail(t, c, newPost(t, hang, raw, []byte("{}")))
		if !fault.Is(err, fault.Blocked) {
			t.Errorf("%s: %v, want blocked", raw, err)
		}

		resp, err := c.transport.RoundTrip(newPost(t, hang, raw, []byte("{}")))
		if err == nil {
			_ = resp.Body.Close()
			t.Errorf("%s: past the URL's check: status %d", raw, resp.StatusCode)
			continue
		}
		// The numeric spellings are names to Go's resolver, and there are none such; a C resolver takes them for what they are.
		var dns *net.DNSError
		if !fault.Is(err, fault.Blocked) && !errors.As(err, &dns) {
			t.Errorf("%s: past the URL's check: %v, want blocked", raw, err)
		}
	}
	if n := bird.visits.Load(); n != 0 {
		t.Errorf("the canary had %d visits", n)
	}
}

// TestURLIsCheckedAtEachRequest: what registration refuses, a request is not sent to either, and is blocked whatever the rule.
func TestURLIsCheckedAtEachRequest(t *testing.T) {
	t.Parallel()
	w := newWire(t, answering(okAnswer))
	_, port, _ := net.SplitHostPort(w.addr)
	p := loopback()
	strict := p
	strict.AllowHTTP = false
	n, err := ParsePorts("443")
	if err != nil {
		t.Fatal(err)
	}
	narrow := p
	narrow.AllowPorts = n
	for _, c := range []struct {
		policy Policy
		url    string
	}{
		{strict, "http://127.0.0.1:" + port + "/"},
		{narrow, "http://127.0.0.1:" + port + "/"},
		{p, "http://user:CANARYPW@127.0.0.1:" + port + "/"},
		{p, "http://127.0.0.1:" + port + "/#f"},
		{p, "http://127.0.0.1:0/"},
		{p, "ftp://127.0.0.1:" + port + "/"},
		{p, "http:///"},
	} {
		client := newTestClient(t, Config{Policy: c.policy})
		if err := mustFail(t, client, newPost(t, hang, c.url, nil)); !fault.Is(err, fault.Blocked) {
			t.Errorf("%s: %v", c.url, err)
		}
	}
	if w.accepted() != 0 {
		t.Error("the receiver was dialled")
	}
}

// TestRebinding is FC-031: a name that changes its mind is blocked at the dial, and what it leads to is not told.
func TestRebinding(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp4", "127.0.0.2:0")
	if err != nil {
		t.Skipf("no 127.0.0.2 on this host: %v", err)
	}
	w := serveWire(t, ln, answering("HTTP/1.1 500 Oops\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
	_, port, _ := net.SplitHostPort(w.addr)
	bird := newCanary(t, port)
	var flipped atomic.Bool
	c := newTestClient(t, Config{
		Policy: Policy{AllowHTTP: true, AllowNetworks: mustNetworks(t, "127.0.0.2")},
		Resolver: newResolver(t, func(string) ([]netip.Addr, dnsmessage.RCode, bool) {
			if flipped.Load() {
				return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}, 0, false
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.2")}, 0, false
		}),
	})
	url := "http://rebind.test:" + port + "/"
	if status, _ := mustDo(t, c, newPost(t, hang, url, []byte(`{"a":1}`))); status != http.StatusInternalServerError {
		t.Errorf("status %d", status)
	}
	flipped.Store(true)
	for range 3 {
		err := mustFail(t, c, newPost(t, hang, url, []byte(`{"a":1}`)))
		if !fault.Is(err, fault.Blocked) || err.Error() != "the address is not allowed: loopback" {
			t.Errorf("%v", err)
		}
	}
	if n, r := bird.visits.Load(), len(w.requests()); n != 0 || r != 1 {
		t.Errorf("%d visits to the canary, %d requests to the receiver", n, r)
	}
}

// TestMixedName: a name with addresses inside and outside reaches the outside one; when that is down, the name is blocked for the
// other, and the same each time.
func TestMixedName(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp4", "127.0.0.2:0")
	if err != nil {
		t.Skipf("no 127.0.0.2 on this host: %v", err)
	}
	w := serveWire(t, ln, answering("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
	_, port, _ := net.SplitHostPort(w.addr)
	c := newTestClient(t, Config{
		Policy:   Policy{AllowHTTP: true, AllowNetworks: mustNetworks(t, "127.0.0.2")},
		Resolver: newResolver(t, fixed(map[string]string{"a.test": "127.0.0.1 127.0.0.2", "b.test": "127.0.0.2 127.0.0.1"})),
	})
	for _, host := range []string{"a.test", "b.test"} {
		if status, _ := mustDo(t, c, newPost(t, hang, "http://"+host+":"+port+"/", nil)); status != 200 {
			t.Errorf("%s: status %d", host, status)
		}
	}
	_ = ln.Close()
	for _, host := range []string{"a.test", "b.test"} {
		if err := mustFail(t, c, newPost(t, hang, "http://"+host+":"+port+"/", nil)); !fault.Is(err, fault.Blocked) || strings.Contains(err.Error(), "127") {
			t.Errorf("%s, closed: %v", host, err)
		}
	}
}

// TestAliases: it makes no difference through how many names an address is found, nor whether a proxy is to dial it.
func TestAliases(t *testing.T) {
	t.Parallel()
	bird := newCanary(t, "0")
	resolver := newResolver(t, fixed(map[string]string{
		"inside.test": "127.0.0.1", "private.test": "10.20.30.40 fd00::7", "metadata.test": "169.254.169.254", "mapped.test": "::ffff:127.0.0.1",
		"translated.test": "64:ff9b::7f00:1",
	}))
	proxy := newWire(t, answering(okAnswer))
	direct := newTestClient(t, Config{Policy: Policy{AllowHTTP: true}, Resolver: resolver})
	proxied := newTestClient(t, Config{Policy: Policy{AllowHTTP: true}, Resolver: resolver, ProxyURL: &url.URL{Scheme: "http", Host: proxy.addr}})
	for name, want := range map[string]struct{ class, address string }{
		"inside.test": {"loopback", "127.0.0.1:"}, "alias.inside.test": {"loopback", "127.0.0.1:"},
		"alias.alias.alias.private.test": {"private", "10.20.30.40:"}, "alias.metadata.test": {"metadata", "169.254.169.254:"},
		"alias.mapped.test": {"loopback", "127.0.0.1"}, "translated.test": {"translated", "[64:ff9b::7f00:1]:"},
	} {
		for _, c := range []*Client{direct, proxied} {
			err := mustFail(t, c, newPost(t, hang, "http://"+name+":"+bird.port+"/", nil))
			var more interface{ Detail() string }
			if !fault.Is(err, fault.Blocked) || err.Error() != "the address is not allowed: "+want.class || !errors.As(err, &more) ||
				!strings.Contains(more.Detail(), want.address) && want.class != "private" {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if n, m := bird.visits.Load(), proxy.accepted(); n != 0 || m != 0 {
		t.Errorf("the canary had %d visits, the proxy %d", n, m)
	}
}

// TestTheEnvironmentsProxyIsIgnored: all tests of this package run with one set (TestMain), which anybody else would take.
func TestTheEnvironmentsProxyIsIgnored(t *testing.T) {
	t.Parallel()
	w := newWire(t, answering(okAnswer))
	_, port, _ := net.SplitHostPort(w.addr)
	c := newTestClient(t, Config{Policy: loopback(), Resolver: newResolver(t, fixed(map[string]string{"receiver.test": "127.0.0.1"}))})
	req := newPost(t, hang, "http://receiver.test:"+port+"/", nil)
	if proxy, err := http.ProxyFromEnvironment(req); err != nil || proxy == nil || proxy.Host != "127.0.0.1:1" {
		t.Fatalf("the environment has %v, %v", proxy, err)
	}
	if status, _ := mustDo(t, c, req); status != 200 || len(w.requests()) != 1 {
		t.Errorf("status %d, %d requests at the receiver", status, len(w.requests()))
	}
}
