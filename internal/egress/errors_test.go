package egress

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/postrider/postrider/internal/egresstest"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/pkitest"
)

// is gives a check for an error of type T somewhere in the chain that also holds cond.
func is[T error](cond func(T) bool) func(error) bool {
	return func(err error) bool {
		var target T
		return errors.As(err, &target) && cond(target)
	}
}

func every[T error](T) bool { return true }

// handshake is the check a package makes that must not import this one.
func handshake(err error) bool {
	var h interface{ TLSHandshake() }
	return errors.As(err, &h)
}

func dialOp(e *net.OpError) bool { return e.Op == "dial" }

func timedOut(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// all joins checks; each must hold.
func all(checks ...func(error) bool) func(error) bool {
	return func(err error) bool {
		for _, ok := range checks {
			if !ok(err) {
				return false
			}
		}
		return true
	}
}

func isErr(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func not(check func(error) bool) func(error) bool { return func(err error) bool { return !check(err) } }

// TestErrors pins the Go types of what can go wrong before an answer: the judge of outcomes looks at them.
func TestErrors(t *testing.T) {
	t.Parallel()
	ca, stranger := pkitest.NewAuthority(t, "known"), pkitest.NewAuthority(t, "unknown")
	resolver := newResolver(t, func(name string) ([]netip.Addr, dnsmessage.RCode, bool) {
		switch name {
		case "mute.test":
			return nil, 0, true
		case "broken.test":
			return nil, dnsmessage.RCodeServerFailure, false
		case "empty.test":
			return nil, dnsmessage.RCodeSuccess, false
		case "inside.test":
			return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}, 0, false
		}
		return nil, dnsmessage.RCodeNameError, false
	})
	long := Config{Policy: loopback(), Resolver: resolver, TLS: &tls.Config{RootCAs: ca.Pool()}}
	short := long
	short.ConnectTimeout = 200 * time.Millisecond
	patient, hasty := newTestClient(t, long), newTestClient(t, short)

	secure := func(cfg *tls.Config) string {
		return "https://" + newTLSWire(t, cfg, answering(okAnswer)).addr + "/"
	}
	old := ca.Server(t, pkitest.Wanted{Hosts: []string{"127.0.0.1"}})
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	mutual := ca.Server(t, pkitest.Wanted{Hosts: []string{"127.0.0.1"}})
	mutual.ClientAuth = tls.RequireAnyClientCert
	mutual12 := mutual.Clone()
	mutual12.MaxVersion = tls.VersionTLS12

	plain := func(script func(*exchange)) string { return newWire(t, script).addr }
	mute := func(x *exchange) { <-x.done }
	gone := func(*exchange) {}
	midway := func(end func(*exchange)) func(*exchange) {
		return func(x *exchange) {
			if _, err := io.ReadFull(x.br, make([]byte, 1024)); err == nil {
				end(x)
			}
		}
	}
	small, big := []byte("{}"), bytes.Repeat([]byte("x"), 5<<20)
	closed := newWire(t, gone)
	_ = closed.ln.Close()

	dns := is(every[*net.DNSError])
	verify := all(handshake, is(every[*tls.CertificateVerificationError]))
	alert := is(func(e *net.OpError) bool { return e.Op == "remote error" })
	for _, c := range []struct {
		name   string
		client *Client
		url    string
		body   []byte
		ctx    time.Duration
		ok     func(error) bool
	}{
		{"no such name", patient, "http://none.test:8080/", small, hang, all(dns, is(func(e *net.DNSError) bool { return e.IsNotFound && e.Server == "" }), is(dialOp))},
		{"a name without addresses", patient, "http://empty.test:8080/", small, hang, is(func(e *net.DNSError) bool { return e.IsNotFound })},
		{"a name server that fails", patient, "http://broken.test:8080/", small, hang, is(func(e *net.DNSError) bool { return e.IsTemporary && e.Server == "" })},
		{"a mute name server", hasty, "http://mute.test:8080/", small, hang, all(dns, timedOut)},
		{"a mute name server, deadline", patient, "http://mute.test:8080/", small, 50 * time.Millisecond, itsDeadline},
		{"a closed port", patient, closed.url("/"), small, hang, all(is(dialOp), isErr(syscall.ECONNREFUSED))},
		// Either of two types of time-out, by chance; one of them says it Is a context.DeadlineExceeded.
		{"a full backlog", hasty, "http://" + egresstest.Deaf(t) + "/", small, hang, all(is(dialOp), timedOut, not(itsDeadline))},
		{"a full backlog, deadline", patient, "http://" + egresstest.Deaf(t) + "/", small, 50 * time.Millisecond, itsDeadline},

		{"TLS, wrong name", patient, secure(ca.Server(t, pkitest.Wanted{Hosts: []string{"other.test"}})), small, hang, all(verify, is(every[x509.HostnameError]))},
		{"TLS, wrong address", patient, secure(ca.Server(t, pkitest.Wanted{Hosts: []string{"127.0.0.9"}})), small, hang, all(verify, is(every[x509.HostnameError]))},
		{"TLS, unknown authority", patient, secure(stranger.Server(t, pkitest.Wanted{Hosts: []string{"127.0.0.1"}})), small, hang, all(verify, is(every[x509.UnknownAuthorityError]))},
		{"TLS, expired", patient, secure(ca.Server(t, pkitest.Wanted{Hosts: []string{"127.0.0.1"}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour)})), small, hang, all(verify, is(func(e x509.CertificateInvalidError) bool { return e.Reason == x509.Expired }))},
		{"TLS 1.1", patient, secure(old), small, hang, all(handshake, alert)},
		{"TLS 1.2, client certificate wanted", patient, secure(mutual12), small, hang, all(handshake, alert)},
		{"TLS 1.3, client certificate wanted", patient, secure(mutual), small, hang, all(not(handshake), alert)}, // told after the handshake
		{"https to a mail server", patient, "https://" + plain(func(x *exchange) { x.say("220 mail.test ESMTP\r\n"); <-x.done }) + "/", small, hang, all(handshake, is(every[tls.RecordHeaderError]))},
		{"https to nobody", hasty, "https://" + plain(mute) + "/", small, hang, all(handshake, timedOut, not(itsDeadline))},
		{"https to nobody, deadline", patient, "https://" + plain(mute) + "/", small, 100 * time.Millisecond, itsDeadline},
		{"https, hung up", patient, "https://" + plain(gone) + "/", small, hang, all(handshake, func(err error) bool { return isErr(io.EOF)(err) || isErr(syscall.ECONNRESET)(err) })},
		{"http to https", patient, strings.Replace(secure(ca.Server(t, pkitest.Wanted{Hosts: []string{"127.0.0.1"}})), "https", "http", 1), small, hang, isErr(io.EOF)},
		{"http to a mail server", patient, "http://" + plain(func(x *exchange) { x.say("220 mail.test ESMTP\r\n"); <-x.done }) + "/", small, hang, func(err error) bool {
			return errors.Is(err, errSpokeFirst) || strings.Contains(err.Error(), `malformed HTTP status code "mail.test"`)
		}},

		{"closed before the answer", patient, "http://" + plain(func(x *exchange) { _, _, _ = x.read() }) + "/", small, hang, isErr(io.EOF)},
		{"reset before the answer", patient, "http://" + plain(func(x *exchange) { _, _, _ = x.read(); x.reset() }) + "/", small, hang, all(is(every[*net.OpError]), isErr(syscall.ECONNRESET))},
		{"reset in the body", patient, "http://" + plain(midway((*exchange).reset)) + "/", big, hang, all(is(every[*net.OpError]), broken)},
		{"closed in the body", patient, "http://" + plain(midway(gone)) + "/", big, hang, broken},

		{"blocked by its text", patient, "http://10.0.0.1:8080/", small, hang, func(err error) bool { return fault.Is(err, fault.Blocked) }},
		{"blocked by DNS", patient, "http://inside.test:8080/", small, hang, func(err error) bool { return fault.Is(err, fault.Blocked) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := mustFail(t, c.client, newPost(t, c.ctx, c.url, c.body))
			if !c.ok(err) {
				t.Errorf("%s %q", chain(err), err)
			}
		})
	}
}

// broken is how Linux tells a writer or a reader that the other side is gone.
func broken(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// chain names the types of an error and what it wraps.
func chain(err error) string {
	var parts []string
	for ; err != nil; err = errors.Unwrap(err) {
		parts = append(parts, fmt.Sprintf("%T", err))
	}
	return strings.Join(parts, " > ")
}
