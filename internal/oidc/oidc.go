// Package oidc signs people in to the console through an OpenID provider: it sends their browser there, and says of who comes
// back who they are and what their role is. Code flow with PKCE, state and nonce; all that is remembered meanwhile is in a
// cookie of the browser that began it, so any process can finish what another one began.
//
// It starts no session (internal/auth does), sets no cookie and answers no request: the pages do. It knows no user beyond what
// the provider says at the moment of the sign-in.
package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	upstream "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/postrider/postrider/internal/fault"
)

// CallbackPath is where the provider sends people back to, below the process's public URL.
const CallbackPath = "/console/oidc/callback"

// Config is the provider, and what its word counts for.
type Config struct {
	Issuer       string
	ClientID     string
	ClientSecret string // "": a public client
	RedirectURL  string // the public URL and CallbackPath
	Scopes       []string

	RoleClaim                string   // a text or a list of texts
	Viewers, Support, Admins []string // values of it that give each role

	Now func() time.Time // by the clock of this machine; nil: time.Now
}

// OIDC is the door to one provider. It is safe for concurrent use.
type OIDC struct {
	cfg    Config
	client *http.Client

	asking singleflight.Group
	mu     sync.Mutex
	known  *provider // nil: it has not been asked with success yet
}

// provider is what discovery says.
type provider struct {
	*upstream.Provider
	verifier *upstream.IDTokenVerifier
	oauth    oauth2.Config
	userinfo bool
}

const (
	// patience is for one call of the provider.
	patience = 10 * time.Second
	// maxAnswer bounds what is read of an answer, in bytes. Key sets and tokens have some thousand.
	maxAnswer = 1 << 20
)

// New makes the door. It does not ask the provider, which may be down without anybody here but who wants to sign in minding.
func New(cfg Config) (*OIDC, error) {
	for name, value := range map[string]string{
		"an issuer": cfg.Issuer, "a client id": cfg.ClientID, "a redirect URL": cfg.RedirectURL, "a claim for roles": cfg.RoleClaim,
	} {
		if value == "" {
			return nil, fmt.Errorf("sign in by OIDC: %s is needed", name)
		}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &OIDC{cfg: cfg, client: newClient()}, nil
}

// newClient makes the client for a provider. Sign-ins are rare, so no connection is kept; a redirect would take the client's
// secret to wherever it points, so none is followed.
func newClient() *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSHandshakeTimeout: patience,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return &http.Client{
		Transport: bounded{transport}, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded cuts answers off: whoever reads them reads them whole.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(r)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, maxAnswer), res.Body}
	}
	return res, err //nolint:wrapcheck // it stands in for the other
}

// provider gives what discovery said, and asks if it has not said anything yet: once at a time, and again with the next
// sign-in when it failed.
func (o *OIDC) provider(ctx context.Context) (*provider, error) {
	o.mu.Lock()
	known := o.known
	o.mu.Unlock()
	if known != nil {
		return known, nil
	}
	// Whoever waits may go; the question is the others' as well.
	asked := o.asking.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		return o.discover(ctx)
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("ask the OpenID provider for its configuration: %w", ctx.Err())
	case answer := <-asked:
		if p, ok := answer.Val.(*provider); ok && answer.Err == nil {
			return p, nil
		}
		return nil, fault.Wrap(fault.Unavailable, answer.Err, "the OpenID provider cannot be asked; try again, or sign in with an API key")
	}
}

func (o *OIDC) discover(ctx context.Context) (*provider, error) {
	found, err := upstream.NewProvider(o.context(ctx), o.cfg.Issuer)
	if err != nil {
		return nil, fmt.Errorf("ask the OpenID provider for its configuration: %w", err)
	}
	var says struct {
		AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
		UserInfo    string   `json:"userinfo_endpoint"`
	}
	if err := found.Claims(&says); err != nil {
		return nil, fmt.Errorf("read the OpenID provider's configuration: %w", err)
	}
	endpoint := found.Endpoint()
	if endpoint.AuthURL == "" || endpoint.TokenURL == "" {
		return nil, errors.New("the OpenID provider's configuration has no authorization or token endpoint")
	}
	endpoint.AuthStyle = authStyle(o.cfg.ClientSecret, says.AuthMethods)
	p := &provider{
		Provider: found, userinfo: says.UserInfo != "",
		verifier: found.Verifier(&upstream.Config{ClientID: o.cfg.ClientID, Now: o.cfg.Now}),
		oauth: oauth2.Config{
			ClientID: o.cfg.ClientID, ClientSecret: o.cfg.ClientSecret, Endpoint: endpoint, RedirectURL: o.cfg.RedirectURL,
			Scopes: o.cfg.Scopes,
		},
	}
	o.mu.Lock()
	o.known = p
	o.mu.Unlock()
	return p, nil
}

// context has the libraries use our client.
func (o *OIDC) context(ctx context.Context) context.Context {
	return upstream.ClientContext(ctx, o.client)
}
