package clienttls

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"
	"unicode"
)

// Identity is what connections of an endpoint are made with. It is read-only and may be used by several goroutines at once.
// Printed, it shows nothing.
type Identity struct {
	fingerprint Fingerprint
	roots       *x509.CertPool   // nil: the system's
	certificate *tls.Certificate // nil: none is shown
}

// Fingerprint tells identities apart. Two endpoints have the same only if they have the same authorities and no certificate:
// then it makes no difference whose connection is used.
type Fingerprint [sha256.Size]byte

// New makes an identity of what the checks gave; "" and nil are what there is none of. owner names the endpoint: one with a
// certificate shares its connections with no other, not even with one that has the same certificate.
func New(owner, ca, certificate string, key []byte) (*Identity, error) {
	i, sum := &Identity{}, sha256.New()
	write(sum, []byte(ca))
	if ca != "" {
		certs, _, err := certificates(ca, MaxCA, maxAuthorities)
		if err != nil {
			return nil, fmt.Errorf("the authorities: %w", err)
		}
		i.roots = x509.NewCertPool()
		for _, cert := range certs {
			i.roots.AddCert(cert)
		}
	}
	if certificate != "" {
		var err error
		if i.certificate, err = keyPair(certificate, key); err != nil {
			return nil, err
		}
		write(sum, []byte(owner))
		write(sum, []byte(certificate))
		write(sum, key)
	}
	sum.Sum(i.fingerprint[:0])
	return i, nil
}

// write puts the length before each part, so that no two lists of parts come to the same.
func write(sum hash.Hash, part []byte) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(part)))
	sum.Write(size[:]) // a hash takes everything
	sum.Write(part)
}

func keyPair(certificate string, key []byte) (*tls.Certificate, error) {
	if err := Match(certificate, key); err != nil {
		return nil, fmt.Errorf("the client certificate's key: %w", err)
	}
	certs, _, err := certificates(certificate, MaxCertificate, maxChain)
	if err != nil {
		return nil, fmt.Errorf("the client certificate: %w", err)
	}
	signer, err := openKey(key)
	if err != nil {
		return nil, err
	}
	pair := &tls.Certificate{PrivateKey: signer, Leaf: certs[0]}
	for _, cert := range certs {
		pair.Certificate = append(pair.Certificate, cert.Raw)
	}
	return pair, nil
}

// Fingerprint names the identity.
func (i *Identity) Fingerprint() Fingerprint { return i.fingerprint }

// OwnCA reports whether the receiver's certificate is checked against the owner's authorities and not the system's.
func (i *Identity) OwnCA() bool { return i != nil && i.roots != nil }

// Certificate is the one that is shown to the receiver, or nil.
func (i *Identity) Certificate() *x509.Certificate {
	if i == nil || i.certificate == nil {
		return nil
	}
	return i.certificate.Leaf
}

// Configure puts the identity into a configuration for connections to the endpoint's receiver.
func (i *Identity) Configure(cfg *tls.Config) {
	if i.roots != nil {
		cfg.RootCAs = i.roots
	}
	cfg.Certificates, cfg.GetClientCertificate = nil, nil
	if i.certificate != nil {
		// By itself Go keeps a certificate back whose authority the receiver does not name, and then the receiver says that
		// none came. Shown all the same, it is told what is wrong with it.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return i.certificate, nil }
	}
}

// Format keeps the key out of whatever is printed.
func (*Identity) Format(s fmt.State, _ rune) {
	_, _ = io.WriteString(s, "[an endpoint's TLS identity]") // fmt's own state takes everything
}

// Describe says whose a chain's first certificate is, in a line for people, and until when it is valid.
func Describe(certificate string) (subject string, notAfter time.Time, err error) {
	certs, _, err := certificates(certificate, MaxCertificate, maxChain)
	if err != nil {
		return "", time.Time{}, err
	}
	return line(certs[0].Subject.String()), certs[0].NotAfter.UTC(), nil
}

// line leaves out of a name what a terminal would act on, and what is too much of it.
func line(name string) string {
	const longest = 256
	runes := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name))
	if len(runes) > longest {
		return string(runes[:longest-1]) + "…"
	}
	return string(runes)
}
