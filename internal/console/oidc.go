package console

import (
	"net/url"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/oidc"
	"github.com/postrider/postrider/internal/web"
)

// oidcCookie is the name under which a browser keeps what its sign-in began with.
const oidcCookie = "oidc"

// beginOIDC sends the browser to the provider. It changes nothing here: what is remembered is in the browser.
func (p *pages) beginOIDC(v *web.Visit) error {
	if p.d.OIDC == nil {
		return fault.New(fault.NotFound, "single sign-on is not configured")
	}
	to, state, err := p.d.OIDC.Begin(v.Ctx(), ownPath(v.R.URL.Query().Get("to")))
	if err != nil {
		return err
	}
	v.Keep(oidcCookie, string(state), oidc.SignInFor)
	return v.Go(to)
}

// finishOIDC starts a session for who comes back from the provider. It is a GET because the provider sends the browser by
// one; what it takes from it is good once, with the cookie of the browser that began.
func (p *pages) finishOIDC(v *web.Visit) error {
	if p.d.OIDC == nil {
		return fault.New(fault.NotFound, "single sign-on is not configured")
	}
	state := v.Kept(oidcCookie)
	v.Keep(oidcCookie, "", 0)
	if state == "" {
		return v.Refused(Base+"/signin", fault.New(fault.Unauthenticated, "The sign-in took too long, or began in another browser. Try again."))
	}
	var user oidc.User
	to := Base + "/"
	err := p.d.Door.Try(auth.ClientOf(v.Ctx()), func() (err error) {
		user, to, err = p.d.OIDC.Finish(v.Ctx(), []byte(state), v.R.URL.Query())
		return err
	})
	if err != nil {
		return v.Refused(Base+"/signin?to="+url.QueryEscape(ownPath(to)), err)
	}
	token, session, err := p.d.Sessions.SignInUser(v.Ctx(), user.Issuer, user.Subject, user.Name, user.Role)
	if err != nil {
		return err
	}
	v.SignedIn(token, session.ExpiresAt)
	return v.Go(ownPath(to))
}
