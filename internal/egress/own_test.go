package egress

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/clienttls"
	"github.com/postrider/postrider/internal/pkitest"
)

// identity makes one of PEM; ca and certificate may be "".
func identity(t testing.TB, owner, ca, certificate, key string) *clienttls.Identity {
	t.Helper()
	var der []byte
	var err error
	if key != "" {
		if der, err = clienttls.ReadKey(key); err != nil {
			t.Fatal(err)
		}
	}
	i, err := clienttls.New(owner, ca, certificate, der)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// mutual is a receiver that notes who comes: the name in the client's certificate, the connection, and whether the TLS session
// was one before.
type mutual struct {
	*url.URL
	mu    sync.Mutex
	conns map[string][]string // by name
	seen  []string
}

func newMutual(t *testing.T, ca *pkitest.Authority, h2 bool, change func(*tls.Config)) *mutual {
	t.Helper()
	m := &mutual{conns: map[string][]string{}}
	cfg := ca.Server(t, pkitest.Wanted{Hosts: []string{"127.0.0.1", "receiver.test"}})
	cfg.ClientAuth, cfg.ClientCAs = tls.VerifyClientCertIfGiven, ca.Pool()
	if change != nil {
		change(cfg)
	}
	s := newHTTPServer(t, cfg, h2, func(_ http.ResponseWriter, r *http.Request) {
		name := "nobody"
		if len(r.TLS.PeerCertificates) > 0 {
			name = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		conn, err := r.TLS.ExportKeyingMaterial("test", nil, 16) // ports are used again
		m.mu.Lock()
		defer m.mu.Unlock()
		m.conns[name] = append(m.conns[name], fmt.Sprintf("%x %v", conn, err))
		what := name
		if r.TLS.DidResume {
			what += " resumed"
		}
		m.seen = append(m.seen, what)
	})
	var err error
	if m.URL, err = url.Parse(s.URL + "/"); err != nil {
		t.Fatal(err)
	}
	return m
}

func postAs(t testing.TB, c *Client, as *clienttls.Identity, url string) error {
	t.Helper()
	resp, err := c.DoAs(newPost(t, hang, url, []byte("{}")), as)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// TestIdentitiesShareNothing: the connections and sessions of an endpoint with its own certificate are its own, over HTTP/1.1
// and HTTP/2, also beside another endpoint with the same certificate and beside those without any.
func TestIdentitiesShareNothing(t *testing.T) {
	t.Parallel()
	for name, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ca := pkitest.NewAuthority(t, "an authority")
			m := newMutual(t, ca, h2, nil)
			c := newTestClient(t, Config{Policy: loopback(), TLS: &tls.Config{RootCAs: ca.Pool()}})
			a, aKey := ca.Issue(t, pkitest.Wanted{Name: "a"})
			b, bKey := ca.Issue(t, pkitest.Wanted{Name: "b"})
			all := []*clienttls.Identity{
				nil, identity(t, "1", "", a, aKey), identity(t, "2", ca.PEM(), b, bKey), identity(t, "3", "", a, aKey),
				identity(t, "4", ca.PEM(), "", ""),
			}
			rounds := 3
			if h2 {
				rounds = 2 // when a stream's end has reached us, its connection need not be idle yet
			}
			for round := range rounds {
				if round == 2 { // new connections, which take up old sessions
					c.transport.CloseIdleConnections()
					for _, own := range c.own.by {
						own.CloseIdleConnections()
					}
				}
				for _, as := range all {
					if err := postAs(t, c, as, m.String()); err != nil {
						t.Fatal(err)
					}
				}
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			// The first two times each comes over a connection of its own.
			for name, who := range map[string]int{"a": 2, "b": 1, "nobody": 2} {
				conns := slices.Clone(m.conns[name])
				slices.Sort(conns)
				if n := len(slices.Compact(conns)); len(m.conns[name]) != who*rounds || n != who*(rounds-1) {
					t.Errorf("%s came %d times over %d connections, want %d", name, len(m.conns[name]), n, who*(rounds-1))
				}
			}
			if h2 {
				return
			}
			if want := []string{"nobody resumed", "a resumed", "b resumed", "a resumed", "nobody resumed"}; !slices.Equal(m.seen[10:], want) {
				t.Errorf("over new connections came %v", m.seen[10:])
			}
		})
	}
}

// TestOwnAuthorities: they stand in place of the system's and not beside them, and the name is checked all the same.
func TestOwnAuthorities(t *testing.T) {
	t.Parallel()
	public, private := pkitest.NewAuthority(t, "public"), pkitest.NewAuthority(t, "private")
	c := newTestClient(t, Config{Policy: loopback(), TLS: &tls.Config{RootCAs: public.Pool()}})
	own := identity(t, "1", private.PEM(), "", "")
	serve := func(ca *pkitest.Authority, w pkitest.Wanted, old bool) string {
		cfg := ca.Server(t, w)
		if old {
			cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		}
		return "https://" + newTLSWire(t, cfg, answering(okAnswer)).addr + "/"
	}
	here := []string{"127.0.0.1"}
	unknown := is(every[x509.UnknownAuthorityError])
	for _, test := range []struct {
		name string
		as   *clienttls.Identity
		url  string
		want func(error) bool // nil: it goes through
	}{
		{"its own", own, serve(private, pkitest.Wanted{Hosts: here}, false), nil},
		{"the system's, without one's own", nil, serve(public, pkitest.Wanted{Hosts: here}, false), nil},
		{"the system's, with one's own", own, serve(public, pkitest.Wanted{Hosts: here}, false), unknown},
		{"somebody's own, asked for another", nil, serve(private, pkitest.Wanted{Hosts: here}, false), unknown},
		{"another name", own, serve(private, pkitest.Wanted{Hosts: []string{"other.test"}}, false), is(every[x509.HostnameError])},
		{"expired", own, serve(private, pkitest.Wanted{Hosts: here, NotAfter: time.Now().Add(-time.Minute)}, false), is(func(e x509.CertificateInvalidError) bool { return e.Reason == x509.Expired })},
		{"TLS 1.1", own, serve(private, pkitest.Wanted{Hosts: here}, true), handshake},
	} {
		err := postAs(t, c, test.as, test.url)
		if (err == nil) != (test.want == nil) || err != nil && !test.want(err) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// TestACertificateIsAlwaysShown, also to a receiver that names other authorities: so it can say what is wrong with it.
func TestACertificateIsAlwaysShown(t *testing.T) {
	t.Parallel()
	ca, theirs := pkitest.NewAuthority(t, "ours"), pkitest.NewAuthority(t, "theirs")
	m := newMutual(t, ca, false, func(cfg *tls.Config) { cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, theirs.Pool() })
	c := newTestClient(t, Config{Policy: loopback()})
	cert, key := ca.Issue(t, pkitest.Wanted{Name: "a"})
	err := postAs(t, c, identity(t, "1", ca.PEM(), cert, key), m.String())
	if err == nil || !strings.Contains(err.Error(), "unknown certificate authority") {
		t.Errorf("it is told %v", err)
	}
	err = postAs(t, c, identity(t, "1", ca.PEM(), "", ""), m.String())
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("without one it is told %v", err)
	}
}

// TestUnusedIdentitiesAreClosed, and there are never more than a bounded number.
func TestUnusedIdentitiesAreClosed(t *testing.T) {
	t.Parallel()
	ca := pkitest.NewAuthority(t, "an authority")
	m := newMutual(t, ca, false, nil)
	c := newTestClient(t, Config{Policy: loopback()})
	now := time.Now()
	c.own.now = func() time.Time { return now }
	cert, key := ca.Issue(t, pkitest.Wanted{Name: "a"})
	one, two := identity(t, "1", ca.PEM(), cert, key), identity(t, "2", ca.PEM(), cert, key)
	post := func(as *clienttls.Identity) {
		t.Helper()
		if err := postAs(t, c, as, m.String()); err != nil {
			t.Fatal(err)
		}
	}
	post(one)
	now = now.Add(ownIdle / 2)
	post(two)
	now = now.Add(ownIdle / 2)
	c.own.closeUnused()
	if _, there := c.own.by[two.Fingerprint()]; len(c.own.by) != 1 || !there || c.own.sweep == nil {
		t.Errorf("left are %d", len(c.own.by))
	}
	now = now.Add(ownIdle)
	c.own.closeUnused()
	if len(c.own.by) != 0 || c.own.sweep != nil {
		t.Errorf("left are %d", len(c.own.by))
	}
	for i := range 2 * maxOwn {
		now = now.Add(time.Nanosecond)
		c.own.transport(identity(t, string(rune('a'+i)), ca.PEM(), cert, key))
		if len(c.own.by) > maxOwn {
			t.Fatalf("there are %d", len(c.own.by))
		}
	}
	if _, there := c.own.by[identity(t, string(rune('a'+2*maxOwn-1)), ca.PEM(), cert, key).Fingerprint()]; !there {
		t.Error("the newest was closed")
	}
	c.CloseIdleConnections()
	if len(c.own.by) != 0 || c.own.sweep != nil {
		t.Error("not all are closed")
	}
}

// TestAProxyDoesNotSeeTheIdentity: an https proxy is checked against the system's authorities and shown no certificate; the
// receiver behind it is checked against the endpoint's and shown its own.
func TestAProxyDoesNotSeeTheIdentity(t *testing.T) {
	t.Parallel()
	public, private := pkitest.NewAuthority(t, "public"), pkitest.NewAuthority(t, "private")
	m := newMutual(t, private, false, func(cfg *tls.Config) { cfg.ClientAuth = tls.RequireAndVerifyClientCert })
	front := public.Server(t, pkitest.Wanted{Hosts: []string{"127.0.0.1"}})
	front.ClientAuth = tls.RequestClientCert
	shown := make(chan int, 8)
	front.VerifyConnection = func(s tls.ConnectionState) error {
		shown <- len(s.PeerCertificates)
		return nil
	}
	secure := newTLSWire(t, front, carrying(m.Host))
	proxy := &url.URL{Scheme: "https", Host: secure.addr}
	resolver := newResolver(t, fixed(map[string]string{"receiver.test": "93.184.216.34"}))
	c := newTestClient(t, Config{ProxyURL: proxy, Resolver: resolver, TLS: &tls.Config{RootCAs: public.Pool()}})
	cert, key := private.Issue(t, pkitest.Wanted{Name: "a"})
	as := identity(t, "1", private.PEM(), cert, key)
	target := "https://receiver.test:8443/"
	if err := postAs(t, c, as, target); err != nil {
		t.Fatal(err)
	}
	if n := <-shown; n != 0 || len(m.conns["a"]) != 1 {
		t.Errorf("the proxy was shown %d certificates; the receiver saw %v", n, m.conns)
	}
	var unknown x509.UnknownAuthorityError
	if err := postAs(t, c, nil, target); !errors.As(err, &unknown) || !handshake(err) {
		t.Errorf("a receiver that the system does not know: %v", err)
	}
	strange := newTestClient(t, Config{ProxyURL: proxy, Resolver: resolver})
	if err := postAs(t, strange, as, target); !errors.As(err, &unknown) || handshake(err) {
		t.Errorf("a proxy that the system does not know, but the endpoint would not either: %v", err)
	}
	trusting := identity(t, "2", public.PEM(), "", "")
	if err := postAs(t, strange, trusting, target); !errors.As(err, &unknown) || handshake(err) {
		t.Errorf("an endpoint speaks for our proxy: %v", err)
	}
}
