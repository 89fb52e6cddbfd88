package main

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/subscriptions"
)

func (w *world) startAPI(ctx context.Context) error {
	keys := auth.NewKeys(w.db, w.ids, w.clock.Now)
	_, text, err := keys.Create(ctx, auth.NewKey{Name: "bench", Scopes: []auth.Scope{auth.Admin}})
	if err != nil {
		return err
	}
	w.apiKey = text
	w.intake = intake.New(intake.Deps{
		DB: w.db, IDs: w.ids, Now: w.clock.Now,
		Wake: func(made []dispatcher.NewDelivery) { (*w.accepted.Load())(made) },
	})
	desk := dispatcher.NewDesk(dispatcher.DeskDeps{DB: w.db, IDs: w.ids, Now: w.clock.Now, Wake: func(int16) {}})
	handler := api.New(api.Deps{
		EmptyAfter:    1, // a page shows what one search takes
		Subscriptions: w.store, Intake: w.intake, Deliveries: desk, Alerts: alert.NewDesk(w.db, w.ids.Next, w.clock.Now),
		Keys: keys, Audit: audit.NewLog(w.db), Ping: w.db.Ping, Logger: zerolog.Nop(), MaxPayload: 1 << 20, Version: "bench",
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	w.apiAddr = l.Addr().String()
	w.server = &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = w.server.Serve(l) }()
	return nil
}

// eventsPath is where a tenant's events are enqueued.
func eventsPath(t subscriptions.Tenant) string {
	return "/v1/tenants/" + id.Tenant.Format(t.ID) + "/events"
}
