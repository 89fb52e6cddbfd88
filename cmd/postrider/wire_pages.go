package main

import (
	"net/http"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/console"
	"github.com/postrider/postrider/internal/web"
)

// pages are what people see in browsers, by patterns.
func (w *wiring) pages(door *auth.Door) map[string]http.Handler {
	staff := console.New(console.Deps{
		Subscriptions: w.store, Intake: w.intake, Deliveries: w.desk, Alerts: w.alerts, Keys: w.keys, Door: door,
		Sessions: w.sessions, Audit: audit.NewLog(w.db.pool), Wake: w.wake, Now: w.db.clock.Now, Logger: w.log,
		Schedule: w.cfg.Delivery.RetrySchedule, UserAgent: userAgent(), Version: buildVersion(),
	})
	return map[string]http.Handler{
		console.Base + "/":          staff,
		"GET /assets/{hash}/{name}": web.Assets(),
	}
}
