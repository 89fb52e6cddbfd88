package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/postrider/postrider/config"
	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/internal/metrics"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/schedules"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/internal/watch"
	"github.com/postrider/postrider/subscriptions"
)

// share makes what more than one role stands on.
func (w *wiring) share(ctx context.Context) error {
	var err error
	if w.box, err = sealBox(w.cfg.Secrets); err != nil {
		return err
	}
	if w.policy, err = egressPolicy(w.cfg.Delivery); err != nil {
		return err
	}
	db, now := w.db.pool, w.db.clock.Now
	w.wake, w.accepted = func(int16) {}, func([]dispatcher.NewDelivery) {}
	wake := func(shard int16) { w.wake(shard) }
	w.forget = func(id.ID) {}
	w.registry = prometheus.NewRegistry()
	w.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	w.metrics = metrics.New(w.registry, metricLabels())
	w.registry.MustRegister(metrics.NewPools(map[string]*pgxpool.Pool{"main": db, "queue": w.db.queue}))
	w.store = subscriptions.New(subscriptions.Deps{
		DB: db, IDs: w.db.ids, Now: now, Box: w.box, CheckURL: w.policy.CheckURL, MaxTimeout: w.cfg.Delivery.MaxTimeout(),
		Changed: func(endpoint id.ID) { w.forget(endpoint) },
	})
	if err := w.store.CheckKeys(ctx); err != nil {
		return err
	}
	w.keys = auth.NewKeys(db, w.db.ids, now)
	if err := w.keys.EnsureBootstrap(ctx, w.cfg.Bootstrap.AdminKey); err != nil {
		return err
	}
	w.sessions = auth.NewSessions(db, w.db.ids, w.keys, now, auth.SessionOptions{
		Console: w.cfg.Console.Session, Portal: w.cfg.Portal.Session,
	})
	searches := pg.NewSearches(int(db.Config().MaxConns))
	w.desk = dispatcher.NewDesk(dispatcher.DeskDeps{DB: db, IDs: w.db.ids, Now: now, Wake: wake, Store: w.store, Searches: searches})
	w.alerts = alert.NewDesk(db, w.db.ids.Next, now)
	w.stats = stats.NewReader(db, now)
	w.intake = intake.New(intake.Deps{
		DB: db, IDs: w.db.ids, Now: now, MaxPayload: w.cfg.Events.MaxPayload, Accepted: w.metrics.Accepted, Committed: w.metrics.Committed,
		Wake:  func(made []dispatcher.NewDelivery) { w.accepted(made) },
		Types: w.store.Catalogue(), Searches: searches, Log: w.log, Tracer: w.traces.enqueues,
	})
	w.jobs = jobs.New(jobs.Deps{
		DB: db, IDs: w.db.ids, Now: now, Desk: w.desk, Intake: w.intake, Wake: wake, Log: w.log,
	})
	w.schedules = schedules.New(schedules.Deps{DB: db, IDs: w.db.ids, Now: now, Intake: w.intake, Log: w.log})
	w.watch = w.newWatch()
	return nil
}

func metricLabels() metrics.Labels {
	l := metrics.Labels{
		Version: buildVersion(), Revision: thisBuild().revision(), Healths: subscriptions.Healths(), Breakers: subscriptions.Breakers(),
	}
	for _, k := range slices.Concat(alert.Kinds(), alert.ServiceKinds()) {
		l.AlertKinds = append(l.AlertKinds, k.String())
	}
	for _, o := range dispatcher.Outcomes() {
		l.Outcomes = append(l.Outcomes, o.String())
	}
	for _, s := range dispatcher.States() {
		l.States = append(l.States, s.String())
	}
	l.Roles = watch.Roles()
	for _, f := range auth.Failures() {
		l.Failures = append(l.Failures, string(f))
	}
	return l
}

// sealBox makes the box that the configuration's keys seal and open.
func sealBox(s config.Secrets) (*seal.Box, error) {
	keys := make([][]byte, 0, len(s.Keys))
	for _, k := range s.Keys {
		keys = append(keys, k[:])
	}
	box, err := seal.New(keys)
	if err != nil {
		return nil, fmt.Errorf("use secrets.keys: %w", err)
	}
	return box, nil
}

func egressPolicy(d config.Delivery) (egress.Policy, error) {
	ranges := make([]string, 0, len(d.AllowPorts))
	for _, r := range d.AllowPorts {
		ranges = append(ranges, r.String())
	}
	ports, err := egress.ParsePorts(strings.Join(ranges, ","))
	if err != nil {
		return egress.Policy{}, fmt.Errorf("use delivery.allow_ports: %w", err)
	}
	return egress.Policy{
		AllowHTTP: d.AllowHTTP, AllowNetworks: d.AllowNetworks, DenyNetworks: d.DenyNetworks, AllowPorts: ports,
	}, nil
}
