package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/metrics"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/subscriptions"
)

// house is everything that upkeep keeps up, on a database of its own.
type house struct {
	*testing.T
	Deps
	ids    *id.Generator
	reg    *prometheus.Registry
	tenant subscriptions.Tenant
	log    *log
	at     time.Time
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{T: t, reg: prometheus.NewRegistry(), log: &log{}, at: noon}
	db, now := pgtest.Pool(t), func() time.Time { return h.at }
	h.ids = id.NewGenerator(1, now)
	box, err := seal.New([][]byte{bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	h.Deps = Deps{
		DB: db, Now: now, Log: zerolog.New(h.log), Metrics: metrics.New(h.reg, metrics.Labels{}),
		Store: subscriptions.New(subscriptions.Deps{
			DB: db, IDs: h.ids, Now: now, Box: box, CheckURL: func(string) error { return nil },
		}),
		Desk:   dispatcher.NewDesk(dispatcher.DeskDeps{DB: db, IDs: h.ids, Now: now, Wake: func(int16) {}}),
		Alerts: alert.NewDesk(db, h.ids.Next, now),
	}
	if h.tenant, err = h.Store.CreateTenant(t.Context(), subscriptions.NewTenant{Name: "acme"}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) endpoint() subscriptions.Endpoint {
	h.Helper()
	e, _, err := h.Store.CreateEndpoint(h.Context(), h.tenant, subscriptions.NewEndpoint{URL: "https://example.com/hook"})
	if err != nil {
		h.Fatal(err)
	}
	return e
}

// deliveries makes so many of an endpoint that are due now.
func (h *house) deliveries(e subscriptions.Endpoint, n int) {
	h.Helper()
	var news []dispatcher.NewDelivery
	for range n {
		news = append(news, dispatcher.NewDelivery{
			Shard: e.ID.Shard, ID: h.ids.Next(), Tenant: h.tenant.ID.N, Event: 1, Endpoint: e.ID.N, DueAt: h.at,
		})
	}
	h.queue(func(b *pgx.Batch) { dispatcher.QueueNew(b, news) })
}

func (h *house) queue(what func(*pgx.Batch)) {
	h.Helper()
	err := pg.InTx(h.Context(), h.DB, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		what(b)
		return tx.SendBatch(h.Context(), b).Close()
	})
	if err != nil {
		h.Fatal(err)
	}
}

func (h *house) raise(e subscriptions.Endpoint) {
	h.Helper()
	h.queue(func(b *pgx.Batch) {
		alert.QueueRaise(b, e.ID.Shard, []alert.Finding{{
			Endpoint: e.ID.N, Tenant: h.tenant.ID.N, Kind: alert.DeliveryFailed, Detail: "d", At: h.at,
		}}, h.ids.Next, h.at)
	})
}

// wants runs a job and says what it must have done.
func (h *house) wants(what string, run func(context.Context) (int64, error), want int64) {
	h.Helper()
	if got, err := run(h.Context()); got != want || err != nil {
		h.Errorf("%s: %d, %v; want %d", what, got, err, want)
	}
}

func (h *house) states() string {
	h.Helper()
	u, err := h.Desk.CountUnfinished(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	finished, err := h.Desk.CountFinished(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	return fmt.Sprintf("%d pending, %d cancelled", u.Counts[dispatcher.Pending], finished[dispatcher.StateCancelled])
}

func TestDeliveriesOfClosedEndpointsAreCancelled(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	alive, dead, deleted := h.endpoint(), h.endpoint(), h.endpoint()
	for _, e := range []subscriptions.Endpoint{alive, dead, deleted} {
		h.deliveries(e, 3)
	}
	h.wants("nothing is closed", h.closedEndpoints, 0)
	exec(t, h.DB, `UPDATE endpoints SET status = 'dead', status_reason = 'gone' WHERE id = $1`, dead.ID.N)
	if _, err := h.Store.DeleteEndpoint(t.Context(), h.tenant, id.Endpoint.Format(deleted.ID)); err != nil {
		t.Fatal(err)
	}
	h.wants("two are closed", h.closedEndpoints, 6)
	h.wants("again", h.closedEndpoints, 0)
	if got := h.states(); got != "3 pending, 6 cancelled" {
		t.Errorf("got %s", got)
	}
	for e, want := range map[id.ID]dispatcher.Reason{dead.ID: dispatcher.ReasonEndpointDead, deleted.ID: dispatcher.ReasonEndpointDeleted} {
		ds, err := h.Desk.List(t.Context(), dispatcher.Filter{Endpoint: &e}, 10, id.ID{})
		if err != nil || len(ds) != 3 || ds[0].Reason != want {
			t.Errorf("%v: %v, %v; want %s", e, ds, err, want)
		}
	}
}

func exec(t *testing.T, db *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func TestExpiredSecretsAreDeleted(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	e := h.endpoint()
	if _, _, err := h.Store.RotateSecret(t.Context(), h.tenant, id.Endpoint.Format(e.ID), "", time.Hour); err != nil {
		t.Fatal(err)
	}
	h.wants("in the overlap", h.secrets, 0)
	h.at = h.at.Add(time.Hour)
	h.wants("after it", h.secrets, 1)
}

func TestOldEntriesOfTheAuditLogAreDeleted(t *testing.T) {
	t.Parallel()
	h := newHouse(t) // making its tenant is told
	e := h.endpoint()
	h.Audit, h.KeepAudit = audit.NewLog(h.DB), time.Hour
	h.at = h.at.Add(time.Hour + time.Second)
	if _, err := h.Store.DeleteEndpoint(t.Context(), h.tenant, id.Endpoint.Format(e.ID)); err != nil {
		t.Fatal(err)
	}
	if n, err := h.auditLog(t.Context()); err != nil || n != 2 {
		t.Errorf("%d were deleted, %v", n, err)
	}
	left, err := h.Audit.List(t.Context(), audit.Filter{}, 10, id.ID{})
	if err != nil || len(left) != 1 || left[0].Action != audit.EndpointDeleted {
		t.Errorf("left are %+v, %v", left, err)
	}
}

func TestOldFiguresAreDeleted(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Stats, h.KeepStats = stats.NewReader(h.DB, h.Now), 30*24*time.Hour
	tally := stats.NewTally(stats.TallyDeps{DB: h.DB, IDs: h.ids, Now: h.Now, Log: h.Log})
	for _, back := range []time.Duration{time.Hour, 31 * 24 * time.Hour} {
		tally.Attempt(h.endpoint().ID, dispatcher.Succeeded, time.Second, h.at.Add(-back))
	}
	if err := tally.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.wants("a minute, a quarter and an hour of all, a quarter of one", h.Deps.stats, 4)
	h.wants("again", h.Deps.stats, 0)
}

func TestKeysAreDeletedByAgeInEveryBucketWhateverFailsInOne(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.KeepKeys, h.KeepEvents = 24*time.Hour, 30*24*time.Hour
	broken := errors.New("this bucket is away")
	var asked []int16
	var before time.Time
	drop := func(_ context.Context, shard int16, olderThan time.Time) (int64, error) {
		asked, before = append(asked, shard), olderThan
		if shard == 3 {
			return 0, broken
		}
		return 1, nil
	}
	h.Keys, h.UIDs = drop, drop
	for what, c := range map[string]struct {
		run  func(context.Context) (int64, error)
		keep time.Duration
	}{"keys": {h.Deps.keys, h.KeepKeys}, "uids": {h.Deps.uids, h.KeepEvents}} {
		asked = nil
		n, err := c.run(t.Context())
		if n != 255 || !errors.Is(err, broken) || len(asked) != 256 || !slices.IsSorted(asked) || !before.Equal(noon.Add(-c.keep)) {
			t.Errorf("%s: %d, %v; %d buckets, before %v", what, n, err, len(asked), before)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	asked = nil
	if _, err := h.Deps.keys(ended); !errors.Is(err, context.Canceled) || len(asked) > 0 {
		t.Errorf("after the end: %v, asked %v", err, asked)
	}
}

func TestOrphanedAlertsAreClosed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	e := h.endpoint()
	h.raise(e)
	if _, err := h.Store.DeleteEndpoint(t.Context(), h.tenant, id.Endpoint.Format(e.ID)); err != nil {
		t.Fatal(err)
	}
	h.wants("its endpoint is deleted", h.Alerts.ResolveDeleted, 1)
	h.wants("there is no other", h.Alerts.ResolveDeleted, 0)
}

func TestGaugesShowWhatThereIs(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.deliveries(h.endpoint(), 4)
	h.raise(h.endpoint())
	h.at = h.at.Add(90 * time.Second)
	h.wants("gauges", h.gauges, 0)
	h.wants("gauges of history", h.historyGauges, 0)
	h.shows(map[string]float64{
		"postrider_deliveries pending": 4, "postrider_deliveries held": 0, "postrider_deliveries succeeded": 0,
		"postrider_oldest_due_seconds": 90, "postrider_alerts_open": 1,
	})
}

// The history is out of reach, as when it takes too long to count: everything else is counted, and shown, all the same.
func TestGaugesDoNotWaitForHistory(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	exec(t, h.DB, `ALTER TABLE deliveries_finished RENAME TO elsewhere`)
	h.deliveries(h.endpoint(), 3)
	h.raise(h.endpoint())
	h.at = h.at.Add(time.Minute)
	if _, err := h.historyGauges(t.Context()); err == nil {
		t.Error("counting what is not there goes well")
	}
	h.wants("gauges", h.gauges, 0)
	h.shows(map[string]float64{
		"postrider_deliveries pending": 3, "postrider_oldest_due_seconds": 60, "postrider_alerts_open": 1,
	})
}

// shows compares some gauges, by name and label, with what they should show.
func (h *house) shows(want map[string]float64) {
	h.Helper()
	families, err := h.reg.Gather()
	if err != nil {
		h.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue()
		}
	}
	for name, want := range want {
		if value, there := got[name]; !there || value != want {
			h.Errorf("%s is %v, want %v", name, value, want)
		}
	}
}

// All jobs as they are, together: what is there to do is done, and stopping them leaves nothing behind.
func TestUpkeepAsAWhole(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.KeepKeys, h.KeepEvents = time.Hour, time.Hour
	dropped := make(chan struct{}, 2*id.Buckets)
	drop := func(context.Context, int16, time.Time) (int64, error) { dropped <- struct{}{}; return 0, nil }
	h.Keys, h.UIDs = drop, drop
	e := h.endpoint()
	h.deliveries(e, 2)
	exec(t, h.DB, `UPDATE endpoints SET status = 'dead', status_reason = 'gone'`)
	h.raise(e)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- New(h.Deps).Run(ctx) }()
	for range 2 * id.Buckets {
		<-dropped
	}
	for !strings.Contains(h.log.lines(t), "partitions 27") || !strings.Contains(h.log.lines(t), "closed endpoints 2") {
		if t.Context().Err() != nil {
			t.Fatal("not done in time: " + h.log.lines(t))
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if text := h.log.lines(t); strings.Contains(text, "error") {
		t.Errorf("the log: %s", text)
	}
}
