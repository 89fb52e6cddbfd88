package subscriptions_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// book books healths as a recording transaction does, and says how many statements that took.
func (w *world) book(shard int16, hs ...subscriptions.Health) int {
	w.t.Helper()
	statements, err := w.tryBook(shard, hs...)
	if err != nil {
		w.t.Fatal(err)
	}
	return statements
}

func (w *world) tryBook(shard int16, hs ...subscriptions.Health) (statements int, err error) {
	var b pgx.Batch
	subscriptions.QueueHealth(&b, shard, hs, w.clock.now(), func(e audit.Entry) { w.told = append(w.told, e) })
	return b.Len(), pg.InTx(w.t.Context(), w.pool, func(tx pgx.Tx) error { return tx.SendBatch(w.t.Context(), &b).Close() })
}

// health is the part of an endpoint that QueueHealth writes.
type health struct {
	status    subscriptions.Status
	reason    string
	failures  int
	since     time.Time
	lastError string
	version   int
}

func (w *world) health(e subscriptions.Endpoint) health {
	w.t.Helper()
	now := must(w.EndpointByID(w.t.Context(), e.ID))(w.t)
	h := health{status: now.Status, failures: now.ConsecutiveFailures, version: now.Version}
	if now.StatusReason != nil {
		h.reason = *now.StatusReason
	}
	if now.FailingSince != nil {
		h.since = *now.FailingSince
	}
	if now.LastError != nil {
		h.lastError = *now.LastError
	}
	return h
}

// One endpoint's life, batch by batch.
func TestHealthIsBooked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, nil)
	at := func(minute int) time.Time { return time.Date(2026, 11, 30, 10, minute, 0, 0, time.UTC) }
	type h = subscriptions.Health
	const enabled, disabled, dead = subscriptions.Enabled, subscriptions.Disabled, subscriptions.Dead
	for i, step := range []struct {
		h    h
		want health
	}{
		{h{Recovered: true}, health{enabled, "", 0, time.Time{}, "", 1}},
		{h{Failures: 2, FirstFailureAt: at(1), LastError: "500"}, health{enabled, "", 2, at(1), "500", 1}},
		{h{Failures: 1, FirstFailureAt: at(2), LastError: "timeout"}, health{enabled, "", 3, at(1), "timeout", 1}},
		{h{Recovered: true, Failures: 1, FirstFailureAt: at(3), LastError: "502"}, health{enabled, "", 1, at(3), "502", 1}},
		{h{Recovered: true}, health{enabled, "", 0, time.Time{}, "", 1}},
		{h{Failures: 4, FirstFailureAt: at(4), LastError: "503", Version: 7}, health{enabled, "", 4, at(4), "503", 1}},
		{ // what was tried is not what is there any more
			h{Failures: 1, FirstFailureAt: at(5), LastError: "410", Status: dead, StatusReason: "gone", Version: 7},
			health{enabled, "", 5, at(4), "410", 1},
		},
		{
			h{Failures: 1, FirstFailureAt: at(6), LastError: "503", Status: disabled, StatusReason: "failing_too_long", Version: 1},
			health{disabled, "failing_too_long", 6, at(4), "503", 2},
		},
		{ // once is enough, and the first reason stays
			h{Failures: 1, FirstFailureAt: at(7), LastError: "x", Status: disabled, StatusReason: "other"},
			health{disabled, "failing_too_long", 7, at(4), "x", 2},
		},
		{h{Recovered: true, Status: enabled}, health{disabled, "failing_too_long", 0, time.Time{}, "", 2}},
		{
			h{Failures: 1, FirstFailureAt: at(8), LastError: "410", Status: dead, StatusReason: "gone"},
			health{dead, "gone", 1, at(8), "410", 3},
		},
		{h{Status: disabled, StatusReason: "by_receiver"}, health{dead, "gone", 1, at(8), "410", 3}},
		{h{Status: dead, StatusReason: "again"}, health{dead, "gone", 1, at(8), "410", 3}},
	} {
		step.h.Endpoint = e.ID.N
		before := w.health(e).status
		w.told = nil
		if n := w.book(e.ID.Shard, step.h); n > 1 {
			t.Errorf("step %d takes %d statements", i, n)
		}
		if got := w.health(e); got != step.want {
			t.Errorf("step %d: %+v, want %+v", i, got, step.want)
		}
		var told []audit.Entry
		if step.want.status != before {
			changes := audit.Details{"reason": step.want.reason}
			changes.Changed("status", string(before), string(step.want.status))
			told = []audit.Entry{{
				Action: audit.EndpointStatusChanged, Object: audit.Thing{Kind: id.Endpoint, ID: e.ID}, Tenant: &tenant.ID, Details: changes,
			}}
		}
		if !reflect.DeepEqual(w.told, told) {
			t.Errorf("step %d is told of as %+v, want %+v", i, w.told, told)
		}
	}
	revived := must(w.UpdateEndpoint(t.Context(), tenant, ref(e), "", subscriptions.EndpointPatch{Status: ptr(enabled)}))(t)
	if got := w.health(e); got != (health{enabled, "", 0, time.Time{}, "", 4}) || revived.Version != 4 {
		t.Errorf("revived it is %+v", got)
	}
	// An attempt that was under way while its owner enabled it counts, and does not close it again.
	w.book(e.ID.Shard, h{
		Endpoint: e.ID.N, Failures: 1, FirstFailureAt: at(9), LastError: "410", Status: dead, StatusReason: "gone", Version: 3,
	})
	if got := w.health(e); got != (health{enabled, "", 1, at(9), "410", 4}) {
		t.Errorf("an old answer makes it %+v", got)
	}
}

