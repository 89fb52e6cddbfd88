package console

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/web"
)

type signinPage struct {
	Form web.Form
	To   string // the path that was asked for
	OIDC bool
}

// stranger sends who is not signed in to where that is done, and back to the page afterwards.
func (p *pages) stranger(v *web.Visit) error {
	to := Base + "/"
	if v.R.Method == http.MethodGet {
		to = v.R.URL.RequestURI()
	}
	return v.Go(Base + "/signin?to=" + url.QueryEscape(to))
}

func (p *pages) signin(v *web.Visit) error {
	return p.showSignin(v, web.NewForm(), v.R.URL.Query().Get("to"), 0)
}

func (p *pages) showSignin(v *web.Visit, form web.Form, to string, status int) error {
	return v.Show(web.Page{Name: "signin", Title: "Sign in", Status: status, Data: signinPage{
		Form: form, To: ownPath(to), OIDC: p.d.OIDC != nil,
	}})
}

// postSignin exchanges an API key for a session. Wrong ones count as guesses of their address, as they do at the API.
func (p *pages) postSignin(v *web.Visit) error {
	form, err := v.Form()
	if err != nil {
		return err
	}
	to := ownPath(form.Get("to"))
	principal, err := pg.ReadAgain(v.Ctx(), func() (auth.Principal, error) {
		return p.d.Door.Enter(v.Ctx(), form.Get("key"), auth.ClientOf(v.Ctx()))
	})
	if err == nil {
		var token string
		var session auth.Session
		if token, session, err = p.d.Sessions.SignIn(v.Ctx(), principal); err == nil {
			v.SignedIn(token, session.ExpiresAt)
			return v.Go(to)
		}
	}
	form.Values.Del("key")     // it is not sent back
	switch fault.CodeOf(err) { //nolint:exhaustive // the rest is no matter of the key
	case fault.Unauthenticated:
		form.Faults = map[string]string{"key": "this is no key, or it is not valid any more"}
	case fault.Forbidden, fault.TooMany:
		form.Faults = map[string]string{"key": web.Reason(err)}
	default:
		return err
	}
	return p.showSignin(v, form, to, fault.HTTPStatus(fault.CodeOf(err)))
}

func (p *pages) signout(v *web.Visit) error {
	if err := v.SignOut(); err != nil {
		return err
	}
	return v.Done(Base+"/signin", "You are signed out.")
}

// ownPath gives the path if it is one of the console's, else the first page's: a link from elsewhere leads nowhere else.
func ownPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, Base+"/") || strings.Contains(to, `\`) ||
		path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") || // it climbs out
		strings.HasPrefix(u.Path, Base+"/sign") {
		return Base + "/"
	}
	return u.RequestURI()
}
