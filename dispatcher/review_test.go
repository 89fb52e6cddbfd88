package dispatcher_test

import (
	"cmp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pgtest"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// office is a desk on a database of its own, whose clock stands at noon, with rows put in by hand.
type office struct {
	*testing.T
	db   *pgxpool.Pool
	ids  *id.Generator
	desk *dispatcher.Desk

	mu   sync.Mutex
	woke []int16
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{T: t, db: pgtest.Pool(t), ids: id.NewGenerator(1, func() time.Time { return noon })}
	o.desk = dispatcher.NewDesk(dispatcher.DeskDeps{
		DB: o.db, IDs: o.ids, Now: func() time.Time { return noon }, Wake: func(shard int16) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.woke = append(o.woke, shard)
		},
	})
	return o
}

func (o *office) exec(sql string, args ...any) {
	o.Helper()
	if _, err := o.db.Exec(o.Context(), sql, args...); err != nil {
		o.Fatalf("%s: %v", sql, err)
	}
}

func (o *office) count(sql string, args ...any) int {
	o.Helper()
	var n int
	if err := o.db.QueryRow(o.Context(), sql, args...).Scan(&n); err != nil {
		o.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (o *office) tenant() id.ID {
	o.Helper()
	ten := o.ids.NewTenant()
	o.exec(`INSERT INTO tenants (shard, id, name, created_at, updated_at) VALUES ($1, $2, 'T', $3, $3)`, ten.Shard, ten.N, noon)
	return ten
}

func (o *office) endpoint(ten id.ID, status, uid string) id.ID {
	o.Helper()
	ep := o.ids.In(ten.Shard)
	o.exec(`INSERT INTO endpoints (shard, id, tenant_id, uid, url, scheme, status, status_reason, status_changed_at,
		created_at, updated_at) VALUES ($1, $2, $3, nullif($4, ''), 'https://example.com', 'standard',
		$5::text::endpoint_status, CASE WHEN $5 <> 'enabled' THEN 'failing' END, $6, $6, $6)`,
		ep.Shard, ep.N, ten.N, uid, status, noon)
	return ep
}

func (o *office) event(ten id.ID, uid, kind, payload string) id.ID {
	o.Helper()
	evt := o.ids.In(ten.Shard)
	o.exec(`INSERT INTO events (shard, id, tenant_id, uid, type, content_type, payload, delivery_ids)
		VALUES ($1, $2, $3, nullif($4, ''), $5, 'application/json', $6, '{}')`, evt.Shard, evt.N, ten.N, uid, kind, []byte(payload))
	return evt
}

// row is a delivery to put in: an id of its own if N is 0.
type row struct {
	n        int64
	ten      id.ID
	evt, ep  id.ID
	state    string
	due      time.Duration // after noon
	attempts int
	outcome  string
	status   int
	reason   string
}

func (o *office) delivery(r row) id.ID {
	o.Helper()
	if r.n == 0 {
		r.n = o.ids.Next()
	}
	if r.evt.IsZero() {
		r.evt = o.event(r.ten, "", "order.paid", "{}")
	}
	o.exec(`UPDATE events SET delivery_ids = delivery_ids || $3::bigint WHERE shard = $1 AND id = $2`, r.evt.Shard, r.evt.N, r.n)
	switch r.state {
	case "scheduled", "pending", "in_flight":
		o.exec(`INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, attempts, failures, next_retry_at,
			lease_owner, leased_until, last_outcome, last_status)
			VALUES ($1, $2, $3, $4, $5, $6::text::delivery_state, $7, $8, $9,
			CASE WHEN $6 = 'in_flight' THEN 1 END, CASE WHEN $6 = 'in_flight' THEN $9::timestamptz END,
			nullif($10, '')::outcome, nullif($11, 0))`,
			r.ten.Shard, r.n, r.ten.N, r.evt.N, r.ep.N, r.state, r.attempts, max(r.attempts-1, 0), noon.Add(r.due), r.outcome, r.status)
	default:
		o.exec(`INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, reason,
			last_outcome, last_status, finished_at)
			VALUES ($1, $2, $3, $4, $5, $6::text::delivery_state, $7, nullif($8, ''), nullif($9, '')::outcome, nullif($10, 0), $11)`,
			r.ten.Shard, r.n, r.ten.N, r.evt.N, r.ep.N, r.state, r.attempts, r.reason, r.outcome, r.status, noon)
	}
	return id.ID{Shard: r.ten.Shard, N: r.n}
}

func (o *office) get(dlv id.ID) dispatcher.Delivery {
	o.Helper()
	d, err := o.desk.Get(o.Context(), dlv)
	if err != nil {
		o.Fatal(err)
	}
	return d
}

func TestGetShowsWhereADeliveryStands(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	enabled, disabled := o.endpoint(ten, "enabled", ""), o.endpoint(ten, "disabled", "")
	for name, c := range map[string]struct {
		row    row
		state  dispatcher.State
		reason dispatcher.Reason
		next   bool
		done   bool
	}{
		"not before its time":                {row: row{ep: enabled, state: "scheduled", due: time.Hour}, state: dispatcher.Scheduled, next: true},
		"its time has come":                  {row: row{ep: enabled, state: "scheduled"}, state: dispatcher.Pending, next: true},
		"waiting for a retry":                {row: row{ep: enabled, state: "pending", due: time.Hour, attempts: 2, outcome: "timeout"}, state: dispatcher.Pending, next: true},
		"being tried":                        {row: row{ep: enabled, state: "in_flight", attempts: 1}, state: dispatcher.InFlight},
		"being tried, endpoint switched off": {row: row{ep: disabled, state: "in_flight", attempts: 1}, state: dispatcher.InFlight},
		"held":                               {row: row{ep: disabled, state: "pending"}, state: dispatcher.Held, reason: "failing"},
		"held before its time":               {row: row{ep: disabled, state: "scheduled", due: time.Hour}, state: dispatcher.Held, reason: "failing"},
		"succeeded":                          {row: row{ep: disabled, state: "succeeded", attempts: 1, outcome: "succeeded", status: 200}, state: dispatcher.StateSucceeded, done: true},
		"failed":                             {row: row{ep: enabled, state: "failed", attempts: 6, outcome: "retryable", status: 503, reason: "exhausted"}, state: dispatcher.StateFailed, reason: "exhausted", done: true},
		"cancelled":                          {row: row{ep: enabled, state: "cancelled", reason: "event_cancelled"}, state: dispatcher.StateCancelled, reason: "event_cancelled", done: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := &office{T: t, db: o.db, ids: o.ids, desk: o.desk}
			c.row.ten = ten
			c.row.evt = o.event(ten, "", "order.paid", "{}")
			d := o.get(o.delivery(c.row))
			if d.State != c.state || d.Reason != c.reason || (d.NextAttemptAt != nil) != c.next || (d.FinishedAt != nil) != c.done {
				t.Errorf("got %+v", d)
			}
			if d.Tenant != ten || d.Endpoint != c.row.ep || d.Event != c.row.evt || d.EventType != "order.paid" || d.Attempts != c.row.attempts || !d.CreatedAt.Equal(noon) {
				t.Errorf("got %+v", d)
			}
			if c.next && !d.NextAttemptAt.Equal(noon.Add(c.row.due)) {
				t.Errorf("next at %v", d.NextAttemptAt)
			}
			if (d.LastOutcome == nil) != (c.row.outcome == "") || d.LastOutcome != nil && d.LastOutcome.String() != c.row.outcome {
				t.Errorf("last outcome %v", d.LastOutcome)
			}
			if (d.LastStatus == nil) != (c.row.status == 0) || d.LastStatus != nil && *d.LastStatus != c.row.status {
				t.Errorf("last status %v", d.LastStatus)
			}
		})
	}
	if _, err := o.desk.Get(t.Context(), o.ids.In(ten.Shard)); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown delivery: %v", err)
	}
}

