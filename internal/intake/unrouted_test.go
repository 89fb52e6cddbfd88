package intake_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/subscriptions"
)

// begin is a transaction of a producer.
func (d *desk) begin(t testing.TB) pgx.Tx {
	t.Helper()
	tx, err := d.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

func (d *desk) enqueueIn(t testing.TB, tx pgx.Tx, tenant id.ID, ev intake.Event) id.ID {
	t.Helper()
	evt, err := enqueue(t.Context(), tx, id.Tenant.Format(tenant), ev)
	if err != nil {
		t.Fatal(err)
	}
	return evt
}

// wantStored wants so many events, and as many uids and markers.
func (d *desk) wantStored(t testing.TB, events, keys, markers int) {
	t.Helper()
	for table, want := range map[string]int{"events": events, "idempotency_keys": keys, "events_unrouted": markers} {
		if n := d.count(t, `SELECT count(*) FROM `+table); n != want {
			t.Errorf("%d rows in %s, want %d", n, table, want)
		}
	}
}

func TestARollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	ten := d.tenant(t)
	d.endpoint(t, ten, "")
	ev := order(1)
	ev.UID = "u"
	tx := d.begin(t)
	d.enqueueIn(t, tx, ten, ev)
	if n := d.fanOut(t); n != 0 {
		t.Errorf("%d were fanned out before the commit", n)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.wantStored(t, 0, 0, 0)

	tx = d.begin(t)
	kept := d.enqueueIn(t, tx, ten, order(2))
	inner, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.enqueueIn(t, inner, ten, ev)
	if err := inner.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if inner, err = tx.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := enqueue(t.Context(), inner, "nobody", ev); sqlstate(err) != "P0002" {
		t.Error(err)
	}
	if err := inner.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.wantStored(t, 1, 0, 1)
	if n := d.fanOut(t); n != 1 || len(d.targets(t, kept)) != 1 {
		t.Errorf("%d were fanned out, to %v", n, d.targets(t, kept))
	}
	d.whole(t)
}

// Within one transaction, too, the same uid is the same event.
func TestAUIDTwiceInOneTransaction(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	ten := d.tenant(t)
	ev := order(1)
	ev.UID = "u"
	tx := d.begin(t)
	first := d.enqueueIn(t, tx, ten, ev)
	if again := d.enqueueIn(t, tx, ten, ev); again != first {
		t.Errorf("%v and %v", first, again)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.wantStored(t, 1, 1, 1)
}

func TestManyCallersWithOneUIDMakeOneEvent(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	ten := d.tenant(t)
	d.endpoint(t, ten, "")
	ev := order(1)
	ev.UID = "u"
	const callers = 24
	var ids [callers]id.ID
	var callersDone sync.WaitGroup
	for n := range callers {
		callersDone.Go(func() {
			var err error
			if n%2 == 0 {
				ids[n], err = enqueue(t.Context(), d.db, id.Tenant.Format(ten), ev)
			} else if rs, _, aerr := d.Accept(t.Context(), ten, "", []intake.Event{ev}); aerr == nil {
				ids[n] = rs[0].ID
			} else {
				err = aerr
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	callersDone.Wait()
	for _, evt := range ids {
		if evt != ids[0] {
			t.Errorf("%v and %v", ids[0], evt)
		}
	}
	d.fanOut(t)
	d.wantStored(t, 1, 1, 0)
	d.whole(t)
}

// Whoever comes second with a uid waits for the first one's end, no longer than its own lock_timeout.
func TestAUIDInAnOpenTransactionIsWaitedFor(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	ten := d.tenant(t)
	ev := order(1)
	ev.UID = "u"
	first := d.begin(t)
	d.enqueueIn(t, first, ten, ev)
	second := d.begin(t)
	if _, err := second.Exec(t.Context(), `SET LOCAL lock_timeout = '20ms'`); err != nil {
		t.Fatal(err)
	}
	if _, err := enqueue(t.Context(), second, id.Tenant.Format(ten), ev); sqlstate(err) != "55P03" {
		t.Errorf("while the first is open: %v", err)
	}
	third, made := d.begin(t), make(chan error, 1)
	go func() {
		_, err := enqueue(t.Context(), third, id.Tenant.Format(ten), ev)
		made <- errors.Join(err, third.Commit(t.Context()))
	}()
	if err := first.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-made; err != nil {
		t.Error(err)
	}
	d.wantStored(t, 1, 1, 1)
}

// A producer that stands still within its transaction holds up nobody but who has its very uid: neither Accept nor other producers nor
// the fan-out, also of what is younger.
func TestAFrozenProducerHoldsUpNobody(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	ten := d.tenant(t)
	d.endpoint(t, ten, "")
	frozen := d.begin(t)
	ev := order(1)
	ev.UID, ev.GroupKey = "frozen", "g"
	late := d.enqueueIn(t, frozen, ten, ev)
	for n := range 3 {
		ev.UID = fmt.Sprint("other-", n)
		d.accept(t, ten, fmt.Sprint("key-", n), ev)
		ev.UID = fmt.Sprint("sql-", n)
		evt := d.enqueue(t, ten, ev)
		if fanned := d.fanOut(t); fanned != 1 || len(d.targets(t, evt)) != 1 {
			t.Errorf("%d were fanned out, to %v", fanned, d.targets(t, evt))
		}
	}
	if _, err := d.Events(t.Context(), ten, intake.Filter{Status: "queued"}, 10, id.ID{}); err != nil {
		t.Error(err)
	}
	if err := frozen.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	// It stands before what was done already.
	if n := d.fanOut(t); n != 1 || len(d.targets(t, late)) != 1 {
		t.Errorf("%d were fanned out, to %v", n, d.targets(t, late))
	}
	d.whole(t)
}

// A uid lives as long as its event.
func TestEnqueueTakesOverTheUIDOfAnEventThatIsGone(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	ten := d.tenant(t)
	d.endpoint(t, ten, "")
	ev := order(1)
	ev.UID = "u"
	gone := d.enqueue(t, ten, ev)
	d.exec(t, `DELETE FROM events WHERE id = $1`, gone.N)
	if n := d.fanOut(t); n != 1 {
		t.Errorf("the marker of an event that is gone: %d", n)
	}
	ev.Payload = []byte("other")
	if evt := d.enqueue(t, ten, ev); evt == gone {
		t.Error("it is the old one")
	}
	d.fanOut(t)
	d.wantStored(t, 1, 1, 0)
	d.whole(t)
}

// Several processes fan out at once: each event once, the events of a group in the order in which they were enqueued.
func TestSeveralProcessesFanOut(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	ten := d.tenant(t)
	ordered := d.endpoint(t, ten, "")
	d.exec(t, `UPDATE endpoints SET ordering = 'group' WHERE id = $1`, ordered.N)
	other := deskOn(t, d.db, 2)
	other.clock = d.clock
	var stop atomic.Bool
	var routers sync.WaitGroup
	for _, r := range []*desk{d, other} {
		routers.Go(func() {
			for !stop.Load() {
				if _, err := r.RouteOnce(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	const each = 30
	var producers sync.WaitGroup
	for p := range 4 {
		producers.Go(func() {
			for n := range each {
				ev := order(n)
				ev.GroupKey = fmt.Sprint("g", p)
				if _, err := enqueue(t.Context(), d.db, id.Tenant.Format(ten), ev); err != nil {
					t.Error(err)
				}
			}
		})
	}
	producers.Wait()
	stop.Store(true)
	routers.Wait()
	d.fanOut(t)
	if n := d.count(t, `SELECT count(*) FROM deliveries`); n != 4*each {
		t.Errorf("%d deliveries", n)
	}
	if n := d.count(t, `SELECT count(*) FROM (SELECT e.id, lag(e.id) OVER (PARTITION BY d.group_id ORDER BY d.id) AS before
		FROM deliveries d JOIN events e ON e.id = d.event_id) o WHERE before > id`); n != 0 {
		t.Errorf("%d deliveries stand behind a later event of their group", n)
	}
	d.whole(t)
}

// An event that the fan-out breaks at costs itself alone, is told of, and is tried again.
func TestAPoisonousEventIsPutAside(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	ten, poisoned := d.tenant(t), d.tenant(t)
	d.endpoint(t, ten, "")
	bad := d.endpoint(t, poisoned, "")
	d.exec(t, `CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'poison' USING ERRCODE = '22000'; END $$`)
	d.exec(t, fmt.Sprintf(`CREATE TRIGGER poison BEFORE INSERT ON deliveries FOR EACH ROW WHEN (NEW.endpoint_id = %d) EXECUTE FUNCTION poison()`, bad.N))
	var log bytes.Buffer
	i := intake.New(intake.Deps{DB: d.db, IDs: d.ids, Now: d.now, Log: zerolog.New(&log)})
	t.Cleanup(func() { _ = i.Close(context.WithoutCancel(t.Context())) })
	tx := d.begin(t)
	var ids []id.ID
	for n := range 9 {
		of := ten
		if n == 4 {
			of = poisoned
		}
		ids = append(ids, d.enqueueIn(t, tx, of, order(n)))
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := i.RouteOnce(t.Context()); err != nil || n != 9 {
		t.Fatal(n, err)
	}
	if n := d.count(t, `SELECT count(*) FROM deliveries`); n != 8 {
		t.Errorf("%d deliveries", n)
	}
	if n := d.count(t, `SELECT count(*) FROM events_unrouted WHERE tries = 1 AND event_id = $1`, ids[4].N); n != 1 {
		t.Error("it is not put aside")
	}
	if text := log.String(); strings.Count(text, "fanout.put_aside") != 1 || !strings.Contains(text, id.Event.Format(ids[4])) {
		t.Errorf("the log says %s", text)
	}
	if ev, err := d.Event(t.Context(), poisoned, id.Event.Format(ids[4])); err != nil || ev.Status != "queued" {
		t.Error(ev.Status, err)
	}
	if n := d.fanOut(t); n != 0 {
		t.Errorf("%d were tried again at once", n)
	}
	d.exec(t, `DROP TRIGGER poison ON deliveries`)
	d.pass(2 * time.Minute)
	other := deskOn(t, d.db, 2) // one that looks at all for the first time
	other.clock = d.clock
	if n := other.fanOut(t); n != 1 || len(d.targets(t, ids[4])) != 1 {
		t.Errorf("%d were tried again, and went to %v", n, d.targets(t, ids[4]))
	}
	d.whole(t)
}

// What breaks the schema of its type by a rule that SQL does not know goes to nobody, says where, and has failed.
func TestEnqueuedEventsThatBreakTheirSchema(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	ten := d.staffed(t)
	box, err := seal.New([][]byte{bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	store := subscriptions.New(subscriptions.Deps{DB: d.db, IDs: d.ids, Now: d.now, Box: box, CheckURL: func(string) error { return nil }})
	d.exec(t, `INSERT INTO event_types (name, id, schema, created_at, updated_at)
		VALUES ('order.paid', 1, '{"required": ["n"], "properties": {"n": {"anyOf": [{"type": "integer"}]}}}', now(), now())`)
	if err := store.Catalogue().Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	i := intake.New(intake.Deps{DB: d.db, IDs: d.ids, Now: d.now, Types: store.Catalogue(), Log: zerolog.New(&log)})
	t.Cleanup(func() { _ = i.Close(context.WithoutCancel(t.Context())) })
	bad := intake.Event{Type: "order.paid", Payload: []byte(`{"n": "1"}`), UID: "bad"}
	broken := d.enqueue(t, ten, bad)
	good := d.enqueue(t, ten, order(1))
	if n, err := i.RouteOnce(t.Context()); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	ev, err := i.Event(t.Context(), ten, "bad")
	if err != nil || ev.Status != "failed" || ev.FanOut != 0 {
		t.Errorf("it is %s with %d deliveries: %v", ev.Status, ev.FanOut, err)
	}
	reasons := map[subscriptions.SkipReason]int{}
	for _, s := range ev.Skipped {
		if reasons[s.Reason]++; s.Reason == intake.SkipSchema && !strings.HasPrefix(s.Detail, "/payload/n ") {
			t.Errorf("it breaks at %q", s.Detail)
		}
	}
	// The filters that want n to be a number have no answer, or say no.
	if reasons[intake.SkipSchema] != 4 || reasons[subscriptions.SkipDead] != 1 || reasons[subscriptions.SkipEventType] != 1 {
		t.Errorf("skipped are %v", reasons)
	}
	if text := log.String(); strings.Count(text, "fanout.schema_broken") != 1 || !strings.Contains(text, id.Event.Format(broken)) {
		t.Errorf("the log says %s", text)
	}
	found, err := i.Events(t.Context(), ten, intake.Filter{Status: "failed"}, 10, id.ID{})
	if err != nil || len(found) != 1 || found[0].ID != broken {
		t.Errorf("failed are %v: %v", found, err)
	}
	if len(d.targets(t, good)) == 0 {
		t.Error("the good one went to nobody")
	}
	rs, replayed, err := i.Accept(t.Context(), ten, "", []intake.Event{bad})
	if err != nil || !replayed || rs[0].ID != broken || rs[0].Status != "failed" {
		t.Errorf("again, over HTTP: %+v, %v, %v", rs, replayed, err)
	}
	ep := d.endpoint(t, ten, "new")
	window := intake.Replay{Tenant: ten, Endpoint: &ep, Before: 1<<63 - 1, Missing: true}
	if step, err := i.CountReplay(t.Context(), window, 0, 10); err != nil || step.Matched != 1 {
		t.Errorf("a window's replay means %+v: %v", step, err)
	}
	window.Event = &broken
	if step, err := i.CountReplay(t.Context(), window, 0, 10); err != nil || step.Matched != 1 {
		t.Errorf("a replay that names it means %+v: %v", step, err)
	}
	d.whole(t)
}

// Before its fan-out an event is queued, or scheduled, wherever it is read, and a window's replay leaves it alone.
func TestAnEventBeforeItsFanOut(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	ten := d.tenant(t)
	ep := d.endpoint(t, ten, "")
	later := order(2)
	at := d.now().Add(time.Hour)
	later.DeliverAt = &at
	done := d.accept(t, ten, "", order(0))[0].ID
	d.exec(t, `DELETE FROM deliveries`) // to the replays it is one that the endpoint never got
	queued, scheduled := d.enqueue(t, ten, order(1)), d.enqueue(t, ten, later)
	for evt, want := range map[id.ID]string{queued: "queued", scheduled: "scheduled"} {
		ev, err := d.Event(t.Context(), ten, id.Event.Format(evt))
		if err != nil || ev.Status != want || ev.FanOut != 0 {
			t.Errorf("it is %s with %d deliveries: %v", ev.Status, ev.FanOut, err)
		}
		for _, status := range intake.Statuses() {
			found, err := d.Search(t.Context(), ten, intake.Filter{Status: status}, 10, id.ID{})
			is := false
			for _, f := range found.Events {
				is = is || f.ID == evt
			}
			if err != nil || is != (status == want) {
				t.Errorf("among those that are %s: %v, %v", status, is, err)
			}
		}
	}
	window := intake.Replay{Tenant: ten, Endpoint: &ep, Before: 1<<63 - 1, Missing: true}
	if step, err := d.CountReplay(t.Context(), window, 0, 10); err != nil || step.Matched != 1 || step.Last != done.N {
		t.Errorf("a window's replay means %+v: %v", step, err)
	}
	// One that is named is fanned out first, by itself.
	window.Event = &scheduled
	if err := d.CheckReplay(t.Context(), window); err != nil {
		t.Fatal(err)
	}
	if len(d.targets(t, scheduled)) != 1 || len(d.targets(t, queued)) != 0 {
		t.Errorf("deliveries to %v and %v", d.targets(t, scheduled), d.targets(t, queued))
	}
	for range 2 {
		if err := d.FanOut(t.Context(), queued); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.targets(t, queued)) != 1 {
		t.Errorf("deliveries to %v", d.targets(t, queued))
	}
	d.wantStored(t, 3, 0, 0)
}

// RunFanOut is woken, counts what it makes, and tells whoever sends.
func TestRunFanOut(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	ten := d.tenant(t)
	d.endpoint(t, ten, "")
	woken, counted := make(chan int, 100), make(chan int, 100)
	i := intake.New(intake.Deps{
		DB: d.db, IDs: d.ids, Now: d.now, Accepted: func(n int) { counted <- n },
		Wake: func(made []dispatcher.NewDelivery) { woken <- len(made) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- i.RunFanOut(ctx) }()
	listening := connect(t, pgtest.URL(t))
	if _, err := listening.Exec(t.Context(), `LISTEN `+intake.EnqueuedChannel); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		d.enqueue(t, ten, order(n))
		if _, err := listening.WaitForNotification(t.Context()); err != nil {
			t.Fatal(err)
		}
		i.WakeFanOut()
		if got := <-woken; got != 1 {
			t.Errorf("woken for %d", got)
		}
		if got := <-counted; got != 1 {
			t.Errorf("%d counted", got)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := i.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	d.whole(t)
}
