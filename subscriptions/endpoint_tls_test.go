package subscriptions_test

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pkitest"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

func tlsPatch(change func(*subscriptions.TLSPatch)) subscriptions.EndpointPatch {
	var p subscriptions.TLSPatch
	change(&p)
	return subscriptions.EndpointPatch{TLS: put(p)}
}

// What is not given stays, null takes it away, and a certificate comes and goes with its key.
func TestTLSIsMerged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	ca := pkitest.NewAuthority(t, "an authority")
	cert, key := ca.Issue(t, pkitest.Wanted{Name: "acme"})
	other, otherKey := ca.Issue(t, pkitest.Wanted{Name: "acme anew"})
	e, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) {
		n.TLS = subscriptions.TLSPatch{CA: put(ca.PEM()), Certificate: put(cert), Key: put(key)}
	})
	if subject, end := e.TLS.About(); subject != "CN=acme" || end.IsZero() {
		t.Errorf("it is of %q until %v", subject, end)
	}
	for i, c := range []struct {
		patch    subscriptions.EndpointPatch
		ca, cert string
		kept     bool // the version
	}{
		{tlsPatch(func(*subscriptions.TLSPatch) {}), ca.PEM(), cert, true},
		{tlsPatch(func(p *subscriptions.TLSPatch) { p.CA, p.Certificate = put(ca.PEM()), put("\n"+cert) }), ca.PEM(), cert, true},
		{tlsPatch(func(p *subscriptions.TLSPatch) { p.CA = put(cert) }), cert, cert, false},
		{tlsPatch(func(p *subscriptions.TLSPatch) { p.CA = null[string]() }), "", cert, false},
		{tlsPatch(func(p *subscriptions.TLSPatch) { p.Certificate, p.Key = put(other), put(otherKey) }), "", other, false},
		{tlsPatch(func(p *subscriptions.TLSPatch) { p.CA, p.Certificate = put(ca.PEM()), null[string]() }), ca.PEM(), "", false},
		{tlsPatch(func(p *subscriptions.TLSPatch) { p.Key = null[string]() }), ca.PEM(), "", true},
		{tlsPatch(func(p *subscriptions.TLSPatch) { p.Certificate, p.Key = put(cert), put(key) }), ca.PEM(), cert, false},
		{tlsPatch(func(p *subscriptions.TLSPatch) { p.Certificate, p.Key = null[string](), null[string]() }), ca.PEM(), "", false},
		{tlsPatch(func(p *subscriptions.TLSPatch) { p.Certificate, p.Key = put(cert), put(key) }), ca.PEM(), cert, false},
		{subscriptions.EndpointPatch{TLS: null[subscriptions.TLSPatch]()}, "", "", false},
	} {
		before := e.Version
		var err error
		if e, err = w.UpdateEndpoint(t.Context(), tenant, ref(e), "", c.patch); err != nil {
			t.Fatal(i, err)
		}
		if e.TLS.CA != c.ca || e.TLS.Certificate != c.cert || (e.Version == before) != c.kept {
			t.Errorf("%d: %d authorities, %d certificates, version %d after %d", i, strings.Count(e.TLS.CA, "BEGIN"),
				strings.Count(e.TLS.Certificate, "BEGIN"), e.Version, before)
		}
		target := w.target(e)
		if target.Err != nil || target.TLS.OwnCA() != (c.ca != "") || (target.TLS.Certificate() != nil) != (c.cert != "") {
			t.Errorf("%d: an attempt is made with %v, %v", i, target.TLS, target.Err)
		}
	}
}

func TestTLSFaultsHavePointers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	ca := pkitest.NewAuthority(t, "an authority")
	cert, key := ca.Issue(t, pkitest.Wanted{})
	_, otherKey := ca.Issue(t, pkitest.Wanted{})
	with, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) {
		n.TLS = subscriptions.TLSPatch{Certificate: put(cert), Key: put(key)}
	})
	without, _ := w.endpoint(tenant, nil)
	given := func(ca, cert, key string) subscriptions.TLSPatch {
		p := subscriptions.TLSPatch{}
		for text, field := range map[*string]*subscriptions.Optional[string]{&ca: &p.CA, &cert: &p.Certificate, &key: &p.Key} {
			switch *text {
			case "-":
			case "null":
				*field = null[string]()
			default:
				*field = put(*text)
			}
		}
		return p
	}
	for name, c := range map[string]struct {
		endpoint subscriptions.Endpoint
		patch    subscriptions.TLSPatch
		want     []string
	}{
		"all broken":                     {without, given("x", "x", "x"), []string{"/tls/ca", "/tls/certificate", "/tls/key"}},
		"all empty":                      {without, given("", "", ""), []string{"/tls/ca", "/tls/certificate", "/tls/key"}},
		"another's key":                  {without, given("-", cert, otherKey), []string{"/tls/key"}},
		"no key":                         {without, given("-", cert, "-"), []string{"/tls/key"}},
		"null for a key":                 {with, given("-", cert, "null"), []string{"/tls/key"}},
		"a key alone":                    {with, given("-", "-", key), []string{"/tls/certificate"}},
		"no key any more":                {with, given("-", "-", "null"), []string{"/tls/key"}},
		"a key and no certificate":       {with, given("-", "null", key), []string{"/tls/key"}},
		"another certificate, no key":    {with, given("-", ca.PEM(), "-"), []string{"/tls/key"}},
		"a key where a certificate goes": {without, given("-", key, key), []string{"/tls/certificate"}},
	} {
		_, err := w.UpdateEndpoint(t.Context(), tenant, ref(c.endpoint), "", subscriptions.EndpointPatch{TLS: put(c.patch)})
		if got := pointers(t, err); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if strings.Contains(err.Error(), "MI") {
			t.Errorf("%s: %v", name, err)
		}
	}
	lax := subscriptions.New(subscriptions.Deps{
		DB: w.pool, IDs: w.ids, Now: w.clock.now, Box: must(seal.New([][]byte{sealKey}))(t), CheckURL: func(string) error { return nil },
	})
	plain, _, err := lax.CreateEndpoint(t.Context(), tenant, subscriptions.NewEndpoint{URL: "http://plain.example"})
	if err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]func() error{
		"given to plain http": func() error {
			_, err := lax.UpdateEndpoint(t.Context(), tenant, ref(plain), "", subscriptions.EndpointPatch{TLS: put(given(ca.PEM(), "-", "-"))})
			return err
		},
		"then plain http": func() error {
			_, err := lax.UpdateEndpoint(t.Context(), tenant, ref(with), "", subscriptions.EndpointPatch{URL: put("http://plain.example")})
			return err
		},
	} {
		if got := pointers(t, try()); !slices.Equal(got, []string{"/tls"}) {
			t.Errorf("%s: %v", name, got)
		}
	}
	cert, key = ca.Issue(t, pkitest.Wanted{NotBefore: w.clock.now().Add(-time.Hour), NotAfter: w.clock.now()})
	_, _, err = w.CreateEndpoint(t.Context(), tenant, subscriptions.NewEndpoint{URL: "https://a.example", TLS: given("-", cert, key)})
	if got := pointers(t, err); !slices.Equal(got, []string{"/tls/certificate"}) || !strings.Contains(err.Error(), "expired at") {
		t.Errorf("an expired certificate: %v", err)
	}
}