// Switching an endpoint off for failing too long is decided on what was known of it before the batch. If it has recovered
// since, it is not failing for that long, and stays.
func TestARecoveredEndpointIsNotSwitchedOffForWhatWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	old, fresh := w.clock.now().Add(-5*24*time.Hour), w.clock.now().Add(-time.Minute)
	type h = subscriptions.Health
	off := func(over h) h {
		over.Failures, over.FirstFailureAt, over.LastError = 1, w.clock.now(), "503"
		over.Status, over.StatusReason = subscriptions.Disabled, "failing_too_long"
		return over
	}
	for name, c := range map[string]struct {
		before []h
		then   h
		want   subscriptions.Status
	}{
		"failing ever since":            {[]h{{Failures: 1, FirstFailureAt: old}}, off(h{FailingSince: &old}), subscriptions.Disabled},
		"recovered in the batch":        {[]h{{Failures: 1, FirstFailureAt: old}}, off(h{FailingSince: &old, Recovered: true}), subscriptions.Enabled},
		"recovered before it":           {[]h{{Failures: 1, FirstFailureAt: old}, {Recovered: true}}, off(h{FailingSince: &old}), subscriptions.Enabled},
		"recovered, and failing anew":   {[]h{{Failures: 1, FirstFailureAt: fresh}}, off(h{FailingSince: &old}), subscriptions.Enabled},
		"for another reason, as it may": {[]h{{Failures: 1, FirstFailureAt: fresh}}, off(h{Recovered: true}), subscriptions.Disabled},
	} {
		e, _ := w.endpoint(tenant, nil)
		for _, b := range append(c.before, c.then) {
			b.Endpoint = e.ID.N
			w.book(e.ID.Shard, b)
		}
		if got := w.health(e); got.status != c.want || got.failures == 0 {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

func TestAStatusChangeSaysWhen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.endpoint(w.tenant(), nil)
	at := w.clock.advance(time.Hour)
	// A 2xx answer that asks to be switched off: a success, and disabled.
	w.book(e.ID.Shard, subscriptions.Health{Endpoint: e.ID.N, Recovered: true, Status: subscriptions.Disabled, StatusReason: "disabled_by_receiver"})
	got := must(w.EndpointByID(t.Context(), e.ID))(t)
	want := e
	want.Status, want.StatusReason, want.StatusChangedAt = subscriptions.Disabled, ptr("disabled_by_receiver"), at
	want.Version, want.UpdatedAt = 2, at
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it is\n%+v, want\n%+v", got, want)
	}
	w.clock.advance(time.Hour)
	w.book(e.ID.Shard, subscriptions.Health{Endpoint: e.ID.N, Failures: 1, FirstFailureAt: at, LastError: "x"})
	got = must(w.EndpointByID(t.Context(), e.ID))(t)
	if !got.StatusChangedAt.Equal(at) || !got.UpdatedAt.Equal(at) || got.Version != 2 {
		t.Errorf("a tally alone counts as a change: %+v", got)
	}
}

