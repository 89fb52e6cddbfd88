package dispatcher

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/clienttls"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/subscriptions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a database with a tenant, a dispatcher on it, and a receiver that a function plays. Its clock stands still
// until the test moves it.
type world struct {
	*testing.T
	db     *pgxpool.Pool
	queue  *pgxpool.Pool
	ids    *id.Generator
	store  *subscriptions.Store
	tenant subscriptions.Tenant
	d      *Dispatcher

	mu  sync.Mutex
	now time.Time
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) DoAs(r *http.Request, _ *clienttls.Identity) (*http.Response, error) { return d(r) }

func newWorld(t *testing.T, play doer) *world {
	t.Helper()
	w := &world{T: t, db: pgtest.Pool(t), now: noon}
	queue, err := pg.OpenQueue(t.Context(), pgtest.URL(t), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(queue.Close)
	w.queue = queue
	w.ids = id.NewGenerator(1, w.clock)
	box, err := seal.New([][]byte{bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	w.store = subscriptions.New(subscriptions.Deps{
		DB: w.db, IDs: w.ids, Now: w.clock, Box: box, CheckURL: func(string) error { return nil },
	})
	if w.tenant, err = w.store.CreateTenant(t.Context(), subscriptions.NewTenant{Name: "acme"}); err != nil {
		t.Fatal(err)
	}
	w.d = w.another(play)
	return w
}

// another makes a further dispatcher on the same database.
func (w *world) another(play doer) *Dispatcher {
	desk := NewDesk(DeskDeps{DB: w.db, IDs: w.ids, Now: w.clock, Wake: func(int16) {}})
	return New(Config{
		RetrySchedule: DefaultSchedule, Timeout: 5 * time.Second, Lease: time.Minute, MaxInFlight: 100,
		MaxInFlightPerEndpoint: 10, ResponseBodyLimit: 64, AlertAfterFailures: 5, UserAgent: "Postrider/test",
		Grace: 5 * time.Second,
	}, Deps{
		DB: w.db, Queue: w.queue, IDs: w.ids, Now: w.clock, Doer: play, Store: w.store, Desk: desk, Metrics: Unmeasured(),
		Log: zerolog.New(zerolog.NewTestWriter(w.T)), WallTime: time.Now,
	})
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(by)
}

func (w *world) endpoint() id.ID {
	w.Helper()
	e, _, err := w.store.CreateEndpoint(w.Context(), w.tenant, subscriptions.NewEndpoint{URL: "https://receiver.test/hook"})
	if err != nil {
		w.Fatal(err)
	}
	return e.ID
}

// enqueue makes an event with a payload and one delivery of it that is due now.
func (w *world) enqueue(endpoint id.ID, payload string) id.ID {
	w.Helper()
	return w.enqueueIn(0, endpoint, payload)
}

// enqueueIn does so for a delivery of a group.
func (w *world) enqueueIn(group int64, endpoint id.ID, payload string) id.ID {
	w.Helper()
	return w.enqueueLike(NewDelivery{Group: group}, endpoint, payload)
}

// enqueuePull does so for a delivery that is fetched.
func (w *world) enqueuePull(endpoint id.ID, payload string) id.ID {
	w.Helper()
	return w.enqueueLike(NewDelivery{Pull: true}, endpoint, payload)
}

func (w *world) enqueueLike(d NewDelivery, endpoint id.ID, payload string) id.ID {
	w.Helper()
	event, delivery := w.ids.Next(), w.ids.In(endpoint.Shard)
	err := pg.InTx(w.Context(), w.db, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`INSERT INTO events (shard, id, tenant_id, type, content_type, payload, delivery_ids)
			VALUES ($1, $2, $3, 'order.paid', 'application/json', $4, ARRAY[$5::bigint])`,
			endpoint.Shard, event, w.tenant.ID.N, []byte(payload), delivery.N)
		d.Shard, d.ID, d.Tenant, d.Event = endpoint.Shard, delivery.N, w.tenant.ID.N, event
		d.Endpoint, d.DueAt = endpoint.N, w.clock()
		QueueNew(b, []NewDelivery{d})
		return tx.SendBatch(w.Context(), b).Close()
	})
	if err != nil {
		w.Fatal(err)
	}
	return delivery
}

// claimOnce looks through the given buckets, claims what may be claimed now and sends it on its way. It gives how many: 0
// only if no endpoint that may be sent to has anything due, as far as this process knows.
func (d *Dispatcher) claimOnce(ctx, work context.Context, look []int16) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, dbPatience)
	defer cancel()
	if err := d.discover(ctx, look); err != nil {
		return 0, err
	}
	for {
		n, more, err := d.round(ctx, work)
		if n > 0 || !more || err != nil {
			return n, err
		}
	}
}

// round has d claim once and records everything that came of it, and gives how many were claimed.
func (w *world) round(d *Dispatcher) int {
	w.Helper()
	n, err := d.claimOnce(w.Context(), w.Context(), allShards)
	if err != nil {
		w.Fatal(err)
	}
	w.settle(d)
	return n
}

// settle waits for what is in flight and records it.
func (w *world) settle(d *Dispatcher) {
	d.senders.Wait()
	var results []result
	for len(d.results) > 0 {
		results = append(results, <-d.results)
	}
	if len(results) > 0 {
		d.flush(w.Context(), results)
	}
	d.tasks.Wait()
}

func (w *world) get(delivery id.ID) Delivery {
	w.Helper()
	got, err := w.d.deps.Desk.Get(w.Context(), delivery)
	if err != nil {
		w.Fatal(err)
	}
	return got
}

func (w *world) attempts(delivery id.ID) []Attempt {
	w.Helper()
	got, err := w.d.deps.Desk.Attempts(w.Context(), delivery, 50, id.ID{})
	if err != nil {
		w.Fatal(err)
	}
	return got
}

func (w *world) count(sql string) (n int) {
	w.Helper()
	if err := w.db.QueryRow(w.Context(), sql).Scan(&n); err != nil {
		w.Fatal(err)
	}
	return n
}

func reply(status int, header http.Header, body string) (*http.Response, error) {
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewBufferString(body))}, nil
}

// posted is the delivery that a request says it is of. The header is spelt as it is sent, which http.Header would not.
func posted(r *http.Request) string {
	name := "postrider-delivery-id"
	return strings.Join(r.Header[name], ",")
}

func always(status int) doer {
	return func(*http.Request) (*http.Response, error) { return reply(status, nil, "") }
}

// gate is a receiver that takes requests and answers them when the test says so.
type gate struct {
	arrived chan *http.Request
	answer  chan int
}

func newGate() gate { return gate{make(chan *http.Request, 100), make(chan int, 100)} }

func (g gate) Do(r *http.Request) (*http.Response, error) {
	g.arrived <- r
	select {
	case status := <-g.answer:
		return reply(status, nil, "")
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}
