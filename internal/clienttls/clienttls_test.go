package clienttls_test

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/clienttls"
	"github.com/postrider/postrider/internal/pkitest"
)

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func weakKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	return must(rsa.GenerateKey(rand.Reader, 1024))(t) //nolint:gosec // it is to be refused
}

// says checks an error's words; "" is none.
func says(t *testing.T, name string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", name, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v, want %q", name, err, want)
	case err != nil && (strings.Contains(err.Error(), "MI") || strings.Contains(err.Error(), "CANARY")):
		t.Errorf("%s: it repeats what it was given: %v", name, err)
	}
}

func TestCheckCA(t *testing.T) {
	t.Parallel()
	ca := pkitest.NewAuthority(t, "an authority")
	one := ca.PEM()
	leaf, key := ca.Issue(t, pkitest.Wanted{Name: "receiver"})
	now := time.Now()
	weak := weakKey(t)
	feeble, _ := ca.Issue(t, pkitest.Wanted{Key: weak})
	old, _ := ca.Issue(t, pkitest.Wanted{NotAfter: now.Add(-time.Minute)})
	for name, c := range map[string]struct{ text, want string }{
		"one":                    {one, ""},
		"two":                    {one + leaf, ""},
		"a receiver's own":       {leaf, ""},
		"one of two has expired": {one + old, ""},
		"words in front":         {"# an authority\nsubject=CN=x\n" + one, ""},
		"line ends of Windows":   {strings.ReplaceAll(one, "\n", "\r\n"), ""},
		"no last line end":       {strings.TrimSpace(one), ""},
		"empty":                  {"", "is empty"},
		"blank":                  {" \n", "is empty"},
		"no PEM":                 {"CANARY", "is not PEM"},
		"DER":                    {string(ca.Cert.Raw), "is not PEM"},
		"cut":                    {one[:len(one)/2], "cannot be read"},
		"the second is broken":   {one + strings.Replace(leaf, "-----END", "!-----END", 1), "cannot be read"},
		"something behind it":    {one + "CANARY", "behind its last PEM block"},
		"a key":                  {key, "holds a private key"},
		"a key behind it":        {one + key, "holds a private key"},
		"something else":         {block("PUBLIC KEY", []byte("CANARY")), "block 1 is no certificate"},
		"no certificate in it":   {one + block("CERTIFICATE", []byte("CANARY")), "block 2 cannot be read as a certificate"},
		"bytes behind it":        {block("CERTIFICATE", append(ca.Cert.Raw[:len(ca.Cert.Raw):len(ca.Cert.Raw)], 0)), "block 1 cannot be read as a certificate"},
		"a weak key":             {one + feeble, "certificate 2: its key is RSA of 1024 bits"},
		"all have expired":       {old, "has no certificate that has not expired"},
		"too many":               {strings.Repeat(leaf, 33), "more than 32 certificates"},
		"too long":               {strings.Repeat("#", clienttls.MaxCA) + one, "more than 32768 bytes"},
	} {
		kept, err := clienttls.CheckCA(c.text, now)
		says(t, name, err, c.want)
		if c.want != "" {
			continue
		}
		if again, err := clienttls.CheckCA(kept, now); err != nil || again != kept || strings.Contains(kept, "#") {
			t.Errorf("%s: what is kept is not what is taken: %v", name, err)
		}
	}
}

func TestCheckCertificate(t *testing.T) {
	t.Parallel()
	ca := pkitest.NewAuthority(t, "an authority")
	now := time.Now()
	leaf, key := ca.Issue(t, pkitest.Wanted{Name: "acme"})
	old, _ := ca.Issue(t, pkitest.Wanted{NotAfter: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC), NotBefore: time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC)})
	early, _ := ca.Issue(t, pkitest.Wanted{NotBefore: now.Add(time.Minute)})
	for name, c := range map[string]struct{ text, want string }{
		"one":           {leaf, ""},
		"a chain":       {leaf + ca.PEM(), ""},
		"not valid yet": {early, ""}, // it may be put there ahead of time
		"expired":       {old, "expired at 2020-01-02T03:04:05Z"},
		"with its key":  {leaf + key, "holds a private key"},
		"too many":      {strings.Repeat(leaf, 11), "more than 10 certificates"},
		"too long":      {strings.Repeat(" ", clienttls.MaxCertificate) + leaf, "more than 16384 bytes"},
	} {
		_, err := clienttls.CheckCertificate(c.text, now)
		says(t, name, err, c.want)
	}
	subject, end, err := clienttls.Describe(leaf)
	if err != nil || subject != "CN=acme" || end.Before(now) || end.Location() != time.UTC {
		t.Errorf("it is of %s until %v, %v", subject, end, err)
	}
	odd, _ := ca.Issue(t, pkitest.Wanted{Name: "a\x1b[2J\nb\u202e" + strings.Repeat("c", 300)})
	if subject, _, err := clienttls.Describe(odd); err != nil || !strings.HasPrefix(subject, "CN=a?[2J?b?ccc") || len([]rune(subject)) != 256 {
		t.Errorf("an odd name is %q, %v", subject, err)
	}
	if _, _, err := clienttls.Describe(""); err == nil {
		t.Error("nothing is described")
	}
}

