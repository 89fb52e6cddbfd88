package dispatcher

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode"

	"github.com/postrider/postrider/internal/clienttls"
)

// explainTLS names the fault: of the receiver's certificate, of ours, or of what is spoken on that port. All that a receiver
// can put into it is the names in its certificate, a few of them and of no great length.
func explainTLS(a answer) string {
	var (
		hostname x509.HostnameError
		unknown  x509.UnknownAuthorityError
		invalid  x509.CertificateInvalidError
		weak     x509.InsecureAlgorithmError
		record   tls.RecordHeaderError
	)
	err := a.err
	why := "the handshake failed"
	switch {
	case errors.As(err, &hostname):
		why = "the certificate is for " + certifiedNames(hostname.Certificate) + ", and not for " + clip(hostname.Host, 253)
	case errors.As(err, &unknown):
		why = explainAuthority(unknown, a.identity)
	case errors.As(err, &invalid):
		why = explainInvalid(invalid, a.endedAt)
	case errors.As(err, &weak):
		why = "the certificate is signed with an algorithm that is not safe any more"
	case errors.As(err, &record), strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		why = "the receiver does not speak TLS on this port"
	case strings.Contains(err.Error(), "server selected unsupported protocol version"):
		why = tooOld
	case strings.Contains(err.Error(), "tls: no renegotiation"):
		why = "the receiver asks for a client certificate in the midst of a connection, which is not done; have it ask in the handshake"
	case alertOf(err) != "":
		why = explainAlert(alertOf(err), a)
	case brokenOff(err):
		why = "the receiver closed the connection during the handshake"
	}
	return "TLS: " + why
}

const tooOld = "the receiver speaks no TLS from 1.2 on"

// certifiedNames lists what a certificate is for. Addresses in it are only counted: it may be one of a machine inside.
func certifiedNames(cert *x509.Certificate) string {
	const most, longest = 3, 100
	var names []string
	more := 0
	if cert != nil {
		more = len(cert.DNSNames) + len(cert.IPAddresses)
		for _, name := range cert.DNSNames[:min(most, len(cert.DNSNames))] {
			names = append(names, clip(printable(name), longest))
		}
	}
	more -= len(names)
	switch {
	case len(names) == 0 && more == 0:
		return "no host at all"
	case len(names) == 0:
		return "other addresses"
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}

// printable leaves out what could make a line of text look like something else.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

func explainAuthority(unknown x509.UnknownAuthorityError, own *clienttls.Identity) string {
	who := "is signed by an authority that is not known"
	if c := unknown.Cert; c != nil && string(c.RawIssuer) == string(c.RawSubject) {
		who = "is signed by itself"
	}
	if own.OwnCA() {
		return "the certificate " + who + "; it was checked against the endpoint's own tls.ca"
	}
	return "the certificate " + who + ", or the receiver does not send the certificates between; an authority of your own goes into tls.ca"
}

func explainInvalid(invalid x509.CertificateInvalidError, at time.Time) string {
	cert := invalid.Cert
	switch {
	case invalid.Reason == x509.Expired && cert != nil:
		which := "the certificate"
		if cert.IsCA {
			which = "the certificate of the authority"
		}
		if at.Before(cert.NotBefore) {
			return which + " is not valid yet, but only from " + minute(cert.NotBefore) + " on"
		}
		return which + " " + expired(cert, at)
	case invalid.Reason == x509.Expired:
		return "the certificate has expired or is not valid yet"
	case invalid.Reason == x509.IncompatibleUsage:
		return "the certificate is not one for servers"
	}
	return "the certificate's chain breaks a rule of its authority"
}

// expired says "expired 3 days ago (2026-11-27 10:00 UTC)".
func expired(cert *x509.Certificate, at time.Time) string {
	return "expired " + ago(at.Sub(cert.NotAfter)) + " (" + minute(cert.NotAfter) + ")"
}

func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// ago gives a time that has passed in its largest whole unit.
func ago(d time.Duration) string {
	const day = 24 * time.Hour
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{day, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		switch n := d / unit.size; {
		case n == 1:
			return "1 " + unit.name + " ago"
		case n > 1:
			return fmt.Sprintf("%d %ss ago", n, unit.name)
		}
	}
	return "a moment ago"
}

// alertOf gives the name of the TLS alert (RFC 8446, section 6.2) that the receiver sent, in crypto/tls's words: its type is not
// exported. "" if it sent none.
func alertOf(err error) string {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" || op.Err == nil {
		return ""
	}
	return strings.TrimPrefix(op.Err.Error(), "tls: ")
}

// explainAlert says what a receiver means that breaks off: nearly always, that it wants a client certificate or another one.
func explainAlert(name string, a answer) string {
	ours := a.identity.Certificate()
	switch name {
	case "protocol version not supported":
		return tooOld
	case "unrecognized name":
		return "the receiver does not know the host by this name"
	case "handshake failure", "insufficient security level":
		if ours == nil {
			return "the receiver broke off (" + name + "): it has no cipher in common with us, or wants a client certificate"
		}
		return "the receiver broke off (" + name + "): it has no cipher in common with us, or does not take the client certificate"
	case "bad certificate", "certificate required", "unsupported certificate", "unknown certificate", "access denied",
		"expired certificate", "revoked certificate", "unknown certificate authority":
	default:
		return "the receiver broke off (" + name + ")"
	}
	if ours == nil {
		return "the receiver wants a client certificate (" + name + "); it goes into tls.certificate and tls.key"
	}
	const refuses = "the receiver refuses the endpoint's client certificate"
	switch {
	case a.endedAt.After(ours.NotAfter):
		return refuses + ": it " + expired(ours, a.endedAt)
	case name == "unknown certificate authority":
		return refuses + ": it does not know the authority that signed it"
	case name == "expired certificate":
		return refuses + " as expired, which it is not"
	case name == "revoked certificate":
		return refuses + " as revoked"
	}
	return refuses + " (" + name + ")"
}
