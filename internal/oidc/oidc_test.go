package oidc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	signing "github.com/coreos/go-oidc/v3/oidc/oidctest"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/oidc"
	"github.com/postrider/postrider/internal/oidctest"
)

func wantCode(t *testing.T, err error, want fault.Code) {
	t.Helper()
	if fault.CodeOf(err) != want {
		t.Errorf("error %v (%s), want %s", err, fault.CodeOf(err), want)
	}
}

func TestASignIn(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(provider, *oidc.Config){
		"secret in the header": func(provider, *oidc.Config) {},
		"secret in the form":   func(p provider, _ *oidc.Config) { p.Methods = []string{"private_key_jwt", "client_secret_post"} },
		"public client":        func(p provider, c *oidc.Config) { p.Bare, c.ClientSecret = true, "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			o := p.door(t, func(c *oidc.Config) { set(p, c) })
			want := oidc.User{Issuer: p.URL, Subject: "u-1", Name: "ada@example.com", Role: auth.RoleViewer}
			for range 2 {
				if user, err := p.signIn(t, o); err != nil || user != want {
					t.Errorf("%+v, %v", user, err)
				}
			}
			if p.Calls("/.well-known/openid-configuration") != 1 || p.Calls("/token") != 2 {
				t.Errorf("%d calls of the configuration, %d for tokens", p.Calls("/.well-known/openid-configuration"), p.Calls("/token"))
			}
		})
	}
}

// What an ID token must not be.
func TestIDTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(provider){
		"another nonce":    func(p provider) { p.Claims = map[string]any{"nonce": strings.Repeat("A", 43)} },
		"no nonce":         func(p provider) { p.Claims = map[string]any{"nonce": nil} },
		"expired":          func(p provider) { p.Claims = map[string]any{"exp": time.Now().Add(-time.Minute).Unix()} },
		"no end":           func(p provider) { p.Claims = map[string]any{"exp": nil} },
		"not yet":          func(p provider) { p.Claims = map[string]any{"nbf": time.Now().Add(time.Hour).Unix()} },
		"another audience": func(p provider) { p.Claims = map[string]any{"aud": "somebody"} },
		"many audiences":   func(p provider) { p.Claims = map[string]any{"aud": []string{clientID, "somebody"}} },
		"another party":    func(p provider) { p.Claims = map[string]any{"azp": "somebody"} },
		"another issuer":   func(p provider) { p.Claims = map[string]any{"iss": "https://id.example"} },
		"no subject":       func(p provider) { p.Claims = map[string]any{"sub": nil} },
		"alg none": func(p provider) {
			p.Sign = func(_ *ecdsa.PrivateKey, claims string) string {
				b64 := base64.RawURLEncoding.EncodeToString
				return b64([]byte(`{"alg":"none"}`)) + "." + b64([]byte(claims)) + "."
			}
		},
		"HMAC under the public key": func(p provider) {
			p.Sign = func(key *ecdsa.PrivateKey, claims string) string {
				public, err := x509.MarshalPKIXPublicKey(key.Public())
				if err != nil {
					panic(err)
				}
				return signing.SignIDToken(public, oidctest.KeyID, "HS256", claims)
			}
		},
		"HMAC under the client's secret": func(p provider) {
			p.Sign = func(_ *ecdsa.PrivateKey, claims string) string {
				return signing.SignIDToken([]byte(strings.Repeat(clientSecret, 3)), oidctest.KeyID, "HS256", claims)
			}
		},
		"another key": func(p provider) {
			other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				panic(err)
			}
			p.Sign = func(_ *ecdsa.PrivateKey, claims string) string {
				return signing.SignIDToken(other, oidctest.KeyID, oidctest.Algorithm, claims)
			}
		},
		"altered": func(p provider) {
			p.Sign = func(key *ecdsa.PrivateKey, claims string) string {
				parts := strings.Split(signing.SignIDToken(key, oidctest.KeyID, oidctest.Algorithm, claims), ".")
				parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(claims, "u-1", "u-0", 1)))
				return strings.Join(parts, ".")
			}
		},
		"none":    func(p provider) { p.Sign = func(*ecdsa.PrivateKey, string) string { return "" } },
		"garbage": func(p provider) { p.Sign = func(*ecdsa.PrivateKey, string) string { return "a.b.c" } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			set(p)
			_, err := p.signIn(t, p.door(t))
			wantCode(t, err, fault.Unauthenticated)
		})
	}
	p := newProvider(t) // and with the right party, many audiences are good
	p.Claims = map[string]any{"aud": []string{clientID, "somebody"}, "azp": clientID}
	if _, err := p.signIn(t, p.door(t)); err != nil {
		t.Error(err)
	}
}

