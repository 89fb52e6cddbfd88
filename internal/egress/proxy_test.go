package egress

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/pkitest"
)

// fakeProxy takes CONNECT (and leads each to backend, whatever was asked for) and plain requests (answered by itself). It notes
// the request lines and the credentials.
func fakeProxy(t *testing.T, backend, refusal string) (w *wire, lines func() []string) {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	w = newWire(t, func(x *exchange) {
		req, err := http.ReadRequest(x.br)
		if err != nil {
			return
		}
		mu.Lock()
		seen = append(seen, req.Method+" "+req.RequestURI+" "+req.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		switch {
		case refusal != "":
			x.say(refusal)
		case req.Method == http.MethodConnect:
			carry(x, backend)
		default:
			_, _ = io.Copy(io.Discard, req.Body)
			x.say(okAnswer)
		}
	})
	return w, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), seen...)
	}
}

// carry does what was asked of a proxy by CONNECT.
func carry(x *exchange, backend string) {
	far, err := net.Dial("tcp4", backend)
	if err != nil {
		return
	}
	x.say("HTTP/1.1 200 Connected\r\n\r\n")
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(far, x.br)
		_ = far.Close()
	})
	_, _ = io.Copy(x, far)
	_ = x.Close()
	wg.Wait()
}

// carrying is a proxy that does nothing else.
func carrying(backend string) func(*exchange) {
	return func(x *exchange) {
		if req, err := http.ReadRequest(x.br); err == nil && req.Method == http.MethodConnect {
			carry(x, backend)
		}
	}
}

func proxied(t *testing.T, proxy *wire, cfg Config) *Client {
	t.Helper()
	cfg.ProxyURL = &url.URL{Scheme: "http", Host: proxy.addr, User: url.UserPassword("u", "PROXYPW")}
	cfg.Resolver = newResolver(t, fixed(map[string]string{
		"receiver.test": "127.0.0.3", "inside.test": "127.0.0.1", "mixed.test": "127.0.0.3 10.0.0.1",
	}))
	// The proxy itself is on 127.0.0.1, which the policy does not allow.
	cfg.Policy = Policy{AllowHTTP: true, AllowNetworks: mustNetworks(t, "127.0.0.3")}
	return newTestClient(t, cfg)
}

func TestProxyCarries(t *testing.T) {
	t.Parallel()
	ca := pkitest.NewAuthority(t, "an authority")
	backend := newTLSWire(t, ca.Server(t, pkitest.Wanted{Hosts: []string{"receiver.test"}}), answering(okAnswer))
	proxy, lines := fakeProxy(t, backend.addr, "")
	c := proxied(t, proxy, Config{TLS: &tls.Config{RootCAs: ca.Pool()}})
	for _, raw := range []string{"https://receiver.test:8443/hook", "http://receiver.test:8080/hook"} {
		if status, body := mustDo(t, c, newPost(t, hang, raw, []byte("{}"))); status != 200 || body != "ok" {
			t.Errorf("%s: %d %q", raw, status, body)
		}
	}
	const auth = " Basic dTpQUk9YWVBX"
	want := "CONNECT receiver.test:8443" + auth + "|POST http://receiver.test:8080/hook" + auth
	if got := strings.Join(lines(), "|"); got != want {
		t.Errorf("the proxy saw %q, want %q", got, want)
	}
	if n := len(backend.requests()); n != 1 {
		t.Errorf("%d requests at the receiver", n)
	}
}

// TestProxyTargetIsChecked: the proxy hears nothing of a target that is not allowed.
func TestProxyTargetIsChecked(t *testing.T) {
	t.Parallel()
	proxy, lines := fakeProxy(t, "127.0.0.1:1", "")
	c := proxied(t, proxy, Config{})
	for _, host := range []string{"127.0.0.1", "10.0.0.1", "[::1]", "inside.test", "mixed.test", "localhost", "receiver.test:25"} {
		if err := mustFail(t, c, newPost(t, hang, "http://"+host+"/", []byte("{}"))); !fault.Is(err, fault.Blocked) {
			t.Errorf("%s: %v", host, err)
		}
	}
	var dns *net.DNSError
	if err := mustFail(t, c, newPost(t, hang, "http://none.test/", nil)); !errors.As(err, &dns) || !dns.IsNotFound {
		t.Errorf("a name that is none: %v", err)
	}
	if got := lines(); len(got) != 0 {
		t.Errorf("the proxy saw %q", got)
	}
}

func TestProxyFailures(t *testing.T) {
	t.Parallel()
	proxyOp := func(err error) bool {
		var op *net.OpError
		return errors.As(err, &op) && op.Op == "proxyconnect"
	}
	refusing, _ := fakeProxy(t, "", "HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
	err := mustFail(t, proxied(t, refusing, Config{}), newPost(t, hang, "https://receiver.test:8443/?token=CANARY", nil))
	if !proxyOp(err) || !strings.Contains(err.Error(), "407") {
		t.Errorf("a refusal: %v", err)
	}
	secure := newTLSWire(t, pkitest.NewAuthority(t, "an authority").Server(t, pkitest.Wanted{Hosts: []string{"127.0.0.1"}}), func(*exchange) {})
	strange := proxied(t, secure, Config{})
	strange.transport.Proxy = http.ProxyURL(&url.URL{Scheme: "https", Host: secure.addr})
	err = mustFail(t, strange, newPost(t, hang, "https://receiver.test:8443/", nil))
	if !proxyOp(err) || handshake(err) {
		t.Errorf("a proxy of an unknown authority: %v", err)
	}
	gone, _ := fakeProxy(t, "", "")
	_ = gone.ln.Close()
	err = mustFail(t, proxied(t, gone, Config{}), newPost(t, hang, "https://receiver.test:8443/?token=CANARY", nil))
	if !proxyOp(err) || strings.Contains(err.Error(), "PROXYPW") || strings.Contains(err.Error(), "CANARY") {
		t.Errorf("no proxy: %v", err)
	}
}