// Without its event, a delivery is still shown.
func TestGetManagesWithoutTheEvent(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	dlv := o.delivery(row{ten: ten, ep: o.endpoint(ten, "enabled", ""), state: "failed", reason: "exhausted"})
	o.exec(`DELETE FROM events`)
	if d := o.get(dlv); d.EventType != "" || d.State != dispatcher.StateFailed {
		t.Errorf("got %+v", d)
	}
}

// newest puts deliveries in the order of lists.
func newest(a, b dispatcher.Delivery) int {
	return cmp.Or(cmp.Compare(b.ID.N, a.ID.N), cmp.Compare(b.ID.Shard, a.ID.Shard))
}

func idsOf(ds []dispatcher.Delivery) []id.ID {
	out := make([]id.ID, len(ds))
	for i, d := range ds {
		out[i] = d.ID
	}
	return out
}

func (o *office) list(f dispatcher.Filter, limit int, before id.ID) []dispatcher.Delivery {
	o.Helper()
	ds, err := o.desk.List(o.Context(), f, limit, before)
	if err != nil {
		o.Fatal(err)
	}
	if !slices.IsSortedFunc(ds, newest) {
		o.Errorf("not in order: %v", idsOf(ds))
	}
	return ds
}

// pages reads a list to its end, page by page, and checks that each delivery comes once.
func (o *office) pages(f dispatcher.Filter, limit int) []dispatcher.Delivery {
	o.Helper()
	var all []dispatcher.Delivery
	var before id.ID
	for {
		page := o.list(f, limit, before)
		if len(page) > limit {
			o.Fatalf("a page of %d has %d", limit, len(page))
		}
		all = append(all, page...)
		if len(page) < limit {
			break
		}
		before = page[len(page)-1].ID
	}
	if !slices.IsSortedFunc(all, newest) || len(slices.Compact(idsOf(all))) != len(all) {
		o.Errorf("pages overlap: %v", idsOf(all))
	}
	return all
}
