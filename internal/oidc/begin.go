package oidc

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	upstream "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	// SignInFor is how long somebody may take at the provider; the cookie's Max-Age.
	SignInFor = 10 * time.Minute

	home       = "/console/"
	seedSize   = 32
	stampSize  = 8
	maxReturn  = 1500 // bytes: the cookie has to fit into the 4096 that browsers keep
	authBasic  = "client_secret_basic"
	authInForm = "client_secret_post"
)

// attempt is one sign-in on its way. What the provider and the browser's address get to see of it (state, nonce, the challenge)
// is derived from the seed, which only the cookie has; so a callback that was begun in another browser fits to no cookie.
type attempt struct {
	seed     [seedSize]byte
	begun    time.Time
	returnTo string
}

// derive gives a text of 43 characters for a purpose, bound to all of the attempt.
func (a attempt) derive(purpose string) string {
	mac := hmac.New(sha256.New, a.seed[:])
	mac.Write([]byte(purpose))
	mac.Write(a.stamp())
	mac.Write([]byte(a.returnTo))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (a attempt) state() string    { return a.derive("state:") }
func (a attempt) nonce() string    { return a.derive("nonce:") }
func (a attempt) verifier() string { return a.derive("pkce:") }

func (a attempt) stamp() []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(a.begun.Unix())) //nolint:gosec // read back as it was written
}

// cookie is the attempt as a cookie's value.
func (a attempt) cookie() []byte {
	raw := slices.Concat(a.seed[:], a.stamp(), []byte(a.returnTo))
	return base64.RawURLEncoding.AppendEncode(nil, raw)
}

// readAttempt reads a cookie that Begin made, and that is young enough.
func readAttempt(cookie []byte, now time.Time) (attempt, bool) {
	raw, err := base64.RawURLEncoding.Strict().AppendDecode(nil, cookie)
	if err != nil || len(raw) < seedSize+stampSize || len(raw) > seedSize+stampSize+maxReturn {
		return attempt{}, false
	}
	a := attempt{seed: [seedSize]byte(raw[:seedSize])}
	a.begun = time.Unix(int64(binary.BigEndian.Uint64(raw[seedSize:])), 0) //nolint:gosec // what is out of range is not young
	a.returnTo = local(string(raw[seedSize+stampSize:]))
	age := now.Sub(a.begun)
	return a, age > -time.Minute && age < SignInFor // another process may have begun it, by a clock that is ahead
}

// Begin says where to send a browser that wants to sign in, and what to keep in it meanwhile: state goes as it is into a cookie
// of SignInFor that no script sees. returnTo is where it wants to be afterwards: a path of the console, else it is the
// console's first page. It fails with Unavailable when the provider cannot be asked.
func (o *OIDC) Begin(ctx context.Context, returnTo string) (redirectURL string, state []byte, err error) {
	p, err := o.provider(ctx)
	if err != nil {
		return "", nil, err
	}
	a := attempt{begun: o.cfg.Now(), returnTo: local(returnTo)}
	_, _ = rand.Read(a.seed[:]) // never fails: see auth.random
	return p.oauth.AuthCodeURL(a.state(), upstream.Nonce(a.nonce()), oauth2.S256ChallengeOption(a.verifier())), a.cookie(), nil
}

// local gives a path of the console, with its query: as it was asked for, if it is one.
func local(to string) string {
	u, err := url.Parse(to)
	switch {
	case err != nil, u.Scheme != "", u.Host != "", u.User != nil, u.Opaque != "", u.Fragment != "", len(to) > maxReturn:
		return home
	// A browser takes a backslash for a slash, and drops line breaks and tabs.
	case strings.ContainsFunc(to, func(r rune) bool { return r <= ' ' || r == '\\' || r > '~' }):
		return home
	case u.Path != "/console" && !strings.HasPrefix(u.Path, home), path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/"):
		return home
	case strings.Contains(u.EscapedPath(), "%"): // no path of ours needs it, and who comes after us may read it another way
		return home
	}
	return to
}

// authStyle is how the client says who it is at the token endpoint. Left to itself, oauth2 tries both ways, and the first costs
// the code where it is the wrong one.
func authStyle(secret string, methods []string) oauth2.AuthStyle {
	if secret == "" || len(methods) > 0 && !slices.Contains(methods, authBasic) && slices.Contains(methods, authInForm) {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}
