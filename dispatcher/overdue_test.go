package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
)

// What the endpoint itself holds back is due and not overdue; what it held back until some time ago is overdue since then. A minute
// has passed since the delivery came due.
func TestOverdueIsWhatNothingHoldsBack(t *testing.T) {
	t.Parallel()
	const pace = `INSERT INTO endpoint_pace (shard, endpoint_id, breaker, trips, breaker_until, breaker_changed_at, paused_until, next_slot_at) VALUES `
	for name, c := range map[string]struct {
		group int64
		make  func(w *world, e id.ID)
		want  time.Duration // overdue for
	}{
		"nothing": {want: time.Minute},
		"a closed breaker": {want: 10 * time.Second, make: func(w *world, e id.ID) {
			w.exec(pace + fmt.Sprintf("(%d, %d, 'closed', 0, NULL, '%s', NULL, NULL)", e.Shard, e.N, w.ago(10*time.Second)))
		}},
		"an open breaker": {make: func(w *world, e id.ID) {
			w.exec(pace + fmt.Sprintf("(%d, %d, 'open', 1, '%s', '%s', NULL, NULL)", e.Shard, e.N, w.ago(time.Second), w.ago(time.Second)))
		}},
		"a pause": {make: func(w *world, e id.ID) {
			w.exec(pace + fmt.Sprintf("(%d, %d, 'closed', 0, NULL, NULL, '%s', NULL)", e.Shard, e.N, w.ago(-time.Second)))
		}},
		"a pause that is over": {want: 20 * time.Second, make: func(w *world, e id.ID) {
			w.exec(pace + fmt.Sprintf("(%d, %d, 'closed', 0, NULL, NULL, '%s', NULL)", e.Shard, e.N, w.ago(20*time.Second)))
		}},
		"a rate limit": {make: func(w *world, e id.ID) {
			w.exec(pace + fmt.Sprintf("(%d, %d, 'closed', 0, NULL, NULL, NULL, '%s')", e.Shard, e.N, w.ago(-time.Second)))
		}},
		"an attempt under way": {make: func(w *world, e id.ID) {
			w.inFlight(w.enqueue(e, "{}"), w.ago(-time.Second))
		}},
		"one whose process died": {want: time.Minute, make: func(w *world, e id.ID) {
			w.inFlight(w.enqueue(e, "{}"), w.ago(time.Second))
		}},
		"being disabled": {make: func(w *world, e id.ID) {
			w.exec(fmt.Sprintf("UPDATE endpoints SET status = 'disabled', status_reason = 'user' WHERE shard = %d AND id = %d", e.Shard, e.N))
		}},
		"being disabled until lately": {want: 5 * time.Second, make: func(w *world, e id.ID) {
			w.exec(fmt.Sprintf("UPDATE endpoints SET status_changed_at = '%s' WHERE shard = %d AND id = %d", w.ago(5*time.Second), e.Shard, e.N))
		}},
		"nothing, as head of its group": {group: 7, want: time.Minute},
		"a head of its group that waits for a retry": {group: 7, make: func(w *world, _ id.ID) {
			w.exec(fmt.Sprintf("UPDATE deliveries SET next_retry_at = '%s', attempts = 1, failures = 1 WHERE id = (SELECT min(id) FROM deliveries)", w.ago(-time.Hour)))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			e := w.endpoint()
			for range 2 {
				if c.group != 0 {
					w.enqueueIn(c.group, e, "{}")
				} else {
					w.enqueue(e, "{}")
				}
			}
			w.advance(time.Minute)
			if c.make != nil {
				c.make(w, e)
			}
			u, err := NewDesk(DeskDeps{DB: w.db, Now: w.clock}).CountUnfinished(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := time.Duration(0)
			if !u.OldestOverdue.IsZero() {
				got = u.At.Sub(u.OldestOverdue)
			}
			if got != c.want {
				t.Errorf("overdue for %v, want %v; %+v", got, c.want, u)
			}
		})
	}
}

// ago is a time before the world's own, as SQL has it.
func (w *world) ago(since time.Duration) string {
	return w.clock().Add(-since).UTC().Format(time.RFC3339Nano)
}

// inFlight leases a delivery until a time.
func (w *world) inFlight(delivery id.ID, until string) {
	w.exec(fmt.Sprintf(`UPDATE deliveries SET state = 'in_flight', attempts = 1, lease_owner = 1, leased_until = '%s' WHERE shard = %d AND id = %d`,
		until, delivery.Shard, delivery.N))
}