func TestReadKey(t *testing.T) {
	t.Parallel()
	rsaKey, weak := must(rsa.GenerateKey(rand.Reader, 2048))(t), weakKey(t)
	ec := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t)
	small := must(ecdsa.GenerateKey(elliptic.P224(), rand.Reader))(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	agreement := must(x509.MarshalPKCS8PrivateKey(must(ecdh.X25519().GenerateKey(rand.Reader))(t)))(t)
	sec1 := block("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(ec))(t))
	pkcs1 := block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey))
	ca := pkitest.NewAuthority(t, "an authority")
	for name, c := range map[string]struct{ text, want string }{
		"PKCS#8, RSA":           {pkitest.KeyPEM(t, rsaKey), ""},
		"PKCS#8, ECDSA":         {pkitest.KeyPEM(t, ec), ""},
		"PKCS#8, Ed25519":       {pkitest.KeyPEM(t, ed), ""},
		"PKCS#1":                {pkcs1, ""},
		"SEC 1":                 {sec1, ""},
		"as openssl ecparam":    {block("EC PARAMETERS", []byte{6, 5, 43, 129, 4, 0, 34}) + sec1, ""},
		"empty":                 {"", "is empty"},
		"no PEM":                {"CANARY", "is not PEM"},
		"a certificate":         {ca.PEM(), "is a certificate"},
		"with its certificate":  {sec1 + ca.PEM(), "more than one PEM block"},
		"two":                   {sec1 + sec1, "more than one PEM block"},
		"cut":                   {sec1[:len(sec1)-30], "cannot be read"},
		"something behind it":   {sec1 + "CANARY", "behind its last PEM block"},
		"of another kind":       {block("OPENSSH PRIVATE KEY", []byte("CANARY")), "is no private key of the kinds"},
		"the wrong label":       {block("RSA PRIVATE KEY", must(x509.MarshalECPrivateKey(ec))(t)), "cannot be read as a private key"},
		"no key in it":          {block("PRIVATE KEY", []byte("CANARY")), "cannot be read as a private key"},
		"encrypted, PKCS#8":     {block("ENCRYPTED PRIVATE KEY", []byte("x")), "is encrypted"},
		"encrypted, as of old":  {"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n", "is encrypted"},
		"RSA that is too short": {pkitest.KeyPEM(t, weak), "is RSA of 1024 bits"},
		"a curve TLS does not have": {
			pkitest.KeyPEM(t, small), "on another curve",
		},
		"a key that agrees only": {block("PRIVATE KEY", agreement), "cannot sign"},
		"too long":               {sec1 + strings.Repeat("\n", clienttls.MaxKey), "more than 16384 bytes"},
	} {
		der, err := clienttls.ReadKey(c.text)
		says(t, name, err, c.want)
		if c.want == "" && len(der) == 0 {
			t.Errorf("%s: no key came of it", name)
		}
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	ca := pkitest.NewAuthority(t, "an authority")
	leaf, text := ca.Issue(t, pkitest.Wanted{})
	_, other := ca.Issue(t, pkitest.Wanted{})
	key, foreign := must(clienttls.ReadKey(text))(t), must(clienttls.ReadKey(other))(t)
	says(t, "its own", clienttls.Match(leaf+ca.PEM(), key), "")
	says(t, "another's", clienttls.Match(leaf, foreign), "is not the key of the certificate")
	says(t, "of the second in the chain", clienttls.Match(ca.PEM()+leaf, key), "is the key of certificate 2 in the chain")
	says(t, "no key", clienttls.Match(leaf, nil), "cannot be read")
}

