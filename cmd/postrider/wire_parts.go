package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	ticks "golang.org/x/time/rate"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pulse"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/internal/upkeep"
	"github.com/postrider/postrider/internal/watch"
	"github.com/postrider/postrider/subscriptions"
)

const (
	// clockEvery is how often the database's clock is read anew. Clocks drift by some milliseconds a minute at worst; but when the
	// database's is set, all processes have to notice at about the same time.
	clockEvery = 5 * time.Second
	// settle is how long a part may take to stop that only has to finish what it is in the middle of.
	settle = 10 * time.Second
	// drainSlack is added to delivery.timeout: what a stop waits for deliveries on their way.
	drainSlack = 5 * time.Second
)

func (w *wiring) add(parts ...part) { w.parts = append(w.parts, parts...) }

// server makes a server that has http.max_connections at most.
func (w *wiring) server(l net.Listener, h http.Handler) *server {
	limits := usualLimits
	limits.connections = w.cfg.HTTP.MaxConnections
	return limits.server(l, h, w.log)
}

// addMetrics serves /metrics on an address of its own, if there is one: to the last, for it tells of the stop as well.
func (w *wiring) addMetrics(ctx context.Context) error {
	if w.cfg.Metrics.Addr == "" {
		return nil
	}
	l, err := listen(ctx, w.cfg.Metrics.Addr)
	if err != nil {
		return err
	}
	w.sockets = append(w.sockets, l)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{}))
	w.add(w.server(l, mux).part("the metrics' server", "metrics.listening", w.log))
	return nil
}

// addHealth serves a process that takes no requests with health checks and metrics on http.addr, to the last as well.
// Several processes of one machine may share the address of a configuration, and to be watched over is no reason not to
// work: where it cannot be had, the log says so once.
func (w *wiring) addHealth(ctx context.Context) {
	l, err := listen(ctx, w.cfg.HTTP.Addr)
	if err != nil {
		w.log.Warn().Str("addr", w.cfg.HTTP.Addr).Err(err).Msg("health.not_served")
		return
	}
	w.sockets = append(w.sockets, l)
	deps := api.Deps{
		Ping: w.db.pool.Ping, Standing: w.watch.Standing, Hanging: w.watch.Hanging, Logger: w.log, Version: buildVersion(),
	}
	if w.cfg.Metrics.Addr == "" {
		deps.Metrics = w.registry
	}
	w.add(w.server(l, api.NewHealth(deps)).part("the health checks' server", "health.listening", w.log))
}

