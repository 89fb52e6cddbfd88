// Package oidctest is an OpenID provider on a real socket, which holds a sign-in to what was asked for: the redirect URI, the
// client, PKCE. It is imported by tests alone.
package oidctest

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
)

// The client that the provider knows, and who signs in there unless Claims say otherwise.
const (
	ClientID     = "postrider"
	ClientSecret = "the secret+of/it"
	Subject      = "u-1"
	Email        = "ada@example.com"
	Group        = "staff"

	code        = "the-code"
	accessToken = "access"
	// Algorithm and KeyID are how ID tokens are signed.
	Algorithm = upstream.ES256
	KeyID     = "k"
)

// Provider is the provider. Its exported fields are how it misbehaves; what a request of now may read is set in Change.
type Provider struct {
	*httptest.Server
	RedirectURL string // the one that the client has registered

	Down     bool
	Claims   map[string]any                                         // of the next ID token, over the usual ones; nil: not there
	Sign     func(key *ecdsa.PrivateKey, claims string) (id string) // nil: as it should be
	Token    func(w http.ResponseWriter) bool                       // answers in place of the token endpoint
	Userinfo map[string]any                                         // nil: there is no such endpoint
	Methods  []string                                               // of authentication at the token endpoint
	Bare     bool                                                   // the client has no secret
	Refuses  string                                                 // what the person's refusal is called; "": they let us in

	mu    sync.Mutex
	keys  *oidctest.Server
	key   *ecdsa.PrivateKey
	asked url.Values     // at the authorization endpoint, last
	calls map[string]int // by path
}

// New starts a provider that ends with the test.
func New(t testing.TB, redirectURL string) *Provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{RedirectURL: redirectURL, key: key, calls: map[string]int{}}
	p.keys = &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: KeyID, Algorithm: Algorithm}}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	p.keys.SetIssuer(p.URL)
	return p
}

// Change sets fields between requests.
func (p *Provider) Change(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// Calls is how often a path was asked for.
func (p *Provider) Calls(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[path]
}

// ServeHTTP is the provider's side of a sign-in.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[r.URL.Path]++
	if p.Down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		Answer(w, p.configuration())
	case "/auth":
		back := p.allow(r.URL.Query())
		http.Redirect(w, r, p.RedirectURL+"?"+back.Encode(), http.StatusFound)
	case "/token":
		p.serveToken(w, r)
	case "/userinfo":
		if r.Header.Get("Authorization") != "Bearer "+accessToken {
			http.Error(w, "whose?", http.StatusUnauthorized)
			return
		}
		Answer(w, p.Userinfo)
	default:
		p.keys.ServeHTTP(w, r)
	}
}

func (p *Provider) configuration() map[string]any {
	says := map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{Algorithm, "HS256", "none"},
		"token_endpoint_auth_methods_supported": p.Methods,
	}
	if p.Userinfo != nil {
		says["userinfo_endpoint"] = p.URL + "/userinfo"
	}
	return says
}

// Answer writes JSON.
func Answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // whoever asked has gone
}

// allow is what the person does: it remembers what was asked for and gives the callback's query.
func (p *Provider) allow(asked url.Values) url.Values {
	p.asked = asked
	back := url.Values{"state": {asked.Get("state")}, "iss": {p.URL}}
	if p.Refuses != "" {
		back.Set("error", p.Refuses)
	} else {
		back.Set("code", code)
	}
	return back
}

// Allow is what a browser that was sent to this address comes back with, and what it was sent there with.
func (p *Provider) Allow(t testing.TB, address string) (back, asked url.Values) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	back = p.allow(u.Query())
	return back, p.asked
}

// good says whether the client may have the tokens.
func (p *Provider) good(r *http.Request) bool {
	id, secret, basic := r.BasicAuth() // as RFC 6749, 2.3.1 has it: each of them form-encoded
	id, _ = url.QueryUnescape(id)
	secret, _ = url.QueryUnescape(secret)
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	return basic == (len(p.Methods) == 0 && !p.Bare) && id == ClientID && (secret == ClientSecret) == !p.Bare &&
		r.PostFormValue("code") == code && r.PostFormValue("redirect_uri") == p.RedirectURL &&
		base64.RawURLEncoding.EncodeToString(challenge[:]) == p.asked.Get("code_challenge")
}

func (p *Provider) serveToken(w http.ResponseWriter, r *http.Request) {
	if p.Token != nil && p.Token(w) {
		return
	}
	if !p.good(r) {
		w.WriteHeader(http.StatusBadRequest)
		Answer(w, map[string]any{"error": "invalid_grant", "error_description": "CANARY"})
		return
	}
	claims := map[string]any{
		"iss": p.URL, "aud": ClientID, "sub": Subject, "nonce": p.asked.Get("nonce"), "exp": time.Now().Add(time.Hour).Unix(),
		"iat": time.Now().Unix(), "groups": []string{Group}, "email": Email, "email_verified": true,
	}
	maps.Copy(claims, p.Claims)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	text, _ := json.Marshal(claims) // texts, numbers and lists: cannot fail
	sign := p.Sign
	if sign == nil {
		sign = func(key *ecdsa.PrivateKey, claims string) string {
			return oidctest.SignIDToken(key, KeyID, Algorithm, claims)
		}
	}
	Answer(w, map[string]any{"access_token": accessToken, "token_type": "Bearer", "expires_in": 60, "id_token": sign(p.key, string(text))})
}
