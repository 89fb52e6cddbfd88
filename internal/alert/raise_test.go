package alert_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/alert"
)

func (w *world) raise(fs ...alert.Finding) {
	w.Helper()
	w.do(func(b *pgx.Batch) { alert.QueueRaise(b, w.tenant.Shard, fs, w.ids.Next, w.now) })
}

func (w *world) resolve(endpoints ...int64) {
	w.Helper()
	w.do(func(b *pgx.Batch) { alert.QueueResolve(b, w.tenant.Shard, endpoints, w.ids.Next, w.now) })
}

func (w *world) finding(endpoint int, k alert.Kind, detail string) alert.Finding {
	return alert.Finding{Endpoint: w.endpoints[endpoint], Tenant: w.tenant.N, Kind: k, Count: 1, Detail: detail, At: w.now}
}

// story is an endpoint's alerts, oldest first, and the notices of all of them in their order.
func (w *world) story(endpoint int) string {
	w.Helper()
	return w.one(`
		SELECT coalesce((SELECT string_agg(concat_ws(' ', state, kind, count, detail), '; ' ORDER BY id) FROM alerts
			WHERE endpoint_id = $1), '') || ' | ' ||
			coalesce((SELECT string_agg(concat_ws(' ', n.kind, n.detail), '; ' ORDER BY n.id) FROM alert_notices n
				JOIN alerts a ON a.id = n.alert_id WHERE a.endpoint_id = $1), '')`, w.endpoints[endpoint])
}

func (w *world) wantStory(endpoint int, want string) {
	w.Helper()
	if got := w.story(endpoint); got != want {
		w.Errorf("endpoint %d:\n got %s\nwant %s", endpoint, got, want)
	}
}

func TestFindingsGatherInOneAlertAndOneNotice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.raise(w.finding(0, alert.DeliveryFailing, "five times"))
	w.wantStory(0, "open delivery.failing 1 five times | opened five times")
	many := w.finding(0, alert.DeliveryFailing, "again")
	many.Count = 9_999
	w.raise(many, w.finding(1, alert.DeliveryFailed, "other"))
	w.wantStory(0, "open delivery.failing 10000 again | opened five times")
	w.wantStory(1, "open delivery.failed 1 other | opened other")
}

func TestAGraverKindIsToldAndALesserIsNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.raise(w.finding(0, alert.DeliveryFailing, "failing"))
	w.raise(w.finding(0, alert.EndpointUnauthorized, "401"))
	w.raise(w.finding(0, alert.DeliveryFailed, "exhausted"))
	w.raise(w.finding(0, alert.EndpointUnauthorized, "403"))
	w.raise(w.finding(0, alert.EndpointDead, "410"))
	w.wantStory(0, "open endpoint.dead 5 410 | opened failing; escalated 401; escalated 410")
}

func TestSeveralFindingsAboutOneEndpointAreOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	later := w.finding(0, alert.DeliveryFailed, "later, lesser")
	later.At = later.At.Add(1)
	w.raise(later, w.finding(0, alert.EndpointBlocked, "graver"), w.finding(0, alert.DeliveryFailing, "least"))
	w.wantStory(0, "open endpoint.blocked 3 graver | opened graver")
}

func TestASuccessResolvesAndTheNextFailureOpensAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.resolve(w.endpoints...)
	w.wantStory(0, " | ")
	w.raise(w.finding(0, alert.DeliveryFailed, "one"), w.finding(1, alert.DeliveryFailed, "other"))
	w.resolve(w.endpoints[0], w.endpoints[0])
	w.resolve(w.endpoints[0])
	w.wantStory(0, "resolved delivery.failed 1 one | opened one; resolved one")
	w.raise(w.finding(0, alert.DeliveryFailing, "two"))
	w.wantStory(0, "resolved delivery.failed 1 one; open delivery.failing 1 two | opened one; resolved one; opened two")
	w.wantStory(1, "open delivery.failed 1 other | opened other")
}

func TestALateSuccessDoesNotResolveWhatIsSwitchedOff(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"dead", "disabled"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			kind, err := alert.ParseKind("endpoint." + status)
			if err != nil {
				t.Fatal(err)
			}
			w.exec(`UPDATE endpoints SET status = $1::text::endpoint_status, status_reason = 'gone'`, status)
			w.raise(w.finding(0, kind, "off"))
			w.resolve(w.endpoints[0])
			w.wantStory(0, fmt.Sprintf("open endpoint.%s 1 off | opened off", status))
			w.exec(`UPDATE endpoints SET status = 'enabled', status_reason = NULL`)
			w.resolve(w.endpoints[0])
			w.wantStory(0, fmt.Sprintf("resolved endpoint.%s 1 off | opened off; resolved off", status))
		})
	}
}

