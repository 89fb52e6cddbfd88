// Package pkitest makes authorities, certificates and keys for tests. It is imported by tests alone.
package pkitest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Authority signs certificates of one test. The nil one lets them sign themselves.
type Authority struct {
	Cert *x509.Certificate
	key  crypto.Signer
}

// distant is an end that no test comes to, whatever its clock shows.
var distant = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// NewAuthority makes an authority that is valid since a year ago.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{key: Key(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-365 * 24 * time.Hour), NotAfter: distant,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.Cert = sign(t, template, template, a.key, a.key)
	return a
}

// PEM is the authority's own certificate.
func (a *Authority) PEM() string { return certPEM(a.Cert.Raw) }

// Pool holds the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Cert)
	return pool
}

// Wanted is what a certificate shall be. The zero value is one for nobody that is valid since an hour ago.
type Wanted struct {
	Name                string // the subject's
	Hosts               []string
	NotBefore, NotAfter time.Time
	Key                 crypto.Signer // nil: a new one
}

// Issue gives a certificate and its key as PEM.
func (a *Authority) Issue(t testing.TB, w Wanted) (certificate, key string) {
	t.Helper()
	der, signer := a.issue(t, w)
	return certPEM(der), KeyPEM(t, signer)
}

// Server is a configuration of a server with such a certificate.
func (a *Authority) Server(t testing.TB, w Wanted) *tls.Config {
	t.Helper()
	der, signer := a.issue(t, w)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: signer}}}
}

func (a *Authority) issue(t testing.TB, w Wanted) ([]byte, crypto.Signer) {
	t.Helper()
	if w.Key == nil {
		w.Key = Key(t)
	}
	if w.NotBefore.IsZero() {
		w.NotBefore = time.Now().Add(-time.Hour)
	}
	if w.NotAfter.IsZero() {
		w.NotAfter = distant
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: w.Name}, NotBefore: w.NotBefore, NotAfter: w.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range w.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if a == nil {
		return sign(t, template, template, w.Key, w.Key).Raw, w.Key
	}
	return sign(t, template, a.Cert, w.Key, a.key).Raw, w.Key
}

// Key makes an ECDSA key.
func Key(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// KeyPEM writes a key as PKCS#8.
func KeyPEM(t testing.TB, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func certPEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func sign(t testing.TB, template, parent *x509.Certificate, subject, issuer crypto.Signer) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, subject.Public(), issuer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