func TestABatchOfHealths(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	failing, _ := w.endpoint(tenant, nil)
	fine, _ := w.endpoint(tenant, nil)
	recovering, _ := w.endpoint(tenant, nil)
	untouched, _ := w.endpoint(tenant, nil)
	gone, _ := w.endpoint(tenant, nil)
	at := w.clock.now()
	shard := tenant.ID.Shard
	w.book(shard, subscriptions.Health{Endpoint: recovering.ID.N, Failures: 3, FirstFailureAt: at, LastError: "x"},
		subscriptions.Health{Endpoint: untouched.ID.N, Failures: 2, FirstFailureAt: at, LastError: "y"})
	must(w.DeleteEndpoint(t.Context(), tenant, ref(gone)))(t)
	lines := func() map[int64]string { // which rows a batch writes: those whose place changes
		out := map[int64]string{}
		rows, err := w.pool.Query(t.Context(), `SELECT id, ctid::text FROM endpoints`)
		if err != nil {
			t.Fatal(err)
		}
		var n int64
		var place string
		if _, err := pgx.ForEachRow(rows, []any{&n, &place}, func() error { out[n] = place; return nil }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := lines()
	n := w.book(shard,
		subscriptions.Health{Endpoint: fine.ID.N, Recovered: true},
		subscriptions.Health{Endpoint: failing.ID.N, Failures: 1, FirstFailureAt: at, LastError: "z"},
		subscriptions.Health{Endpoint: gone.ID.N, Failures: 1, FirstFailureAt: at, Status: subscriptions.Dead, StatusReason: "gone"},
		subscriptions.Health{Endpoint: recovering.ID.N, Recovered: true},
		subscriptions.Health{Endpoint: 12345, Failures: 1, FirstFailureAt: at},
	)
	if n != 1 {
		t.Errorf("it takes %d statements", n)
	}
	after := lines()
	for e, written := range map[int64]bool{
		failing.ID.N: true, recovering.ID.N: true, fine.ID.N: false, untouched.ID.N: false, gone.ID.N: false,
	} {
		if (before[e] != after[e]) != written {
			t.Errorf("endpoint %d: written is %v", e, !written)
		}
	}
	if got := w.health(recovering); got.failures != 0 || !got.since.IsZero() {
		t.Errorf("the recovering one is %+v", got)
	}
	if n := w.book(shard, subscriptions.Health{Endpoint: untouched.ID.N, Recovered: true}, subscriptions.Health{Endpoint: fine.ID.N, Recovered: true}); n != 1 {
		t.Errorf("successes take %d statements", n)
	}
	if got := w.health(untouched); got.failures != 0 {
		t.Errorf("a batch of successes leaves %+v", got)
	}
	if n := w.book(shard) + w.book(shard, subscriptions.Health{Endpoint: fine.ID.N}); n != 0 {
		t.Errorf("nothing to book takes %d statements", n)
	}
	if n := w.book((shard+1)%256, subscriptions.Health{Endpoint: fine.ID.N, Failures: 1, FirstFailureAt: at}); n != 1 || w.health(fine).failures != 0 {
		t.Error("another bucket's health was booked here")
	}
}

// What a receiver puts into an error does not undo the batch.
func TestAnUglyErrorIsBooked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.endpoint(w.tenant(), nil)
	w.book(e.ID.Shard, subscriptions.Health{Endpoint: e.ID.N, Failures: 1, FirstFailureAt: w.clock.now(), LastError: "a\x00b\xffc"})
	if got := w.health(e).lastError; got != "a\uFFFDb\uFFFDc" {
		t.Errorf("the error reads %q", got)
	}
}

// Two dispatchers book the same endpoints at once, in opposite orders, and nothing is lost. The first one's transaction
// stays open until the second waits for it.
func TestConcurrentBatchesAddUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	a, _ := w.endpoint(tenant, nil)
	b, _ := w.endpoint(tenant, nil)
	at := w.clock.now()
	queue := func(endpoints ...subscriptions.Endpoint) *pgx.Batch {
		var hs []subscriptions.Health
		for _, e := range endpoints {
			hs = append(hs, subscriptions.Health{Endpoint: e.ID.N, Failures: 2, FirstFailureAt: at, LastError: "x"})
		}
		var batch pgx.Batch
		subscriptions.QueueHealth(&batch, tenant.ID.Shard, hs, at, func(audit.Entry) {})
		return &batch
	}
	first := must(w.pool.Begin(t.Context()))(t)
	if err := first.SendBatch(t.Context(), queue(a, b)).Close(); err != nil {
		t.Fatal(err)
	}
	second := must(w.pool.Begin(t.Context()))(t)
	done := make(chan error, 1)
	go func() {
		err := second.SendBatch(t.Context(), queue(b, a)).Close()
		done <- errors.Join(err, second.Commit(t.Context()))
	}()
	w.waitForLock(done)
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, e := range []subscriptions.Endpoint{a, b} {
		if got := w.health(e); got.failures != 4 || got.lastError != "x" {
			t.Errorf("booked is %+v", got)
		}
	}
}

