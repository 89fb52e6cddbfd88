package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/internal/upkeep"
	"github.com/postrider/postrider/migrations"
	"github.com/postrider/postrider/subscriptions"
)

const (
	senders     = 64                                       // raw POSTs at a time
	clients     = 64                                       // enqueuers at a time
	benchSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" // of the raw POSTs; nobody's
)

// base is what every process of Postrider stands on, as `serve` wires it.
type base struct {
	db     *pgxpool.Pool
	queue  *pgxpool.Pool
	clock  *pg.Clock
	ids    *id.Generator
	store  *subscriptions.Store
	egress *egress.Client
	tally  *stats.Tally
}

func openBase(ctx context.Context, url string, node int) (base, error) {
	db, err := pg.Open(ctx, url, 13)
	if err != nil {
		return base{}, err
	}
	b := base{db: db, clock: &pg.Clock{}}
	if b.queue, err = pg.OpenQueue(ctx, url, 3); err != nil {
		db.Close()
		return base{}, err
	}
	if err := b.clock.Sync(ctx, db); err != nil {
		return b, err
	}
	b.ids = id.NewGenerator(node, b.clock.Now)
	b.tally = stats.NewTally(stats.TallyDeps{DB: db, IDs: b.ids, Now: b.clock.Now, Log: zerolog.Nop()})
	box, err := seal.New([][]byte{bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		return b, err
	}
	policy := egress.Policy{AllowHTTP: true, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	if policy.AllowPorts, err = egress.ParsePorts("1-65535"); err != nil {
		return b, err
	}
	b.egress = egress.New(egress.Config{Policy: policy})
	b.store = subscriptions.New(subscriptions.Deps{
		DB: db, IDs: b.ids, Now: b.clock.Now, Box: box, CheckURL: policy.CheckURL,
	})
	return b, nil
}

func (b base) close() {
	b.egress.CloseIdleConnections()
	b.queue.Close()
	b.db.Close()
}

// dispatcher makes one with the defaults of `serve`, but for its grace: what is interrupted here is not waited for.
func (b base) dispatcher(userAgent string, inFlight int, m dispatcher.Metrics) *dispatcher.Dispatcher {
	desk := dispatcher.NewDesk(dispatcher.DeskDeps{DB: b.db, Now: b.clock.Now, Wake: func(int16) {}})
	return dispatcher.New(dispatcher.Config{
		RetrySchedule: dispatcher.DefaultSchedule, RetryJitter: 0.1, Timeout: 15 * time.Second, Lease: time.Minute,
		MaxInFlight: inFlight, MaxInFlightPerEndpoint: 32, ResponseBodyLimit: 16 << 10, AlertAfterFailures: 5,
		UserAgent: userAgent, Grace: time.Second,
	}, dispatcher.Deps{
		DB: b.db, Queue: b.queue, IDs: b.ids, Now: b.clock.Now, Doer: b.egress, Store: b.store, Desk: desk, Metrics: m,
		Tally: b.tally, Log: zerolog.Nop(), WallTime: time.Now,
	})
}

// run runs a dispatcher and what counts for it, until ctx ends.
func (b base) run(ctx context.Context, d *dispatcher.Dispatcher) error {
	var counting sync.WaitGroup
	counting.Go(func() { _ = b.tally.Run(ctx) })
	defer counting.Wait()
	return d.Run(ctx)
}

// maxInFlight is the default of delivery.max_in_flight.
const maxInFlight = 1024

// world is Postrider as `serve` wires it, on a database of its own, with a receiver beside it.
type world struct {
	base
	url      string // of the database
	receiver *receiver
	payload  []byte

	tenants   []subscriptions.Tenant // of the drain's endpoints
	endpoints []endpoint             // of the drain
	slow      []endpoint             // of the part two
	quick     []endpoint             // of the part fair
	later     []endpoint             // of the part scheduled
	enqueuers []subscriptions.Tenant // each with one endpoint that takes everything

	apiAddr, apiKey string
	intake          *intake.Intake
	server          *http.Server
	accepted        atomic.Pointer[func([]dispatcher.NewDelivery)]
	recorded        *recorded
}

type endpoint struct{ id, tenant id.ID }

func endpointID(e endpoint) string { return id.Endpoint.Format(e.id) }

func newWorld(ctx context.Context, url string, enqueuers int) (*world, error) {
	if _, err := migrations.Up(ctx, url); err != nil {
		return nil, err
	}
	b, err := openBase(ctx, url, 1)
	if err != nil {
		return nil, err
	}
	w := &world{base: b, url: url, payload: newPayload(payloadSize), recorded: newRecorded()}
	w.wakeNobody()
	if err := upkeep.EnsurePartitions(ctx, w.db, w.clock.Now()); err != nil {
		return nil, err
	}
	if w.receiver, err = startReceiver(ctx); err != nil {
		return nil, err
	}
	for n := range 20 {
		t, err := w.store.CreateTenant(ctx, subscriptions.NewTenant{Name: fmt.Sprint("bench ", n)})
		if err != nil {
			return nil, err
		}
		w.tenants = append(w.tenants, t)
	}
	for n := range enqueuers {
		t, err := w.store.CreateTenant(ctx, subscriptions.NewTenant{Name: fmt.Sprint("enqueuer ", n)})
		if err != nil {
			return nil, err
		}
		w.enqueuers = append(w.enqueuers, t)
		if _, err := w.endpoint(ctx, t, "/timed"); err != nil {
			return nil, err
		}
	}
	return w, w.startAPI(ctx)
}

func (w *world) endpoint(ctx context.Context, t subscriptions.Tenant, path string) (endpoint, error) {
	e, _, err := w.store.CreateEndpoint(ctx, t, subscriptions.NewEndpoint{URL: w.receiver.url + path})
	return endpoint{e.ID, t.ID}, err
}

// newEndpoints makes n endpoints for a path, spread over the tenants.
func (w *world) newEndpoints(ctx context.Context, n int, path string) ([]endpoint, error) {
	made := make([]endpoint, 0, n)
	for i := range n {
		e, err := w.endpoint(ctx, w.tenants[i%len(w.tenants)], path)
		if err != nil {
			return nil, err
		}
		made = append(made, e)
	}
	return made, nil
}

// drainEndpoints makes sure that there are n endpoints to drain to, and gives them.
func (w *world) drainEndpoints(ctx context.Context, n int) ([]endpoint, error) {
	if missing := n - len(w.endpoints); missing > 0 {
		more, err := w.newEndpoints(ctx, missing, "/hook")
		if err != nil {
			return nil, err
		}
		w.endpoints = append(w.endpoints, more...)
	}
	return w.endpoints[:n], nil
}

// startDispatcher runs one until the function it gives is called; calling it again does nothing.
func (w *world) startDispatcher() (stop func()) {
	d := w.dispatcher("Postrider/bench", maxInFlight, w.recorded)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	accepted := d.Accepted
	w.accepted.Store(&accepted)
	go func() {
		defer close(done)
		_ = w.run(ctx, d)
	}()
	return func() {
		cancel()
		<-done
		w.wakeNobody()
	}
}

func (w *world) wakeNobody() {
	nobody := func([]dispatcher.NewDelivery) {}
	w.accepted.Store(&nobody)
}

// recorded counts the attempts that are written down.
type recorded struct {
	dispatcher.Metrics
	attempts atomic.Int64
}

func newRecorded() *recorded { return &recorded{Metrics: dispatcher.Unmeasured()} }

func (r *recorded) Attempt(string, int, time.Duration) { r.attempts.Add(1) }

// clear empties the tables of history and work, so that each run begins alike.
func (w *world) clear(ctx context.Context) error {
	_, err := w.db.Exec(ctx, `TRUNCATE events, deliveries, deliveries_finished, attempts, idempotency_keys, events_unrouted`)
	if err != nil {
		return err
	}
	_, err = w.db.Exec(ctx, `VACUUM (ANALYZE) events, deliveries, deliveries_finished, attempts, idempotency_keys, events_unrouted`)
	return err
}

func (w *world) close() {
	_ = w.server.Close()
	_ = w.intake.Close(context.Background())
	w.receiver.stop()
	w.base.close()
}
