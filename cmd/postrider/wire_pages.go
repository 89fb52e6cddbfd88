package main

import (
	"net/http"
	"net/url"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/console"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/portal"
	"github.com/postrider/postrider/internal/web"
)

// pages are what people see in browsers, by patterns.
func (w *wiring) pages(door *auth.Door) map[string]http.Handler {
	staff := console.New(console.Deps{
		Subscriptions: w.store, Intake: w.intake, Deliveries: w.desk, Alerts: w.alerts, Keys: w.keys, Door: door,
		Sessions: w.sessions, Audit: audit.NewLog(w.db.pool), Wake: w.wake, Now: w.db.clock.Now, Logger: w.log,
		PortalURL: func(token string) string {
			return publicURL(w.cfg.HTTP, w.addr) + "/portal/enter?" + url.Values{"token": {token}}.Encode()
		},
		Schedule: w.cfg.Delivery.RetrySchedule, UserAgent: userAgent(), Version: buildVersion(),
	})
	tenants := portal.New(portal.Deps{
		Subscriptions: w.store, Intake: w.intake, Deliveries: w.desk, Sessions: w.sessions, Wake: w.wake, AddressClass: egress.Class,
		Now: w.db.clock.Now, Logger: w.log, Schedule: w.cfg.Delivery.RetrySchedule,
		Look: portal.Look{
			Name: w.cfg.Portal.Name, Logo: w.logo.body, LogoType: w.logo.contentType, Accent: w.cfg.Portal.Accent,
		},
		Embedders: w.cfg.Portal.FrameAncestors,
	})
	return map[string]http.Handler{
		console.Base + "/":          staff,
		portal.Base + "/":           tenants,
		"GET /assets/{hash}/{name}": web.Assets(),
	}
}
