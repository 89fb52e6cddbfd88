package alert_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

func (w *world) desk() *alert.Desk {
	return alert.NewDesk(w.db, w.ids.Next, func() time.Time { return w.now })
}

func (w *world) list(d *alert.Desk) []alert.Alert {
	w.Helper()
	out, err := d.List(w.Context(), alert.Filter{}, 10, id.ID{})
	if err != nil {
		w.Fatal(err)
	}
	return out
}

func TestAnAlertIsReadAcknowledgedAndResolved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	f := w.finding(0, alert.EndpointBlocked, "blocked")
	f.Delivery = 77
	w.raise(f)
	d := w.desk()
	a := w.list(d)[0]
	want := alert.Alert{
		ID: a.ID, Tenant: w.tenant, Endpoint: id.ID{Shard: w.tenant.Shard, N: w.endpoints[0]}, Kind: alert.EndpointBlocked,
		State: alert.Open, Count: 1, Detail: "blocked", LastDelivery: a.LastDelivery, OpenedAt: a.OpenedAt, LastAt: a.LastAt,
	}
	if a != want || !a.OpenedAt.Equal(start) || !a.LastAt.Equal(start) || a.LastDelivery == nil || *a.LastDelivery != (id.ID{Shard: w.tenant.Shard, N: 77}) {
		t.Errorf("got %+v\nwant %+v", a, want)
	}

	w.now = w.now.Add(time.Minute)
	for range 2 { // the second time changes nothing
		got, err := d.Acknowledge(t.Context(), a.ID, "ann")
		if err != nil || got.State != alert.Acknowledged || *got.AcknowledgedBy != "ann" || !got.AcknowledgedAt.Equal(start.Add(time.Minute)) {
			t.Fatalf("Acknowledge = %+v, %v", got, err)
		}
		w.now = w.now.Add(time.Minute)
	}
	w.raise(f)
	for range 2 {
		got, err := d.Resolve(t.Context(), a.ID, "bob")
		if err != nil || got.State != alert.Resolved || *got.ResolvedBy != "bob" || !got.ResolvedAt.Equal(start.Add(3*time.Minute)) || got.Count != 2 {
			t.Fatalf("Resolve = %+v, %v", got, err)
		}
		w.now = w.now.Add(time.Minute)
	}
	if _, err := d.Acknowledge(t.Context(), a.ID, "ann"); !fault.Is(err, fault.Conflict) {
		t.Errorf("acknowledging a resolved alert: %v", err)
	}
	w.wantStory(0, "resolved endpoint.blocked 2 blocked | opened blocked; resolved blocked")
	if got, err := d.Get(t.Context(), a.ID); err != nil || got.State != alert.Resolved {
		t.Errorf("Get = %+v, %v", got, err)
	}
}

func TestAnUnknownAlertIsNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	d := w.desk()
	for what, act := range map[string]func() error{
		"get":         func() error { _, err := d.Get(t.Context(), id.ID{Shard: 1, N: 1}); return err },
		"acknowledge": func() error { _, err := d.Acknowledge(t.Context(), id.ID{Shard: 1, N: 1}, "x"); return err },
		"resolve":     func() error { _, err := d.Resolve(t.Context(), id.ID{Shard: 1, N: 1}, "x"); return err },
	} {
		if err := act(); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Alerts of several buckets, some with the same number: pages give each once, newest first, whatever the filter.
func TestPagesGiveEachAlertOnceNewestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	tenants := []id.ID{w.tenant, w.addTenant("b"), w.addTenant("c")}
	same := w.ids.Next()
	for i := range 12 {
		ten := tenants[i%3]
		state, resolved := "open", any(nil)
		if i%2 == 0 {
			state, resolved = "resolved", w.now
		}
		number := w.ids.Next()
		if i < 3 {
			number = same
		}
		w.exec(`INSERT INTO alerts (shard, id, tenant_id, endpoint_id, kind, state, detail, last_notice_id, opened_at, last_at,
			resolved_at) VALUES ($1, $2, $3, $4, 'delivery.failed', $5::text::alert_state, '', 1, $6, $6, $7)`,
			ten.Shard, number, ten.N, w.addEndpoint(ten), state, w.now, resolved)
	}
	d := w.desk()
	for name, c := range map[string]struct {
		states []alert.State
		tenant *id.ID
		want   int
	}{
		"all":                  {want: 12},
		"open":                 {states: []alert.State{alert.Open}, want: 6},
		"resolved":             {states: []alert.State{alert.Resolved}, want: 6},
		"none is acknowledged": {states: []alert.State{alert.Acknowledged}, want: 0},
		"of one tenant":        {tenant: &tenants[1], want: 4},
		"open of one tenant":   {states: []alert.State{alert.Open, alert.Acknowledged}, tenant: &tenants[1], want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []id.ID
			var before id.ID
			for {
				out, err := d.List(t.Context(), alert.Filter{States: c.states, Tenant: c.tenant}, 2, before)
				if err != nil {
					t.Fatal(err)
				}
				if len(out) == 0 {
					break
				}
				for _, a := range out {
					if c.tenant != nil && a.Tenant != *c.tenant || c.states != nil && !slices.Contains(c.states, a.State) {
						t.Errorf("%+v does not match", a)
					}
					got = append(got, a.ID)
				}
				before = out[len(out)-1].ID
			}
			sorted := slices.Clone(got)
			slices.SortFunc(sorted, func(a, b id.ID) int {
				return -strings.Compare(fmt.Sprintf("%020d%03d", a.N, a.Shard), fmt.Sprintf("%020d%03d", b.N, b.Shard))
			})
			if len(got) != c.want || !slices.Equal(got, slices.Compact(sorted)) {
				t.Errorf("got %v, want %d of them in order", got, c.want)
			}
		})
	}
}

func TestOpenAlertsAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	d := w.desk()
	w.raise(w.finding(0, alert.DeliveryFailed, ""), w.finding(1, alert.DeliveryFailed, ""), w.finding(2, alert.DeliveryFailed, ""))
	all := w.list(d)
	if _, err := d.Acknowledge(t.Context(), all[0].ID, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Resolve(t.Context(), all[1].ID, "x"); err != nil {
		t.Fatal(err)
	}
	if n, err := d.CountOpen(t.Context()); n != 1 || err != nil {
		t.Errorf("CountOpen = %d, %v; want 1", n, err)
	}
	w.raise(w.finding(3, alert.EndpointDead, ""), w.finding(4, alert.EndpointDead, ""))
	stranger := id.ID{Shard: all[0].Tenant.Shard, N: all[0].Tenant.N + 1}
	for what, c := range map[string]struct {
		tenant *id.ID
		want   map[alert.Kind]int64
	}{
		"all":          {nil, map[alert.Kind]int64{alert.DeliveryFailed: 1, alert.EndpointDead: 2}},
		"the tenant's": {&all[0].Tenant, map[alert.Kind]int64{alert.DeliveryFailed: 1, alert.EndpointDead: 2}},
		"another's":    {&stranger, map[alert.Kind]int64{}},
	} {
		if got, err := w.desk().CountOpenByKind(t.Context(), c.tenant); err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", what, got, err, c.want)
		}
	}
}

func TestAlertsOfDeletedEndpointsAreClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.raise(w.finding(0, alert.EndpointDead, "gone"), w.finding(1, alert.DeliveryFailed, "other"))
	w.exec(`UPDATE endpoints SET deleted_at = $1 WHERE id = $2`, w.now, w.endpoints[0])
	d := w.desk()
	for _, want := range []int64{1, 0} {
		if n, err := d.ResolveDeleted(t.Context()); n != want || err != nil {
			t.Errorf("ResolveDeleted = %d, %v; want %d", n, err, want)
		}
	}
	w.wantStory(0, "resolved endpoint.dead 1 gone | opened gone; resolved gone")
	w.wantStory(1, "open delivery.failed 1 other | opened other")
}

// However many alerts have been resolved, a success finds out through the index of the others that there is none.
func TestASuccessLooksThroughTheIndexOfWhatIsOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 20)
	w.exec(`INSERT INTO alerts (shard, id, tenant_id, endpoint_id, kind, state, detail, last_notice_id, opened_at, last_at,
		resolved_at) SELECT shard, id + g * 1000, tenant_id, id, 'delivery.failed', 'resolved', '', 1, $1, $1, $1
		FROM endpoints, generate_series(1, 500) g`, w.now)
	w.exec(`ANALYZE alerts`)
	rows, err := w.db.Query(t.Context(), `EXPLAIN `+alert.ResolveSQL, pgx.StrictNamedArgs{
		"shard": w.tenant.Shard, "endpoints": w.endpoints, "notices": w.endpoints, "now": w.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !strings.Contains(strings.Join(plan, "\n"), "alerts_open_key") {
		t.Errorf("%v\n%s", err, strings.Join(plan, "\n"))
	}
}

func TestTheAlertAboutAnEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.raise(w.finding(0, alert.EndpointBlocked, "blocked"))
	d := w.desk()
	for n, want := range map[int]int{0: 1, 1: 0} {
		ep := id.ID{Shard: w.tenant.Shard, N: w.endpoints[n]}
		got, err := d.OfEndpoint(t.Context(), ep)
		if err != nil || len(got) != want || want == 1 && got[0].Endpoint != ep {
			t.Errorf("endpoint %d: %+v, %v", n, got, err)
		}
	}
	open := w.list(d)[0]
	if _, err := d.Resolve(t.Context(), open.ID, "ann"); err != nil {
		t.Fatal(err)
	}
	if got, err := d.OfEndpoint(t.Context(), open.Endpoint); err != nil || len(got) != 0 {
		t.Errorf("after it was resolved: %+v, %v", got, err)
	}
}
