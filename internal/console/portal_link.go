package console

import (
	"time"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

type portalLinkPage struct {
	Tenant    subscriptions.Tenant
	URL       string
	ExpiresAt time.Time
	ReadOnly  bool
}

// portalLink makes a link into a tenant's portal and shows it, this once: it is in no address and no cookie of ours.
func (p *pages) portalLink(v *web.Visit) error {
	t, err := p.d.Subscriptions.Tenant(v.Ctx(), v.R.PathValue("ten"))
	if err != nil {
		return err
	}
	form, err := v.Form()
	if err != nil {
		return err
	}
	data := portalLinkPage{Tenant: t, ReadOnly: form.Get("read_only") != ""}
	token, until, err := p.d.Sessions.CreatePortalLink(v.Ctx(), t.ID, auth.PortalLinkOptions{ReadOnly: data.ReadOnly, By: v.Session.Principal})
	if err != nil {
		return err
	}
	data.URL, data.ExpiresAt = p.d.PortalURL(token), until
	return v.Show(web.Page{Name: "portal_link", Title: "Link into the portal", Section: "tenants", Data: data})
}
