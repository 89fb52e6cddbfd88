package dispatcher

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/clienttls"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/pkitest"
	"github.com/postrider/postrider/subscriptions"
)

// over gives a dispatcher that can send, over the real client.
func over(t *testing.T, roots *x509.CertPool) *Dispatcher {
	t.Helper()
	client := egress.New(egress.Config{
		Policy: egress.Policy{AllowHTTP: true, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		TLS:    &tls.Config{RootCAs: roots},
	})
	t.Cleanup(client.CloseIdleConnections)
	return &Dispatcher{cfg: Config{Timeout: 20 * time.Second, Lease: time.Minute}, deps: Deps{Doer: client}}
}

// secure serves TLS until the test ends, and gives the URL.
func secure(t *testing.T, cfg *tls.Config) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = cfg
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// raw answers each connection's first bytes with words and closes.
func raw(t *testing.T, words string) string {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, words)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	return "https://" + ln.Addr().String()
}

// sent is a fatal TLS alert in the clear (RFC 8446, section 6).
func sent(alert byte) string { return string([]byte{21, 3, 3, 0, 2, 2, alert}) }

func identityOf(t *testing.T, ca, certificate, key string) *clienttls.Identity {
	t.Helper()
	var der []byte
	var err error
	if key != "" {
		if der, err = clienttls.ReadKey(key); err != nil {
			t.Fatal(err)
		}
	}
	identity, err := clienttls.New("ep", ca, certificate, der)
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

// Each way in which TLS fails, on real sockets: what it counts as and what the endpoint's owner reads.
func TestTLSFailuresInPlainWords(t *testing.T) {
	t.Parallel()
	ca, stranger := pkitest.NewAuthority(t, "known"), pkitest.NewAuthority(t, "unknown")
	d := over(t, ca.Pool())
	const here = "127.0.0.1"
	issue := func(a *pkitest.Authority, w pkitest.Wanted, change func(*tls.Config)) string {
		cfg := a.Server(t, w)
		if change != nil {
			change(cfg)
		}
		return secure(t, cfg)
	}
	mutual := func(by *pkitest.Authority, version uint16) string {
		return issue(ca, pkitest.Wanted{Hosts: []string{here}}, func(cfg *tls.Config) {
			cfg.ClientAuth, cfg.ClientCAs, cfg.MaxVersion = tls.RequireAndVerifyClientCert, by.Pool(), version
		})
	}
	threeDays, soon := time.Now().Add(-3*24*time.Hour-time.Minute), time.Now().Add(2*time.Hour)
	cert, key := ca.Issue(t, pkitest.Wanted{})
	old, oldKey := ca.Issue(t, pkitest.Wanted{NotBefore: threeDays.Add(-time.Hour), NotAfter: threeDays})
	own, ours, expiredOurs := identityOf(t, ca.PEM(), "", ""), identityOf(t, ca.PEM(), cert, key), identityOf(t, ca.PEM(), old, oldKey)
	many := []string{"a.test", "b.test", strings.Repeat("c", 200) + ".test", "d.test", "10.9.8.7"}
	picky := issue(ca, pkitest.Wanted{Hosts: []string{here}}, func(cfg *tls.Config) {
		cfg.ClientAuth = tls.RequireAnyClientCert
		cfg.VerifyConnection = func(tls.ConnectionState) error { return errors.New("no") }
	})

	for _, c := range []struct {
		name string
		url  string
		as   *clienttls.Identity
		want string // a pattern, behind "TLS: "
	}{
		{"expired", issue(ca, pkitest.Wanted{Hosts: []string{here}, NotBefore: threeDays.Add(-time.Hour), NotAfter: threeDays}, nil), nil, `the certificate expired 3 days ago \(\d{4}-\d\d-\d\d \d\d:\d\d UTC\)`},
		{"not valid yet", issue(ca, pkitest.Wanted{Hosts: []string{here}, NotBefore: soon}, nil), nil, `the certificate is not valid yet, but only from \d{4}-\d\d-\d\d \d\d:\d\d UTC on`},
		{"another host", issue(ca, pkitest.Wanted{Hosts: []string{"a.test"}}, nil), nil, `the certificate is for a\.test, and not for 127\.0\.0\.1`},
		{"other hosts", issue(ca, pkitest.Wanted{Hosts: many}, nil), nil, `the certificate is for a\.test, b\.test, c{100}… and 2 more, and not for 127\.0\.0\.1`},
		{"other addresses", issue(ca, pkitest.Wanted{Hosts: []string{"10.9.8.7"}}, nil), nil, `the certificate is for other addresses, and not for 127\.0\.0\.1`},
		{"no host", issue(ca, pkitest.Wanted{}, nil), nil, `the certificate is for no host at all, and not for 127\.0\.0\.1`},
		{"an unknown authority", issue(stranger, pkitest.Wanted{Hosts: []string{here}}, nil), nil, `the certificate is signed by an authority that is not known, or .*tls\.ca`},
		{"not one's own authority", issue(stranger, pkitest.Wanted{Hosts: []string{here}}, nil), own, `the certificate is signed by an authority that is not known; it was checked against the endpoint's own tls\.ca`},
		{"its own authority", issue(nil, pkitest.Wanted{Hosts: []string{here}}, nil), nil, `the certificate is signed by itself, or .*`},
		{"one wanted, TLS 1.3", mutual(ca, tls.VersionTLS13), nil, `the receiver wants a client certificate \(certificate required\); it goes into tls\.certificate and tls\.key`},
		{"one wanted, TLS 1.2", mutual(ca, tls.VersionTLS12), own, `the receiver broke off \(handshake failure\): .* wants a client certificate`},
		{"ours unknown, TLS 1.3", mutual(stranger, tls.VersionTLS13), ours, `the receiver refuses the endpoint's client certificate: it does not know the authority that signed it`},
		{"ours unknown, TLS 1.2", mutual(stranger, tls.VersionTLS12), ours, `the receiver refuses the endpoint's client certificate: it does not know .*`},
		{"ours expired", mutual(ca, tls.VersionTLS13), expiredOurs, `the receiver refuses the endpoint's client certificate: it expired 3 days ago \(.*\)`},
		{"ours refused", picky, ours, `the receiver refuses the endpoint's client certificate \(bad certificate\)`},
		{"ours revoked", raw(t, sent(44)), ours, `the receiver refuses the endpoint's client certificate as revoked`},
		{"ours called expired", raw(t, sent(45)), ours, `the receiver refuses the endpoint's client certificate as expired, which it is not`},
		{"TLS 1.1", issue(ca, pkitest.Wanted{Hosts: []string{here}}, func(cfg *tls.Config) { cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }), nil, tooOld},
		{"a hello of TLS 1.1", raw(t, hello(0x0302)), nil, tooOld},
		{"nothing in common", raw(t, sent(40)), nil, `the receiver broke off \(handshake failure\): .* wants a client certificate`},
		{"nothing in common with ours", raw(t, sent(40)), ours, `the receiver broke off \(handshake failure\): .* does not take the client certificate`},
		{"an unknown name", raw(t, sent(112)), nil, `the receiver does not know the host by this name`},
		{"another alert", raw(t, sent(80)), nil, `the receiver broke off \(internal error\)`},
		{"plain HTTP", "https" + strings.TrimPrefix(raw(t, "HTTP/1.1 400 Bad Request\r\n\r\n"), "https"), nil, `the receiver does not speak TLS on this port`},
		{"a mail server", raw(t, "220 mail.test ESMTP\r\n"), nil, `the receiver does not speak TLS on this port`},
		{"hung up", raw(t, ""), nil, `the receiver closed the connection during the handshake`},
	} {
		a := d.send(context.Background(), &subscriptions.Target{URL: c.url, TLS: c.as}, nil, []byte("{}"))
		if o := Classify(a.status, a.err); o != TLSError {
			t.Errorf("%s: %v, %v", c.name, o, a.err)
			continue
		}
		if got := explain(TLSError, a); !regexp.MustCompile(`^TLS: ` + c.want + `$`).MatchString(got) {
			t.Errorf("%s: %q (%v)", c.name, got, a.err)
		}
	}
}

// hello is a ServerHello that picks a version (RFC 5246, section 7.4.1.3).
func hello(version uint16) string {
	body := []byte{byte(version >> 8), byte(version)}
	body = append(body, make([]byte, 32+1)...) // random, no session
	body = append(body, 0x00, 0x2f, 0x00)      // a cipher, no compression
	head := []byte{22, 3, 1, 0, byte(len(body) + 4), 2, 0, 0, byte(len(body))}
	return string(append(head, body...))
}

func TestAgoIsInTheLargestWholeUnit(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"a moment ago": 59 * time.Second, "1 minute ago": 119 * time.Second, "59 minutes ago": time.Hour - 1, "1 hour ago": time.Hour,
		"23 hours ago": 24*time.Hour - 1, "1 day ago": 24 * time.Hour, "400 days ago": 400 * 24 * time.Hour,
	} {
		if got := ago(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// What a real handshake does not bring about: an authority's own end, and names that would look like something else.
func TestTLSWordsOfOddCertificates(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	authority := &x509.Certificate{IsCA: true, NotAfter: at.Add(-25 * time.Hour)}
	for want, err := range map[string]error{
		"TLS: the certificate of the authority expired 1 day ago (2026-11-29 09:00 UTC)":                                                x509.CertificateInvalidError{Cert: authority, Reason: x509.Expired},
		"TLS: the certificate has expired or is not valid yet":                                                                          x509.CertificateInvalidError{Reason: x509.Expired},
		"TLS: the certificate is not one for servers":                                                                                   x509.CertificateInvalidError{Reason: x509.IncompatibleUsage},
		"TLS: the certificate's chain breaks a rule of its authority":                                                                   x509.CertificateInvalidError{Reason: x509.TooManyIntermediates},
		"TLS: the certificate is signed with an algorithm that is not safe any more":                                                    x509.InsecureAlgorithmError(x509.SHA1WithRSA),
		"TLS: the certificate is for a???b, and not for c.test":                                                                         x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"a\n\u202e\xffb"}}, Host: "c.test"},
		"TLS: the receiver asks for a client certificate in the midst of a connection, which is not done; have it ask in the handshake": &net.OpError{Op: "local error", Err: errors.New("tls: no renegotiation")},
		"TLS: the handshake failed":                                                                                                     errors.New("x"),
	} {
		if got := explain(TLSError, answer{err: err, endedAt: at}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