// The key stands nowhere as it is, opens nowhere else, and goes with its endpoint.
func TestATLSKeyIsSealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	ca := pkitest.NewAuthority(t, "an authority")
	withKey := func() (subscriptions.Endpoint, string) {
		cert, key := ca.Issue(t, pkitest.Wanted{})
		e, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) {
			n.TLS = subscriptions.TLSPatch{CA: put(ca.PEM()), Certificate: put(cert), Key: put(key)}
		})
		return e, key
	}
	e, key := withKey()
	block, _ := pem.Decode([]byte(key))
	parsed := must(x509.ParsePKCS8PrivateKey(block.Bytes))(t)
	secret := must(parsed.(interface{ Bytes() ([]byte, error) }).Bytes())(t)
	dump := w.dump()
	for _, form := range append(spellings(t, string(block.Bytes)), append(spellings(t, string(secret)), strings.Split(key, "\n")[1])...) {
		if strings.Contains(dump, form) {
			t.Errorf("%q stands in the database", form)
		}
	}
	if !strings.Contains(dump, strings.Split(e.TLS.Certificate, "\n")[1]) {
		t.Error("the dump does not hold what is in the tables")
	}

	other, _ := withKey()
	w.exec(`UPDATE endpoints e SET tls_key_sealed = o.tls_key_sealed FROM endpoints o WHERE e.id = $1 AND o.id = $2`, other.ID.N, e.ID.N)
	if target := w.target(other); target.Err == nil || target.TLS != nil {
		t.Error("another endpoint's key opens")
	}
	if shown := must(w.Endpoint(t.Context(), tenant, ref(other)))(t); shown.Unreadable == "" || shown.TLS.Certificate == "" {
		t.Errorf("what does not open is shown as %+v", shown)
	}
	third, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Scheme, n.Secret = signer.GitHub, "0123456789abcdef" })
	w.exec(`UPDATE endpoint_secrets SET sealed = (SELECT tls_key_sealed FROM endpoints WHERE id = $1) WHERE endpoint_id = $1`, e.ID.N)
	w.exec(`UPDATE endpoints SET tls_certificate = 'x', tls_key_id = k.key_id, tls_key_sealed = k.sealed
		FROM endpoint_secrets k WHERE k.endpoint_id = $1 AND endpoints.id = $1`, third.ID.N)
	for _, swapped := range []subscriptions.Endpoint{e, third} {
		if err := w.target(swapped).Err; err == nil || !strings.Contains(err.Error(), "does not open") {
			t.Errorf("a key and a secret of one endpoint stand for each other: %v", err)
		}
	}

	gone, _ := withKey()
	must(w.DeleteEndpoint(t.Context(), tenant, ref(gone)))(t)
	const left = `SELECT FROM endpoints WHERE deleted_at IS NOT NULL AND num_nonnulls(tls_ca, tls_certificate, tls_key_id, tls_key_sealed) = 0`
	if n := w.count(left); n != 1 {
		t.Error("a deleted endpoint keeps its key")
	}
	if _, _, err := w.DeleteTenant(t.Context(), id.Tenant.Format(tenant.ID)); err != nil {
		t.Fatal(err)
	}
	if n := w.count(left); n != 4 {
		t.Errorf("of 4 endpoints of a deleted tenant %d have no key left", n)
	}
	_, err := w.Endpoint(t.Context(), tenant, ref(gone))
	wantCode(t, "a deleted endpoint", err, fault.NotFound)
}

// Who mends a certificate need not wait for the breaker.
func TestOtherTLSClosesTheBreaker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, nil)
	until := w.clock.now().Add(time.Hour)
	w.exec(`INSERT INTO endpoint_pace VALUES ($1, $2, 'open', 1, $3, $3)`, e.ID.Shard, e.ID.N, until)
	ca := pkitest.NewAuthority(t, "an authority")
	e = must(w.UpdateEndpoint(t.Context(), tenant, ref(e), "", tlsPatch(func(p *subscriptions.TLSPatch) { p.CA = put(ca.PEM()) })))(t)
	if e.Pace.Breaker != subscriptions.BreakerClosed {
		t.Errorf("the breaker is %s", e.Pace.Breaker)
	}
}