// Whose connections may be used for whom: the fingerprint says it.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	ca := pkitest.NewAuthority(t, "an authority")
	cert, text := ca.Issue(t, pkitest.Wanted{})
	key := must(clienttls.ReadKey(text))(t)
	other, otherText := ca.Issue(t, pkitest.Wanted{})
	otherKey := must(clienttls.ReadKey(otherText))(t)
	made := map[clienttls.Fingerprint]string{}
	for name, i := range map[string]*clienttls.Identity{
		"an authority":      must(clienttls.New("a", ca.PEM(), "", nil))(t),
		"a certificate":     must(clienttls.New("a", "", cert, key))(t),
		"both":              must(clienttls.New("a", ca.PEM(), cert, key))(t),
		"of another owner":  must(clienttls.New("b", ca.PEM(), cert, key))(t),
		"another one":       must(clienttls.New("a", ca.PEM(), other, otherKey))(t),
		"another authority": must(clienttls.New("a", ca.PEM()+ca.PEM(), "", nil))(t),
	} {
		if before, there := made[i.Fingerprint()]; there {
			t.Errorf("%s and %s share connections", name, before)
		}
		made[i.Fingerprint()] = name
	}
	if must(clienttls.New("a", ca.PEM(), "", nil))(t).Fingerprint() != must(clienttls.New("b", ca.PEM(), "", nil))(t).Fingerprint() {
		t.Error("two endpoints with the same authorities and no certificate do not share connections")
	}
	for name, broken := range map[string]func() (*clienttls.Identity, error){
		"authorities": func() (*clienttls.Identity, error) { return clienttls.New("a", "x", "", nil) },
		"a key":       func() (*clienttls.Identity, error) { return clienttls.New("a", "", cert, otherKey) },
		"no key":      func() (*clienttls.Identity, error) { return clienttls.New("a", "", cert, nil) },
	} {
		if i, err := broken(); err == nil || i != nil {
			t.Errorf("%s that cannot be: %v", name, err)
		}
	}
}

func TestAnIdentityConfigures(t *testing.T) {
	t.Parallel()
	ca := pkitest.NewAuthority(t, "an authority")
	cert, text := ca.Issue(t, pkitest.Wanted{Name: "acme"})
	base := &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{{}}}

	cfg := base.Clone()
	both := must(clienttls.New("a", ca.PEM(), cert, must(clienttls.ReadKey(text))(t)))(t)
	both.Configure(cfg)
	if shown, err := cfg.GetClientCertificate(&tls.CertificateRequestInfo{}); err != nil || shown.Leaf.Subject.CommonName != "acme" {
		t.Errorf("shown is %v, %v", shown, err)
	}
	if cfg.RootCAs == base.RootCAs || cfg.Certificates != nil || !both.OwnCA() || both.Certificate() == nil {
		t.Error("what is not the endpoint's own is left")
	}
	if printed := fmt.Sprintf("%v %+v %#v %s", both, both, both, struct{ I *clienttls.Identity }{both}); strings.ContainsAny(printed, "0123456789") {
		t.Errorf("an identity prints as %s", printed)
	}

	cfg = base.Clone()
	bare := must(clienttls.New("a", "", cert, must(clienttls.ReadKey(text))(t)))(t)
	bare.Configure(cfg)
	if cfg.RootCAs != base.RootCAs || bare.OwnCA() {
		t.Error("without authorities of its own, the others' are gone")
	}
	var none *clienttls.Identity
	if none.OwnCA() || none.Certificate() != nil {
		t.Error("no identity has something")
	}
}

// FuzzCheck: whatever is taken is kept in a form that is taken again, and makes an identity.
func FuzzCheck(f *testing.F) {
	ca := pkitest.NewAuthority(f, "an authority")
	leaf, key := ca.Issue(f, pkitest.Wanted{})
	now := time.Now()
	for _, seed := range []string{"", leaf, key, leaf + ca.PEM(), "x" + leaf, leaf + "x", leaf[:60], strings.ReplaceAll(leaf, "\n", ""), key + leaf} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if kept, err := clienttls.CheckCA(text, now); err == nil {
			if again, err := clienttls.CheckCA(kept, now); err != nil || again != kept {
				t.Errorf("kept is what is not taken: %v", err)
			}
			if _, err := clienttls.New("a", kept, "", nil); err != nil {
				t.Error(err)
			}
		}
		if kept, err := clienttls.CheckCertificate(text, now); err == nil {
			if _, _, err := clienttls.Describe(kept); err != nil {
				t.Error(err)
			}
		}
		if der, err := clienttls.ReadKey(text); err == nil && clienttls.Match(leaf, der) == nil {
			if _, err := clienttls.New("a", "", leaf, der); err != nil {
				t.Error(err)
			}
		}
	})
}
