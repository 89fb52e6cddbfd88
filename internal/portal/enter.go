package portal

import (
	"net/http"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/web"
)

// enterPage offers to use a link. It does not do it by itself: what previews links, or reads them for viruses, is not to spend
// one. A browser with JavaScript sends the form at once.
type enterPage struct{ Token string }

// closedPage says why somebody is not in the portal.
type closedPage struct{ Detail string }

const again = "Open it again from the place that you came from."

func (p *pages) enter(v *web.Visit) error {
	hideToken(v)
	token := v.R.URL.Query().Get("token")
	err := p.d.Door.Try(auth.ClientOf(v.Ctx()), func() error {
		_, err := p.d.Sessions.PeekPortalLink(v.Ctx(), token)
		return err
	})
	if err != nil {
		return p.refuse(v, err)
	}
	return v.Show(web.Page{Name: "enter", Title: "Continue to " + p.d.Look.Name, Data: enterPage{token}})
}

func (p *pages) postEnter(v *web.Visit) error {
	hideToken(v)
	form, err := v.Form()
	if err != nil {
		return err
	}
	var token string
	var session auth.Session
	err = p.d.Door.Try(auth.ClientOf(v.Ctx()), func() (err error) {
		token, session, err = p.d.Sessions.EnterPortal(v.Ctx(), form.Get("token"))
		return err
	})
	if err != nil {
		return p.refuse(v, err)
	}
	v.SignedIn(token, session.ExpiresAt)
	return v.Go(Base + "/")
}

// hideToken keeps the address of the page to itself, for the token is in it. The origin it tells: without that, a browser says of
// its form that it comes from nowhere (Origin: null), and it would be refused as another origin's.
func hideToken(v *web.Visit) { v.W.Header().Set("Referrer-Policy", "strict-origin") }

// refuse says that a link opens nothing. Other faults are passed on.
func (p *pages) refuse(v *web.Visit, err error) error {
	if !fault.Is(err, fault.Unauthenticated) {
		return err
	}
	return v.Show(web.Page{Name: "closed", Title: "This link does not open any more", Status: http.StatusUnauthorized, Data: closedPage{
		"A link opens " + p.d.Look.Name + " once, and only for a few minutes. " + again,
	}})
}

func (p *pages) stranger(v *web.Visit) error {
	return v.Show(web.Page{Name: "closed", Title: "You are not in " + p.d.Look.Name, Status: http.StatusUnauthorized, Data: closedPage{
		"Nobody has entered here with this browser, or it was too long ago. " + again,
	}})
}

func (p *pages) signout(v *web.Visit) error {
	if err := v.SignOut(); err != nil {
		return err
	}
	return v.Go(Base + "/left")
}

func (p *pages) left(v *web.Visit) error {
	return v.Show(web.Page{Name: "closed", Title: "You have left " + p.d.Look.Name, Data: closedPage{again}})
}

func noPage() error { return fault.New(fault.NotFound, "there is no such page") }