// addClock keeps in step with the database's clock, which may be set, or become another machine's.
func (w *wiring) addClock() {
	var p pulse.Pulse
	w.add(part{name: "the clock", stop: settle, still: p.Still, run: func(ctx context.Context) error {
		tick := time.NewTicker(clockEvery)
		defer tick.Stop()
		for was := time.Duration(0); ; {
			p.Turn()
			switch off := w.db.clock.Off(); {
			case off != 0 && was == 0:
				w.log.Warn().Dur("ahead", off).Msg("clock.database_was_set")
				w.db.node.Tell()
				was = off
			case off == 0 && was != 0:
				w.log.Info().Msg("clock.made_up")
				was = 0
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			if err := w.db.clock.Sync(ctx, w.db.pool); err != nil && ctx.Err() == nil {
				w.log.Warn().Err(err).Msg("clock.failed")
			}
		}
	}})
}

// addNode keeps the node number this process's, and ends the process when it no longer is.
func (w *wiring) addNode() {
	w.add(part{name: "the node number", stop: settle, run: func(ctx context.Context) error {
		return w.db.node.Hold(ctx, func(err error) { w.log.Warn().Err(err).Msg("node.failed") })
	}})
}

// addCatalogue has this process know the catalogue of event types, and what others change in it: whoever accepts events asks it.
func (w *wiring) addCatalogue(ctx context.Context) {
	failed := func(err error) { w.log.Warn().Err(err).Msg("catalogue.failed") }
	if err := w.store.Catalogue().Refresh(ctx); err != nil { // before the first event
		failed(err)
	}
	var p pulse.Pulse
	w.add(part{name: "the catalogue", stop: settle, still: p.Still, run: func(ctx context.Context) error {
		pulse.Again(ctx, subscriptions.CatalogueEvery, func(ctx context.Context) error {
			p.Turn()
			return w.store.Catalogue().Refresh(ctx) //nolint:wrapcheck // says what it did
		}, failed)
		return nil
	}})
}

// addSender adds what tells of alerts.
func (w *wiring) addSender(ctx context.Context) error {
	c := w.cfg.Alerts
	s, err := alert.NewSender(alert.SenderConfig{
		URLs: c.URLs, Throttle: alert.Throttle(c.Throttle), PublicURL: w.cfg.HTTP.PublicURL, MailURL: c.MailURL, MailName: w.cfg.Portal.Name,
		Digest: c.Digest, Timezone: c.DigestTimezone,
	}, alert.SenderDeps{
		DB: w.db.pool, Now: w.db.clock.Now, Log: w.log, Count: w.metrics.Notices, Oldest: w.metrics.SetOldestNotice,
		Operator: w.operator(ctx),
	})
	if err != nil {
		return fmt.Errorf("tell of alerts: %w", err)
	}
	w.add(part{name: "the sender of alerts", stop: settle, run: s.Run})
	return nil
}

// addScheduler adds what keeps house.
func (w *wiring) addScheduler() {
	u := upkeep.New(upkeep.Deps{
		DB: w.db.pool, Now: w.db.clock.Now, Log: w.log, Metrics: w.metrics, Store: w.store, Desk: w.desk, Alerts: w.alerts,
		Jobs: w.jobs.DropOld, Erasures: w.jobs.RunErasures, Schedules: w.schedules.DropOrphans, Keys: w.intake.DropExpiredKeys, UIDs: w.intake.DropOrphanUIDs,
		Audit: audit.NewLog(w.db.pool), KeepAudit: w.cfg.Retention.AuditLog, Sessions: w.sessions.DropEnded,
		Stats: w.stats, KeepStats: w.cfg.Retention.Attempts,
		KeepKeys: w.cfg.Retention.IdempotencyKeys, KeepEvents: w.cfg.Retention.Events,
		Retention: upkeep.NewRetention(w.db.pool, w.db.clock.Now, w.log, keepOf(w.cfg.Retention)),
	})
	w.loops[watch.Scheduler] = w.schedules.Still
	w.add(part{name: "the scheduler", stop: 2 * settle, run: u.Run}, part{name: "the jobs", stop: 2 * settle, run: w.jobs.Run},
		part{name: "the schedules", stop: 2 * settle, run: w.schedules.Run, still: w.schedules.Still})
}

// addTally adds what counts attempts. It goes on counting until nothing more is recorded.
func (w *wiring) addTally() {
	w.tally = stats.NewTally(stats.TallyDeps{DB: w.db.pool, IDs: w.db.ids, Now: w.db.clock.Now, Log: w.log})
	w.add(part{name: "the figures", stop: 2 * settle, run: w.tally.Run})
}

// addPull adds what gives deliveries away to those who fetch them. Those who wait hear of what is accepted here.
func (w *wiring) addPull() {
	w.pull = dispatcher.NewPull(dispatcher.Config{
		Lease: w.cfg.Delivery.Lease, AlertAfterFailures: w.cfg.Alerts.AfterFailures,
	}, dispatcher.PullDeps{Deps: dispatcher.Deps{
		DB: w.db.pool, IDs: w.db.ids, Now: w.db.clock.Now, Store: w.store, Metrics: w.metrics, Tally: w.tally, Log: w.log,
		WallTime: time.Now,
	}, Marks: dispatcher.Marks{Marker: w.box}, Stopping: w.stopping})
	wake, accepted := w.wake, w.accepted
	w.wake = func(shard int16) { wake(shard); w.pull.Wake(shard) }
	w.accepted = func(made []dispatcher.NewDelivery) { accepted(made); w.pull.Accepted(made) }
}

// addDispatcher adds what sends deliveries.
func (w *wiring) addDispatcher() {
	c := w.cfg.Delivery
	client := w.withCanary(egress.New(egress.Config{Policy: w.policy, ConnectTimeout: c.ConnectTimeout, ProxyURL: c.ProxyURL}))
	d := dispatcher.New(dispatcher.Config{
		RetrySchedule: c.RetrySchedule, RetryJitter: c.RetryJitter, Timeout: c.Timeout, Lease: c.Lease,
		MaxInFlight: c.MaxInFlight, MaxInFlightPerEndpoint: c.MaxInFlightPerEndpoint, ResponseBodyLimit: c.ResponseBodyLimit,
		DisableAfter: c.DisableAfter, AlertAfterFailures: w.cfg.Alerts.AfterFailures, UserAgent: userAgent(),
		Grace: c.Timeout + drainSlack,
	}, dispatcher.Deps{
		DB: w.db.pool, Queue: w.db.queue, Pooled: w.cfg.Database.Pooled(), IDs: w.db.ids, Now: w.db.clock.Now, Doer: client, Store: w.store, Desk: w.desk,
		Metrics: w.metrics, Tally: w.tally, Tracer: w.traces.attempts, Log: w.log, WallTime: time.Now,
	})
	w.wake, w.accepted, w.forget = d.Wake, d.Accepted, d.Forget
	w.loops[watch.Dispatcher] = d.Still
	// Its grace is for the requests on their way, and once more for what is recorded of them.
	w.add(part{name: "the dispatcher", stop: 2*(c.Timeout+drainSlack) + settle, still: d.Still, run: func(ctx context.Context) error {
		defer client.CloseIdleConnections()
		return d.Run(ctx)
	}})
	url := w.cfg.Database.SessionURL()
	if url == "" { // the poll is the truth
		w.log.Warn().Str("key", "database.direct_url").Msg("wake.no_session")
		return
	}
	w.add(part{name: "the listener for wakes", stop: settle, run: func(ctx context.Context) error {
		return d.Listen(ctx, url, dispatcher.Hint{Channel: intake.EnqueuedChannel, Then: w.intake.WakeFanOut})
	}})
}

// addFanOut adds what makes deliveries of the events that producers enqueue within transactions of their own.
func (w *wiring) addFanOut() {
	w.add(part{name: "the fan-out", stop: settle, run: w.intake.RunFanOut})
}

// addNotifier tells the dispatchers, in other processes, of what this one accepts.
func (w *wiring) addNotifier() {
	n := dispatcher.NewNotifier(w.db.pool)
	w.wake, w.accepted = n.Wake, n.Accepted
	w.add(part{name: "the notifier", stop: settle, run: func(ctx context.Context) error { n.Run(ctx); return nil }})
}

// addAPI adds what takes requests. It is the last to start and the first to stop: whoever is answered relies on the rest.
func (w *wiring) addAPI(ctx context.Context, open func(context.Context) (net.Listener, error)) error {
	if err := w.intake.TellLimits(ctx); err != nil {
		return fmt.Errorf("tell producers events.max_payload: %w", err)
	}
	w.addPull()
	l, err := open(ctx)
	if err != nil {
		return err
	}
	w.sockets = append(w.sockets, l)
	w.addr = l.Addr() // which says where browsers reach us, unless that is configured
	door := w.door()
	pages, err := w.pages(door)
	if err != nil {
		return err
	}
	deps := api.Deps{
		Stopping: w.stopping, Subscriptions: w.store, Intake: w.intake, Deliveries: w.desk, Pull: w.pull, Alerts: w.alerts, Jobs: w.jobs, Schedules: w.schedules, Keys: w.keys, Wake: w.wake,
		Sessions: w.sessions, Pages: pages, PublicURL: publicURL(w.cfg.HTTP, w.addr),
		Audit: audit.NewLog(w.db.pool), Door: door, TrustedProxies: w.cfg.HTTP.TrustedProxies,
		Ping: w.db.pool.Ping, Logger: w.log, MaxPayload: w.cfg.Events.MaxPayload, Version: buildVersion(),
		AddressClass: egress.Class, Stats: w.stats, Requests: w.metrics, Tracer: w.traces.requests,
		Processes: w.watch.Fleet, Standing: w.watch.Standing, Hanging: w.watch.Hanging,
	}
	if w.cfg.Metrics.Addr == "" {
		deps.Metrics = w.registry
	}
	server := w.server(l, api.New(deps))
	server.http.RegisterOnShutdown(func() { close(w.stopping) })
	w.add(closing("the API keys", w.keys.Close), closing("the intake", w.intake.Close))
	w.addCanary()
	w.add(server.part("the HTTP server", "listening", w.log))
	return nil
}

// door tells the metrics of each caller who does not get in, and the log of addresses that are held up: of few, since a
// crowd of them can be had.
func (w *wiring) door() *auth.Door {
	quiet := ticks.NewLimiter(ticks.Every(10*time.Second), 10)
	return auth.NewDoor(w.keys, auth.DoorOptions{
		Tell: func(f auth.Failure) { w.metrics.AuthFailed(string(f)) },
		Warn: func(from netip.Addr) {
			if quiet.Allow() {
				w.log.Warn().Stringer("from", from).Msg("auth.limited")
			}
		},
	})
}

// closing is a part that runs only while requests need it, and has to be closed when they no longer do.
func closing(name string, finish func(context.Context) error) part {
	return part{name: name, stop: settle + time.Second, run: func(ctx context.Context) error {
		<-ctx.Done()
		late, cancel := context.WithTimeout(context.Background(), settle)
		defer cancel()
		return finish(late)
	}}
}
