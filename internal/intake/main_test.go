package intake_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// desk is an Intake on a database of the test's own, with what a test asks that database.
type desk struct {
	*intake.Intake
	db  *pgxpool.Pool
	ids *id.Generator

	mu    sync.Mutex
	clock time.Time
	woken []int16
}

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func newDesk(t testing.TB) *desk {
	t.Helper()
	return deskOn(t, pgtest.Pool(t), 1)
}

func deskOn(t testing.TB, db *pgxpool.Pool, node int) *desk {
	t.Helper()
	d := &desk{db: db, clock: start}
	d.ids = id.NewGenerator(node, d.now)
	d.Intake = intake.New(intake.Deps{DB: db, IDs: d.ids, Now: d.now, Wake: func(made []dispatcher.NewDelivery) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, n := range made {
			if !n.Scheduled && !slices.Contains(d.woken, n.Shard) {
				d.woken = append(d.woken, n.Shard)
			}
		}
	}})
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *desk) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clock
}

func (d *desk) pass(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clock = d.clock.Add(by)
}

// wakes gives the buckets that were woken for deliveries that are due at once since the last call.
func (d *desk) wakes() []int16 {
	d.mu.Lock()
	defer d.mu.Unlock()
	woken := d.woken
	d.woken = nil
	return woken
}

func (d *desk) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := d.db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (d *desk) count(t testing.TB, sql string, args ...any) (n int) {
	t.Helper()
	if err := d.db.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (d *desk) tenant(t testing.TB) id.ID {
	t.Helper()
	return d.insertTenant(t, d.ids.NewTenant())
}

// neighbour makes a tenant in the same bucket: there only the tenant's number keeps them apart.
func (d *desk) neighbour(t testing.TB, of id.ID) id.ID {
	t.Helper()
	ten := d.ids.NewTenant()
	for ten.Shard != of.Shard {
		ten = d.ids.NewTenant()
	}
	return d.insertTenant(t, ten)
}

func (d *desk) insertTenant(t testing.TB, ten id.ID) id.ID {
	t.Helper()
	d.exec(t, `INSERT INTO tenants (shard, id, name, created_at, updated_at) VALUES ($1, $2, 'Acme', now(), now())`,
		ten.Shard, ten.N)
	return ten
}

// endpoint makes one that subscribes to types; uid may be "".
func (d *desk) endpoint(t testing.TB, tenant id.ID, uid string, types ...string) id.ID {
	t.Helper()
	ep := d.ids.In(tenant.Shard)
	if types == nil {
		types = []string{}
	}
	d.exec(t, `
		INSERT INTO endpoints (shard, id, tenant_id, uid, url, event_types, scheme, status_changed_at, created_at, updated_at)
		VALUES ($1, $2, $3, nullif($4, ''), 'https://example.com/', $5, 'standard', now(), now(), now())`,
		ep.Shard, ep.N, tenant.N, uid, types)
	return ep
}

func (d *desk) setStatus(t testing.TB, endpoint id.ID, status string) {
	t.Helper()
	d.exec(t, `UPDATE endpoints SET status = $3::text::endpoint_status, status_reason = nullif('by hand', $4)
		WHERE shard = $1 AND id = $2`, endpoint.Shard, endpoint.N, status, map[bool]string{true: "by hand"}[status == "enabled"])
}

// accept is for what must be accepted.
func (d *desk) accept(t testing.TB, tenant id.ID, key string, events ...intake.Event) []intake.Receipt {
	t.Helper()
	rs, _, err := d.Accept(t.Context(), tenant, key, events)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// targets gives the endpoints that an event has unfinished deliveries for.
func (d *desk) targets(t testing.TB, event id.ID) []int64 {
	t.Helper()
	rows, err := d.db.Query(t.Context(), `SELECT endpoint_id FROM deliveries WHERE shard = $1 AND event_id = $2 ORDER BY 1`,
		event.Shard, event.N)
	if err != nil {
		t.Fatal(err)
	}
	eps, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatal(err)
	}
	return eps
}

// whole fails the test when anything is half-made: an event without all its deliveries, a delivery or an idempotency row
// without its event.
func (d *desk) whole(t testing.TB) {
	t.Helper()
	for what, sql := range map[string]string{
		"events without all their deliveries": `SELECT count(*) FROM events e WHERE delivery_ids IS DISTINCT FROM coalesce(
			(SELECT array_agg(d.id ORDER BY d.id) FROM deliveries d
				WHERE d.shard = e.shard AND d.event_id = e.id AND d.tenant_id = e.tenant_id), '{}')`,
		"deliveries without an event": `SELECT count(*) FROM deliveries d WHERE NOT EXISTS
			(SELECT FROM events e WHERE e.shard = d.shard AND e.id = d.event_id)`,
		"idempotency rows without an event": `SELECT count(*) FROM idempotency_keys k CROSS JOIN unnest(event_ids) n (id)
			WHERE NOT EXISTS (SELECT FROM events e WHERE e.shard = k.shard AND e.id = n.id AND e.tenant_id = k.tenant_id)`,
		"uids without an idempotency row": `SELECT count(*) FROM events e WHERE uid IS NOT NULL AND NOT EXISTS
			(SELECT FROM idempotency_keys k WHERE k.shard = e.shard AND k.tenant_id = e.tenant_id AND k.kind = 'uid'
				AND k.key = e.uid AND k.event_ids = ARRAY[e.id])`,
	} {
		if n := d.count(t, sql); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}

func order(n int) intake.Event {
	return intake.Event{Type: "order.paid", Payload: fmt.Appendf(nil, `{"n": %d}`, n)}
}

func wantCode(t testing.TB, err error, want fault.Code) {
	t.Helper()
	if fault.CodeOf(err) != want {
		t.Errorf("error %v (%s), want %s", err, fault.CodeOf(err), want)
	}
}

// wantPointers wants an Invalid fault about exactly these places.
func wantPointers(t testing.TB, err error, want ...string) {
	t.Helper()
	wantCode(t, err, fault.Invalid)
	var f *fault.Error
	if !errors.As(err, &f) {
		return
	}
	var got []string
	for _, field := range f.Fields {
		got = append(got, field.Pointer)
	}
	if !slices.Equal(got, want) {
		t.Errorf("pointers %q, want %q (%v)", got, want, err)
	}
}
