package dispatcher

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
)

// attempted claims one delivery and gives the result that waits to be recorded.
func (w *world) attempted(d *Dispatcher) result {
	w.Helper()
	if n := w.claim(d); n != 1 {
		w.Fatalf("%d are claimed", n)
	}
	d.senders.Wait()
	return <-d.results
}

// A result is written only over the lease that it was made under, whether it ends the delivery or not.
func TestResultIsFencedByOwnerAndAttempt(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"ends": 200, "waits": 500} {
		for what, spoil := range map[string]func(*result){
			"another's lease": func(r *result) { r.owner++ },
			"another attempt": func(r *result) { r.claimed.Attempts++ },
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, always(status))
				delivery := w.enqueue(w.endpoint(), `{}`)
				r := w.attempted(w.d)
				spoiled := r
				spoil(&spoiled)
				if won, err := w.d.record(t.Context(), []result{spoiled}, false); err != nil || len(won) != 0 {
					t.Errorf("%d won, %v", len(won), err)
				}
				if got := w.get(delivery); got.State != InFlight || got.Attempts != 1 {
					t.Errorf("%+v", got)
				}
				if n := w.count(`SELECT sum(consecutive_failures) FROM endpoints`); n != 0 {
					t.Error("a result that came too late counts against the endpoint")
				}
				if won, err := w.d.record(t.Context(), []result{r}, true); err != nil || len(won) != 1 {
					t.Errorf("the right one: %d won, %v", len(won), err)
				}
				if n := w.count(`SELECT count(*) FROM attempts`); n < 1 {
					t.Error("history does not have the attempt")
				}
			})
		}
	}
}

// A cancellation that comes while the record of a waiting result is on its way is not lost: one sees the other.
func TestCancellationDuringARecordIsSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(500))
	delivery := w.enqueue(w.endpoint(), `{}`)
	r := w.attempted(w.d)
	tx, err := w.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `UPDATE deliveries SET cancel_reason = $1`, string(ReasonCancelledByEvent)); err != nil {
		t.Fatal(err)
	}
	type ended struct {
		won []result
		err error
	}
	done := make(chan ended, 1)
	go func() {
		won, err := w.d.record(t.Context(), []result{r}, false)
		done <- ended{won, err}
	}()
	w.awaitLock()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.err != nil || len(got.won) != 1 || got.won[0].decision.State != StateCancelled {
		t.Errorf("%+v", got)
	}
	if got := w.get(delivery); got.State != StateCancelled || got.Reason != ReasonCancelledByEvent {
		t.Errorf("%+v", got)
	}
}

// A rescue that is being recorded when the late result of the same attempt comes wins, and the late one changes nothing.
func TestRescueDuringARecordWins(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"ends": 200, "waits": 500} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, always(status))
			delivery := w.enqueue(w.endpoint(), `{}`)
			r := w.attempted(w.d)
			tx, err := w.db.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			// As another process records the rescue.
			if _, err := tx.Exec(t.Context(), `UPDATE deliveries SET state = 'pending', rescues = 1, lease_owner = NULL,
			leased_until = NULL, next_retry_at = $1`, w.clock()); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			won := make(chan int, 1)
			go func() {
				got, err := w.d.record(t.Context(), []result{r}, false)
				if err != nil {
					t.Error(err)
				}
				won <- len(got)
			}()
			w.awaitLock()
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := <-won; n != 0 {
				t.Error("the late result counts")
			}
			if got := w.get(delivery); got.State != Pending || got.Attempts != 1 {
				t.Errorf("%+v", got)
			}
			if n := w.count(`SELECT (SELECT count(*) FROM deliveries_finished) * 10 + (SELECT count(*) FROM attempts)`); n != 1 {
				t.Errorf("finished and attempts: %d", n)
			}
		})
	}
}

// awaitLock waits until somebody waits for a lock.
func (w *world) awaitLock() {
	w.Helper()
	for began := time.Now(); w.count(`SELECT count(*) FROM pg_locks WHERE NOT granted`) == 0; {
		if time.Since(began) > 10*time.Second {
			w.Fatal("nobody waits")
		}
	}
}