// A batch that waited for a status change judges by the status that came out of it.
func TestABatchSeesWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.endpoint(w.tenant(), nil)
	first := must(w.pool.Begin(t.Context()))(t)
	if _, err := first.Exec(t.Context(), `UPDATE endpoints SET status = 'dead', status_reason = 'gone', version = 2 WHERE id = $1`, e.ID.N); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := w.tryBook(e.ID.Shard, subscriptions.Health{
			Endpoint: e.ID.N, Failures: 1, FirstFailureAt: w.clock.now(), Status: subscriptions.Disabled, StatusReason: "late",
		})
		done <- err
	}()
	w.waitForLock(done)
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := w.health(e); got.status != subscriptions.Dead || got.reason != "gone" || got.version != 2 || got.failures != 1 {
		t.Errorf("it is %+v", got)
	}
}

// The statement for batches of successes goes by the index of those who fail, however many do not.
func TestSuccessesCostNextToNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	w.exec(`INSERT INTO endpoints (shard, id, tenant_id, url, scheme, status_changed_at, created_at, updated_at)
		SELECT $1, n, $2, 'https://a.example', 'standard', $3, $3, $3 FROM generate_series(1, 5000) n`,
		tenant.ID.Shard, tenant.ID.N, w.clock.now())
	w.exec(`ANALYZE endpoints`)
	var b pgx.Batch
	var hs []subscriptions.Health
	for n := range int64(200) {
		hs = append(hs, subscriptions.Health{Endpoint: n*7 + 1, Recovered: true})
	}
	subscriptions.QueueHealth(&b, tenant.ID.Shard, hs, w.clock.now(), func(audit.Entry) {})
	args, ok := b.QueuedQueries[0].Arguments[0].(pgx.StrictNamedArgs)
	if !ok {
		t.Fatal("the statement has other arguments")
	}
	plan := w.explain(b.QueuedQueries[0].SQL, args)
	if !strings.Contains(plan, "endpoints_failing") {
		t.Errorf("the plan is\n%s", plan)
	}
}

func (w *world) explain(sql string, args pgx.StrictNamedArgs) string {
	w.t.Helper()
	rows, err := w.pool.Query(w.t.Context(), `EXPLAIN `+sql, args)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Join(must(pgx.CollectRows(rows, pgx.RowTo[string]))(w.t), "\n")
}
