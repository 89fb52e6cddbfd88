package oidc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	upstream "github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/oidc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	clientID     = "postrider"
	clientSecret = "the secret+of/it"
	redirectURL  = "https://hooks.example.com" + oidc.CallbackPath
)

// provider is an OpenID provider on a real socket. It holds a sign-in to what was asked for: the redirect URI, the client, PKCE.
type provider struct {
	*httptest.Server
	keys *oidctest.Server
	key  *ecdsa.PrivateKey

	mu       sync.Mutex
	down     bool
	claims   map[string]any                                         // of the next ID token, over the usual ones; nil: not there
	sign     func(key *ecdsa.PrivateKey, claims string) (id string) // nil: as it should be
	token    func(w http.ResponseWriter) bool                       // answers in place of the token endpoint
	userinfo map[string]any                                         // nil: there is no such endpoint
	methods  []string                                               // of authentication at the token endpoint
	asked    url.Values                                             // at the authorization endpoint, last
	bare     bool                                                   // the client has no secret
	calls    map[string]int                                         // by path
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key, calls: map[string]int{}}
	p.keys = &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k", Algorithm: upstream.ES256}}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	p.keys.SetIssuer(p.URL)
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[r.URL.Path]++
	if p.down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		says := map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256", "HS256", "none"},
			"token_endpoint_auth_methods_supported": p.methods,
		}
		if p.userinfo != nil {
			says["userinfo_endpoint"] = p.URL + "/userinfo"
		}
		answer(w, says)
	case "/token":
		p.serveToken(w, r)
	case "/userinfo":
		if r.Header.Get("Authorization") != "Bearer access" {
			http.Error(w, "whose?", http.StatusUnauthorized)
			return
		}
		answer(w, p.userinfo)
	default:
		p.keys.ServeHTTP(w, r)
	}
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func (p *provider) serveToken(w http.ResponseWriter, r *http.Request) {
	if p.token != nil && p.token(w) {
		return
	}
	id, secret, basic := r.BasicAuth() // as RFC 6749, 2.3.1 has it: each of them form-encoded
	id, _ = url.QueryUnescape(id)
	secret, _ = url.QueryUnescape(secret)
	if !basic {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	challenge := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	good := basic == (len(p.methods) == 0 && !p.bare) && id == clientID && (secret == clientSecret) == !p.bare &&
		r.FormValue("code") == "the-code" && r.FormValue("redirect_uri") == redirectURL &&
		base64.RawURLEncoding.EncodeToString(challenge[:]) == p.asked.Get("code_challenge")
	if !good {
		w.WriteHeader(http.StatusBadRequest)
		answer(w, map[string]any{"error": "invalid_grant", "error_description": "CANARY"})
		return
	}
	claims := map[string]any{
		"iss": p.URL, "aud": clientID, "sub": "u-1", "nonce": p.asked.Get("nonce"), "exp": time.Now().Add(time.Hour).Unix(),
		"iat": time.Now().Unix(), "groups": []string{"staff"}, "email": "ada@example.com", "email_verified": true,
	}
	maps.Copy(claims, p.claims)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	text, _ := json.Marshal(claims)
	sign := p.sign
	if sign == nil {
		sign = func(key *ecdsa.PrivateKey, claims string) string {
			return oidctest.SignIDToken(key, "k", upstream.ES256, claims)
		}
	}
	answer(w, map[string]any{"access_token": "access", "token_type": "Bearer", "expires_in": 60, "id_token": sign(p.key, string(text))})
}

// allow is what the person does at the provider: it gives the callback's query.
func (p *provider) allow(t *testing.T, redirect string) url.Values {
	t.Helper()
	u, err := url.Parse(redirect)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = u.Query()
	for name, want := range map[string]string{
		"client_id": clientID, "redirect_uri": redirectURL, "response_type": "code", "scope": "openid email",
		"code_challenge_method": "S256",
	} {
		if got := p.asked.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"state", "nonce", "code_challenge"} {
		if len(p.asked.Get(name)) != 43 {
			t.Errorf("%s is %q", name, p.asked.Get(name))
		}
	}
	return url.Values{"code": {"the-code"}, "state": {p.asked.Get("state")}}
}

func (p *provider) config() oidc.Config {
	return oidc.Config{
		Issuer: p.URL, ClientID: clientID, ClientSecret: clientSecret, RedirectURL: redirectURL, Scopes: []string{"openid", "email"},
		RoleClaim: "groups", Viewers: []string{"staff"}, Support: []string{"support"}, Admins: []string{"root", "ops team"},
	}
}

func (p *provider) door(t *testing.T, change ...func(*oidc.Config)) *oidc.OIDC {
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
func (p *provider) signIn(t *testing.T, o *oidc.OIDC) (oidc.User, error) {
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