// What a callback must not be. None of these costs the provider a call.
func TestCallbacksThatAreRefused(t *testing.T) {
	t.Parallel()
	now := time.Now()
	clock := now
	p := newProvider(t)
	o := p.door(t, func(c *oidc.Config) { c.Now = func() time.Time { return clock } })
	to, cookie, err := o.Begin(t.Context(), "/console/alerts")
	if err != nil {
		t.Fatal(err)
	}
	_, others, err := o.Begin(t.Context(), "/console/alerts")
	if err != nil {
		t.Fatal(err)
	}
	good := p.allow(t, to)
	with := func(name string, values ...string) url.Values {
		q := url.Values{"code": good["code"], "state": good["state"]}
		delete(q, name)
		if len(values) > 0 {
			q[name] = values
		}
		return q
	}
	// The cookie's own, with another page to go to: whoever can write it still does not fit to the state.
	elsewhere, err := base64.RawURLEncoding.DecodeString(string(cookie))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere = base64.RawURLEncoding.AppendEncode(nil, append(elsewhere[:40], "/console/keys"...))
	for name, c := range map[string]struct {
		cookie []byte
		query  url.Values
		after  time.Duration
	}{
		"no cookie":           {nil, good, 0},
		"another's cookie":    {others, good, 0},
		"garbage for cookie":  {[]byte("!"), good, 0},
		"short cookie":        {cookie[:20], good, 0},
		"long cookie":         {[]byte(strings.Repeat("A", 4096)), good, 0},
		"altered cookie":      {elsewhere, good, 0},
		"too late":            {cookie, good, oidc.SignInFor},
		"before it began":     {cookie, good, -2 * time.Minute},
		"no state":            {cookie, with("state"), 0},
		"wrong state":         {cookie, with("state", strings.Repeat("A", 43)), 0},
		"no code":             {cookie, with("code"), 0},
		"refused":             {cookie, with("error", "access_denied"), 0},
		"refused with markup": {cookie, with("error", "<script>"), 0},
		"another issuer":      {cookie, with("iss", "https://id.example"), 0},
		"nothing":             {nil, nil, 0},
	} {
		clock = now.Add(c.after)
		_, _, err := o.Finish(t.Context(), c.cookie, c.query)
		wantCode(t, err, fault.Unauthenticated)
		if strings.Contains(err.Error(), "script") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p.Calls("/token") != 0 {
		t.Errorf("the provider was asked %d times", p.Calls("/token"))
	}
	clock = now.Add(oidc.SignInFor - time.Second)
	if _, back, err := o.Finish(t.Context(), cookie, with("iss", p.URL)); err != nil || back != "/console/alerts" {
		t.Errorf("the good one: %q, %v", back, err)
	}
}

func TestTheTokenEndpointFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		token func(w http.ResponseWriter) bool
		want  fault.Code
	}{
		"refuses": {func(w http.ResponseWriter) bool {
			w.WriteHeader(http.StatusBadRequest)
			oidctest.Answer(w, map[string]any{"error": "invalid_grant", "error_description": "CANARY"})
			return true
		}, fault.Unauthenticated},
		"redirects": {func(w http.ResponseWriter) bool {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		}, fault.Unauthenticated},
		"fails": {func(w http.ResponseWriter) bool {
			http.Error(w, "CANARY", http.StatusBadGateway)
			return true
		}, fault.Unavailable},
		"floods": {func(w http.ResponseWriter) bool {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"access_token":"` + strings.Repeat("x", 2<<20) + `"}`))
			return true
		}, fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			p.Token = c.token
			_, err := p.signIn(t, p.door(t))
			wantCode(t, err, c.want)
			if strings.Contains(err.Error(), "CANARY") || strings.Contains(err.Error(), clientSecret) || p.Calls("/elsewhere") != 0 {
				t.Errorf("%v, %d calls elsewhere", err, p.Calls("/elsewhere"))
			}
		})
	}
}

// A provider that is down keeps nobody from starting, and is asked again with the next sign-in.
func TestAProviderThatIsDown(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.Down = true
	o := p.door(t)
	for range 2 {
		_, _, err := o.Begin(t.Context(), "")
		wantCode(t, err, fault.Unavailable)
	}
	p.Change(func() { p.Down = false })
	if _, err := p.signIn(t, o); err != nil {
		t.Error(err)
	}
	other := p.door(t, func(c *oidc.Config) { c.Issuer = p.URL + "/" }) // not how it spells itself
	_, _, err := other.Begin(t.Context(), "")
	wantCode(t, err, fault.Unavailable)
	if _, err := oidc.New(oidc.Config{Issuer: p.URL, ClientID: "c", RoleClaim: "groups"}); err == nil {
		t.Error("a door without a redirect URL")
	}
}

func TestRolesOfClaims(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		claim    any // nil: not there
		userinfo map[string]any
		want     auth.Role // "": refused
	}{
		{"staff", nil, auth.RoleViewer},
		{"ops team", nil, auth.RoleAdmin},
		{[]string{"staff", "support"}, nil, auth.RoleSupport},
		{[]string{"root", "staff"}, nil, auth.RoleAdmin},
		{[]any{1, true, nil, "support"}, nil, auth.RoleSupport},
		{[]string{"STAFF", "staff ", "admin", ""}, nil, ""},
		{"staff,root", nil, ""},
		{map[string]any{"staff": true}, nil, ""},
		{true, nil, ""},
		{[]string{}, nil, ""},
		{nil, nil, ""},
		{nil, map[string]any{"sub": "u-1", "groups": []string{"support"}}, auth.RoleSupport},
		{nil, map[string]any{"sub": "u-1"}, ""},
		{[]string{}, map[string]any{"sub": "u-1", "groups": []string{"support"}}, ""}, // the token says it, and that is that
	} {
		p := newProvider(t)
		p.Claims, p.Userinfo = map[string]any{"groups": c.claim}, c.userinfo
		user, err := p.signIn(t, p.door(t))
		if c.want == "" {
			wantCode(t, err, fault.Forbidden)
		} else if err != nil || user.Role != c.want {
			t.Errorf("%v: %s, %v", c.claim, user.Role, err)
		}
	}
	p := newProvider(t)
	p.Claims, p.Userinfo = map[string]any{"groups": nil}, map[string]any{"sub": "u-2", "groups": []string{"root"}}
	_, err := p.signIn(t, p.door(t))
	wantCode(t, err, fault.Unauthenticated) // somebody else's claims
}

func TestNames(t *testing.T) {
	t.Parallel()
	for want, claims := range map[string]map[string]any{
		"ada@example.com": {"name": "Ada", "preferred_username": "ada"},
		"ada":             {"email_verified": false, "name": "Ada L", "preferred_username": "ada"},
		"Ada L":           {"email": nil, "name": "Ada L"},
		"u-1":             {"email_verified": nil, "name": 7, "preferred_username": []string{"x"}},
	} {
		p := newProvider(t)
		p.Claims = claims
		if user, err := p.signIn(t, p.door(t)); err != nil || user.Name != want || user.Subject != "u-1" {
			t.Errorf("%v: %+v, %v", claims, user, err)
		}
	}
}

// A sign-in leads back into the console and nowhere else.
func TestWhereASignInLeads(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	o := p.door(t)
	good := []string{"/console", "/console/", "/console/deliveries?state=failed&q=%2F%2Fx", "/console/a/b/", "/console/?next=https://evil.example"}
	for _, to := range slices.Concat(good, []string{
		"", "/", "/portal/", "/consoles", "/console2/x", "console/", "//evil.example/console/", "https://evil.example/console/", "http:/console/",
		"/console/../portal", "/console/..", "/console//evil.example", "/console/%2e%2e/x", "/console/./x", "/console\\@evil.example", "/\\evil.example",
		"/console/\n", "/console/\t", "/console/é", "/console/#x", "javascript:alert(1)", "/console/" + strings.Repeat("x", 2000), "/console/%zz", "\x00",
	}) {
		at, cookie, err := o.Begin(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		_, back, err := o.Finish(t.Context(), cookie, p.allow(t, at))
		want := "/console/"
		if slices.Contains(good, to) {
			want = to
		}
		if err != nil || back != want || len(cookie) > 2200 {
			t.Errorf("%q leads to %q, %v", to, back, err)
		}
	}
}
