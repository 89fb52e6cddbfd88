package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/internal/upkeep"
	"github.com/postrider/postrider/migrations"
	"github.com/postrider/postrider/subscriptions"
)

const (
	payloadSize = 1 << 10
	senders     = 64                                       // raw POSTs at a time
	clients     = 64                                       // enqueuers at a time
	benchSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" // of the raw POSTs; nobody's
)

// world is Postrider as `serve` wires it, on a database of its own, with a receiver beside it.
type world struct {
	db       *pgxpool.Pool
	clock    *pg.Clock
	ids      *id.Generator
	store    *subscriptions.Store
	egress   *egress.Client
	receiver *receiver
	payload  []byte

	tenants   []subscriptions.Tenant // of the drain's endpoints
	enqueuer  subscriptions.Tenant   // of one endpoint that takes everything
	endpoints []endpoint

	apiURL string
	apiKey string
	intake *intake.Intake
	server *http.Server
	wake   func(int16)
}

type endpoint struct{ id, tenant id.ID }

func newWorld(ctx context.Context, url string) (*world, error) {
	if _, err := migrations.Up(ctx, url); err != nil {
		return nil, err
	}
	db, err := pg.Open(ctx, url, 16)
	if err != nil {
		return nil, err
	}
	w := &world{db: db, clock: &pg.Clock{}, wake: func(int16) {}}
	w.payload = append(append([]byte(`{"pad":"`), bytes.Repeat([]byte("x"), payloadSize-10)...), `"}`...)
	if err := w.clock.Sync(ctx, db); err != nil {
		return nil, err
	}
	if err := upkeep.EnsurePartitions(ctx, db, w.clock.Now()); err != nil {
		return nil, err
	}
	w.ids = id.NewGenerator(1, w.clock.Now)
	box, err := seal.New([][]byte{bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		return nil, err
	}
	policy := egress.Policy{AllowHTTP: true, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	if policy.AllowPorts, err = egress.ParsePorts("1-65535"); err != nil {
		return nil, err
	}
	w.egress = egress.New(egress.Config{Policy: policy})
	w.store = subscriptions.New(subscriptions.Deps{
		DB: db, IDs: w.ids, Now: w.clock.Now, Box: box, CheckURL: policy.CheckURL,
	})
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
	w.enqueuer, err = w.store.CreateTenant(ctx, subscriptions.NewTenant{Name: "enqueuer"})
	if err != nil {
		return nil, err
	}
	_, _, err = w.store.CreateEndpoint(ctx, w.enqueuer, subscriptions.NewEndpoint{URL: w.receiver.url + "/enqueued"})
	if err != nil {
		return nil, err
	}
	return w, w.startAPI(ctx)
}

// endpointsFor makes sure that there are n endpoints, spread over the tenants, and gives them.
func (w *world) endpointsFor(ctx context.Context, n int) ([]endpoint, error) {
	for len(w.endpoints) < n {
		t := w.tenants[len(w.endpoints)%len(w.tenants)]
		e, _, err := w.store.CreateEndpoint(ctx, t, subscriptions.NewEndpoint{
			URL: w.receiver.url + "/hook",
		})
		if err != nil {
			return nil, err
		}
		w.endpoints = append(w.endpoints, endpoint{e.ID, t.ID})
	}
	return w.endpoints[:n], nil
}

// startDispatcher runs one until the function it gives is called.
func (w *world) startDispatcher() (stop func()) {
	desk := dispatcher.NewDesk(dispatcher.DeskDeps{DB: w.db, Now: w.clock.Now, Wake: func(int16) {}})
	d := dispatcher.New(dispatcher.Config{
		RetrySchedule: dispatcher.DefaultSchedule, RetryJitter: 0.1, Timeout: 15 * time.Second, Lease: time.Minute,
		MaxInFlight: 1024, MaxInFlightPerEndpoint: 32, ResponseBodyLimit: 16 << 10, AlertAfterFailures: 5,
		UserAgent: "Postrider/bench", Grace: 15 * time.Second,
	}, dispatcher.Deps{
		DB: w.db, IDs: w.ids, Now: w.clock.Now, Doer: w.egress, Store: w.store, Desk: desk, Metrics: deaf{},
		Log: zerolog.Nop(), WallTime: time.Now,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.wake = d.Wake
	go func() {
		defer close(done)
		_ = d.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
		w.wake = func(int16) {}
	}
}

type deaf struct{}

func (deaf) Attempt(string, time.Duration) {}
func (deaf) Delivered(time.Duration)       {}
func (deaf) InFlight(int)                  {}

func (w *world) startAPI(ctx context.Context) error {
	keys := auth.NewKeys(w.db, w.ids, w.clock.Now)
	_, text, err := keys.Create(ctx, auth.NewKey{Name: "bench", Scopes: []auth.Scope{auth.Admin}})
	if err != nil {
		return err
	}
	w.apiKey = text
	w.intake = intake.New(intake.Deps{DB: w.db, IDs: w.ids, Now: w.clock.Now, Wake: func(s int16) { w.wake(s) }})
	desk := dispatcher.NewDesk(dispatcher.DeskDeps{DB: w.db, Now: w.clock.Now, Wake: func(s int16) { w.wake(s) }})
	handler := api.New(api.Deps{
		Subscriptions: w.store, Intake: w.intake, Deliveries: desk, Alerts: alert.NewDesk(w.db, w.ids.Next, w.clock.Now),
		Keys: keys, Ping: w.db.Ping, Logger: zerolog.Nop(), MaxPayload: 1 << 20, Version: "bench",
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	w.apiURL = "http://" + l.Addr().String()
	w.server = &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = w.server.Serve(l) }()
	return nil
}

// clear empties the tables of history and work, so that each run begins alike.
func (w *world) clear(ctx context.Context) error {
	_, err := w.db.Exec(ctx, `TRUNCATE events, deliveries, deliveries_finished, attempts, idempotency_keys`)
	if err != nil {
		return err
	}
	_, err = w.db.Exec(ctx, `VACUUM (ANALYZE) events, deliveries, deliveries_finished, attempts`)
	return err
}

func (w *world) close() {
	_ = w.server.Close()
	_ = w.intake.Close(context.Background())
	w.egress.CloseIdleConnections()
	w.receiver.stop()
	w.db.Close()
}