// A batch of all kinds, over several buckets, recorded again after a commit whose answer was lost, is recorded once.
func TestBatchOfAllKindsRecordedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	endpoint := w.endpoint()
	var results []result
	for _, status := range []int{200, 500, 401} {
		w.d.deps.Doer = always(status)
		w.enqueue(endpoint, `{}`)
		results = append(results, w.attempted(w.d))
	}
	w.enqueueIn(4, endpoint, `{}`)
	w.d.deps.Doer = always(503)
	results = append(results, w.attempted(w.d))
	const state = `SELECT string_agg(x, ' ' ORDER BY x) FROM (
		SELECT format('%s:%s:%s:%s:%s', state, attempts, failures, lane, next_retry_at) FROM deliveries UNION ALL
		SELECT format('%s:%s:%s', state, attempts, reason) FROM deliveries_finished UNION ALL
		SELECT format('%s:%s', attempt, outcome) FROM attempts UNION ALL
		SELECT format('failures %s', consecutive_failures) FROM endpoints) _ (x)`
	read := func() (s string) {
		t.Helper()
		if err := w.db.QueryRow(t.Context(), state).Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	won, err := w.d.record(t.Context(), results, false)
	if err != nil || len(won) != 4 {
		t.Fatalf("%d won, %v", len(won), err)
	}
	before := read()
	w.d.flush(t.Context(), results) // the first try is refused, for the attempts are there; what follows is not lost
	if won, err = w.d.record(t.Context(), results, true); err != nil || len(won) != 0 {
		t.Errorf("again: %d won, %v", len(won), err)
	}
	if after := read(); after != before {
		t.Errorf("before: %s\nafter:  %s", before, after)
	}
}

// A look for lost attempts goes over the whole table, all buckets, up to a number.
func TestRescueFindsLostAttemptsOfAllBuckets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	const n = 40
	if _, err := w.db.Exec(t.Context(), `INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, attempts,
			next_retry_at, lease_owner, leased_until, lane, group_id)
		SELECT s * 6, s + 1, 1, 1, 1, 'in_flight', 1, $1::timestamptz, 77, $1::timestamptz + (CASE WHEN s % 4 = 0 THEN 60 ELSE -1 END) * interval '1 second',
			CASE WHEN s % 2 = 0 THEN 2 ELSE 0 END, CASE WHEN s % 2 = 0 THEN s END
		  FROM generate_series(0, $2 - 1) s`, w.clock(), n); err != nil {
		t.Fatal(err)
	}
	if got, err := w.d.rescue(t.Context()); err != nil || got != n*3/4 {
		t.Fatalf("%d are found, %v", got, err)
	}
	w.settle(w.d)
	if got := w.count(`SELECT count(*) FROM deliveries WHERE state = 'pending' AND rescues = 1 AND failures = 0`); got != n*3/4 {
		t.Errorf("%d go on", got)
	}
	if got := w.count(`SELECT count(*) FROM deliveries WHERE state = 'in_flight' AND lease_owner = 77`); got != n/4 {
		t.Errorf("%d leases that hold are left", got)
	}
	if got := w.count(`SELECT count(DISTINCT shard) FROM attempts WHERE outcome = 'unknown' AND user_agent IS NULL`); got != n*3/4 {
		t.Errorf("history has lost attempts of %d buckets", got)
	}
	if got, err := w.d.rescue(t.Context()); err != nil || got != 0 {
		t.Errorf("the next look finds %d, %v", got, err)
	}
}

// A User-Agent is registered once, whoever sends under it, and history shows it.
func TestUserAgentIsRegisteredOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	other := w.another(always(200))
	other.cfg.UserAgent = "Postrider/other"
	again := w.another(always(200))
	endpoint := w.endpoint()
	var deliveries []id.ID
	for _, d := range []*Dispatcher{w.d, other, again} {
		deliveries = append(deliveries, w.enqueue(endpoint, `{}`))
		w.round(d)
	}
	rows, err := w.db.Query(t.Context(), `SELECT name FROM user_agents ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) != 2 || names[0] != "Postrider/test" || names[1] != "Postrider/other" {
		t.Errorf("%v, %v", names, err)
	}
	for i, want := range []string{"Postrider/test", "Postrider/other", "Postrider/test"} {
		found := ""
		for _, h := range w.attempts(deliveries[i])[0].RequestHeaders {
			if h.Name == "User-Agent" {
				found = h.Value
			}
		}
		if found != want {
			t.Errorf("history shows %q, want %q", found, want)
		}
	}
}
