package main

import (
	"net/http"
	"net/url"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/console"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/oidc"
	"github.com/postrider/postrider/internal/portal"
	"github.com/postrider/postrider/internal/watch"
	"github.com/postrider/postrider/internal/web"
)

// pages are what people see in browsers, by patterns. It is called when it is known where we listen.
func (w *wiring) pages(door *auth.Door) (map[string]http.Handler, error) {
	provider, err := w.oidc()
	if err != nil {
		return nil, err
	}
	logo, err := readLogo(w.cfg.Portal.LogoFile)
	if err != nil {
		return nil, err
	}
	staff := console.New(console.Deps{
		Subscriptions: w.store, Intake: w.intake, Deliveries: w.desk, Alerts: w.alerts, Keys: w.keys, Door: door,
		Sessions: w.sessions, Audit: audit.NewLog(w.db.pool), Jobs: w.jobs, Schedules: w.schedules, Stats: w.stats, Processes: w.watch.Fleet, OIDC: provider, Wake: w.wake, Now: w.db.clock.Now, Logger: w.log,
		PortalURL: func(token string) string {
			return publicURL(w.cfg.HTTP, w.addr) + "/portal/enter?" + url.Values{"token": {token}}.Encode()
		},
		Schedule: w.cfg.Delivery.RetrySchedule, UserAgent: userAgent(), Version: buildVersion(),
	})
	tenants := portal.New(portal.Deps{
		Subscriptions: w.store, Intake: w.intake, Deliveries: w.desk, Door: door, Sessions: w.sessions, Jobs: w.jobs, Stats: w.stats, Wake: w.wake, AddressClass: egress.Class,
		Now: w.db.clock.Now, Logger: w.log, Schedule: w.cfg.Delivery.RetrySchedule,
		Look: portal.Look{
			Name: w.cfg.Portal.Name, Logo: logo.body, LogoType: logo.contentType, Accent: w.cfg.Portal.Accent,
		},
		Embedders: w.cfg.Portal.FrameAncestors,
	})
	all := map[string]http.Handler{
		console.Base + "/":          staff,
		portal.Base + "/":           tenants,
		"GET /assets/{hash}/{name}": web.Assets(),
	}
	if w.cfg.Canary.Enabled {
		all["POST "+watch.CanaryPath+"{token}"] = w.watch.Receiver(w.store)
	}
	return all, nil
}

// oidc is the OpenID provider that people may sign in through: nil if there is none.
func (w *wiring) oidc() (*oidc.OIDC, error) {
	c := w.cfg.Console.OIDC
	if c.Issuer == "" {
		return nil, nil //nolint:nilnil // the console takes it for there being none
	}
	return oidc.New(oidc.Config{
		Issuer: c.Issuer, ClientID: c.ClientID, ClientSecret: c.ClientSecret, Scopes: c.Scopes,
		RedirectURL: publicURL(w.cfg.HTTP, w.addr) + oidc.CallbackPath,
		RoleClaim:   c.RoleClaim, Viewers: c.Viewers, Support: c.Support, Admins: c.Admins,
	})
}
