package main

import (
	"context"
	"errors"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/config"
	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/internal/metrics"
	"github.com/postrider/postrider/internal/schedules"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/internal/upkeep"
	"github.com/postrider/postrider/internal/watch"
	"github.com/postrider/postrider/subscriptions"
)

// app is a process that is put together and ready to run.
type app struct {
	parts []part
	addr  net.Addr // of the HTTP API; nil without the role
	log   zerolog.Logger
	db    *database
	// manager is told how the process is; nil: nobody is.
	manager *manager
	// traces end with the parts, or with close if they never run.
	traces traces
	// sockets are open already. Running the parts closes them; close does when they never run.
	sockets []net.Listener
}

// run runs the parts until ctx ends or one of them fails, and leaves nothing open.
func (a *app) run(ctx context.Context) error {
	return errors.Join(supervise(ctx, a.log, a.parts, a.manager), a.db.close())
}

// close gives up an app that never ran.
func (a *app) close() error {
	var errs []error
	for _, s := range a.sockets {
		errs = append(errs, s.Close())
	}
	a.traces.close()
	return errors.Join(append(errs, a.db.close())...)
}

// wiring is what the parts of one process share while they are put together.
type wiring struct {
	*app
	cfg       config.Config
	stopping  chan struct{} // closed when the server begins to stop: who waits for something is not to be waited for
	roles     roles
	policy    egress.Policy
	box       *seal.Box
	registry  *prometheus.Registry
	metrics   *metrics.Metrics
	store     *subscriptions.Store
	desk      *dispatcher.Desk
	pull      *dispatcher.Pull // with the role api
	tally     *stats.Tally     // with a role that records attempts
	alerts    *alert.Desk
	intake    *intake.Intake
	jobs      *jobs.Jobs
	schedules *schedules.Schedules
	keys      *auth.Keys
	sessions  *auth.Sessions
	stats     *stats.Reader
	watch     *watch.Watch
	// loops are those that the roles of this process are for: a watch looks whether they go round.
	loops map[string]func() watch.Loop
	// wake tells dispatchers of due work. It is known once it is known who dispatches, and called only after that.
	wake func(shard int16)
	// accepted tells them of deliveries that have just been made.
	accepted func(made []dispatcher.NewDelivery)
	// forget drops what the dispatcher of this process, if there is one, remembers of an endpoint.
	forget func(endpoint id.ID)
}

// wire puts a process together: everything the configuration asks for, in the order in which it starts. It touches the
// database (its schema, this process's node number, the days' partitions, the first key) and opens the sockets; nothing
// runs yet. open opens the API's socket.
func wire(
	ctx context.Context, cfg config.Config, r roles, open func(context.Context) (net.Listener, error), log zerolog.Logger,
) (_ *app, err error) {
	conns, claims := cfg.Database, 0
	if r.dispatcher {
		conns, claims = withoutQueue(conns)
	}
	traces, err := newTraces(ctx, cfg.Tracing, log)
	if err != nil {
		return nil, err
	}
	db, err := openDatabase(ctx, conns, traces.statements)
	if err != nil {
		traces.close()
		return nil, err
	}
	w := &wiring{app: &app{log: log, db: db, traces: traces}, cfg: cfg, roles: r, stopping: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if err := w.db.openQueue(ctx, cfg.Database, claims); err != nil {
		return nil, err
	}
	if err := w.db.takeNode(ctx); err != nil {
		return nil, err
	}
	if db.newer {
		log.Warn().Msg("schema.newer") // the next version is on its way, or was here
	}
	if err := upkeep.EnsurePartitions(ctx, db.pool, db.clock.Now()); err != nil {
		log.Error().Err(err).Msg("partitions.failed") // history goes to the default partition, and everything else goes on
	}
	if err := w.addAll(ctx, open); err != nil {
		return nil, err
	}
	return w.app, nil
}

// addAll adds the parts in the order in which they start; they stop in the other one.
func (w *wiring) addAll(ctx context.Context, open func(context.Context) (net.Listener, error)) error {
	if err := w.share(ctx); err != nil {
		return err
	}
	w.addTraces()
	if err := w.addMetrics(ctx); err != nil {
		return err
	}
	if !w.roles.api {
		w.addHealth(ctx)
	}
	w.addClock()
	w.addNode()
	w.addWatch()
	w.addCatalogue(ctx)
	if err := w.addSender(ctx); err != nil {
		return err
	}
	if w.roles.scheduler {
		w.addScheduler()
	}
	if w.roles.dispatcher || w.roles.api {
		w.addTally()
	}
	if w.roles.dispatcher {
		w.addDispatcher()
	} else {
		w.addNotifier()
	}
	if w.roles.dispatcher || w.roles.scheduler {
		w.addFanOut()
	}
	if w.roles.api {
		return w.addAPI(ctx, open)
	}
	return nil
}
