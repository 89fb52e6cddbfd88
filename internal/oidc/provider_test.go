package oidc_test

import (
	"net/url"
	"testing"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/oidc"
	"github.com/postrider/postrider/internal/oidctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	clientID     = oidctest.ClientID
	clientSecret = oidctest.ClientSecret
	redirectURL  = "https://hooks.example.com" + oidc.CallbackPath
)

// provider is an OpenID provider, and the doors to it.
type provider struct{ *oidctest.Provider }

func newProvider(t *testing.T) provider {
	t.Helper()
	return provider{oidctest.New(t, redirectURL)}
}

// allow is what the person does at the provider: it gives the callback's query.
func (p provider) allow(t *testing.T, redirect string) url.Values {
	t.Helper()
	back, asked := p.Allow(t, redirect)
	for name, want := range map[string]string{
		"client_id": clientID, "redirect_uri": redirectURL, "response_type": "code", "scope": "openid email",
		"code_challenge_method": "S256",
	} {
		if got := asked.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"state", "nonce", "code_challenge"} {
		if len(asked.Get(name)) != 43 {
			t.Errorf("%s is %q", name, asked.Get(name))
		}
	}
	return back
}

func (p provider) config() oidc.Config {
	return oidc.Config{
		Issuer: p.URL, ClientID: clientID, ClientSecret: clientSecret, RedirectURL: redirectURL, Scopes: []string{"openid", "email"},
		RoleClaim: "groups", Viewers: []string{oidctest.Group}, Support: []string{"support"}, Admins: []string{"root", "ops team"},
	}
}

func (p provider) door(t *testing.T, change ...func(*oidc.Config)) *oidc.OIDC {
	t.Helper()
	cfg := p.config()
	for _, c := range change {
		c(&cfg)
	}
	o, err := oidc.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// signIn goes the whole way.
func (p provider) signIn(t *testing.T, o *oidc.OIDC) (oidc.User, error) {
	t.Helper()
	to, cookie, err := o.Begin(t.Context(), "/console/deliveries?state=failed")
	if err != nil {
		t.Fatal(err)
	}
	user, back, err := o.Finish(t.Context(), cookie, p.allow(t, to))
	if err == nil && back != "/console/deliveries?state=failed" {
		t.Errorf("back to %q", back)
	}
	return user, err
}