// A resolve whose snapshot is older than the 410 it meets must judge by the 410: it waits for the alert's row, and would
// read the endpoint as it was if it did not lock it too.
func TestASuccessThatMeetsA410AtTheSameMomentLeavesTheAlertOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.raise(w.finding(0, alert.DeliveryFailing, "failing"))
	gone, err := w.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Rollback(t.Context())
	if _, err := gone.Exec(t.Context(), `UPDATE endpoints SET status = 'dead', status_reason = '410'`); err != nil {
		t.Fatal(err)
	}
	b := &pgx.Batch{}
	alert.QueueRaise(b, w.tenant.Shard, []alert.Finding{w.finding(0, alert.EndpointDead, "410")}, w.ids.Next, w.now)
	if err := gone.SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- inTx(t.Context(), w.db, func(b *pgx.Batch) {
			alert.QueueResolve(b, w.tenant.Shard, w.endpoints, w.ids.Next, w.now)
		})
	}()
	w.waitForBlocked(1)
	if err := gone.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.wantStory(0, "open endpoint.dead 2 410 | opened failing; escalated 410")
}

// waitForBlocked returns when that many backends wait for a lock that this database's others hold on our tables.
func (w *world) waitForBlocked(n int) {
	w.Helper()
	for {
		var blocked int
		err := w.db.QueryRow(w.Context(), `SELECT count(DISTINCT l.pid) FROM pg_locks l JOIN pg_stat_activity s USING (pid)
			WHERE NOT l.granted AND s.query LIKE '%alerts%' AND s.datname = current_database()
				AND pg_blocking_pids(l.pid) && ARRAY (SELECT o.pid FROM pg_locks o WHERE o.relation = 'alerts'::regclass)`,
		).Scan(&blocked)
		if err != nil {
			w.Fatal(err)
		}
		if blocked >= n {
			return
		}
	}
}

// The opener commits only when the others wait for it with snapshots in which its alert does not exist: each must still
// learn whether it was the one that made the alert graver.
func TestConcurrentFindingsAreToldOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	opener, err := w.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer opener.Rollback(t.Context())
	b := &pgx.Batch{}
	alert.QueueRaise(b, w.tenant.Shard, []alert.Finding{w.finding(0, alert.DeliveryFailing, "f")}, w.ids.Next, w.now)
	if err := opener.SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
	const waiting = 4
	var all sync.WaitGroup
	errs := make(chan error, waiting)
	for i := range waiting {
		f := w.finding(0, alert.EndpointUnauthorized, "401")
		if i%2 == 0 {
			f = w.finding(0, alert.DeliveryFailing, "f")
		}
		all.Go(func() {
			errs <- inTx(t.Context(), w.db, func(b *pgx.Batch) {
				alert.QueueRaise(b, w.tenant.Shard, []alert.Finding{f}, w.ids.Next, w.now)
			})
		})
	}
	w.waitForBlocked(waiting)
	if err := opener.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	for range waiting {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	w.wantStory(0, "open endpoint.unauthorized 5 401 | opened f; escalated 401")
}

func TestBatchesInAnyOrderDoNotDeadlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 20)
	var all sync.WaitGroup
	errs := make(chan error, 8)
	for i := range 8 {
		all.Go(func() {
			var err error
			for range 20 {
				fs := make([]alert.Finding, len(w.endpoints))
				for j := range fs {
					fs[j] = w.finding(j, alert.DeliveryFailed, "f")
				}
				backwards := slices.Clone(w.endpoints)
				if i%2 == 0 {
					slices.Reverse(fs)
					slices.Reverse(backwards)
				}
				// Without InTx's second tries, which would hide a deadlock.
				tx, terr := w.db.Begin(t.Context())
				if terr != nil {
					err = terr
					break
				}
				b := &pgx.Batch{}
				if i%4 < 2 {
					alert.QueueRaise(b, w.tenant.Shard, fs, w.ids.Next, w.now)
				} else {
					alert.QueueResolve(b, w.tenant.Shard, backwards, w.ids.Next, w.now)
				}
				if err = tx.SendBatch(t.Context(), b).Close(); err == nil {
					err = tx.Commit(t.Context())
				}
				if err != nil {
					tx.Rollback(t.Context())
					break
				}
			}
			errs <- err
		})
	}
	all.Wait()
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	got := w.one(`SELECT concat_ws(' ', (SELECT count(*) FROM alert_notices WHERE kind = 'opened'),
		(SELECT count(*) FROM alert_notices WHERE kind = 'resolved'))`)
	want := w.one(`SELECT concat_ws(' ', count(*), count(*) FILTER (WHERE state = 'resolved')) FROM alerts`)
	if got != want {
		t.Errorf("%s alerts were opened and resolved, the notices say %s", want, got)
	}
}

func TestHostileDetailsAreStoredPlain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.raise(w.finding(0, alert.DeliveryFailed, "a\x00b\nc\xff "+strings.Repeat("ü", 2_000)))
	got := w.one(`SELECT detail FROM alerts`)
	if !strings.HasPrefix(got, "a b c\uFFFD üü") || len(got) > 1_010 || !strings.HasSuffix(got, "ü…") {
		t.Errorf("stored %d bytes: %.20q…%.20q", len(got), got, got[len(got)-10:])
	}
}
