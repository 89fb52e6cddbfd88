package dispatcher_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

// wantFault checks the fault's code and that its words say what they should.
func wantFault(t *testing.T, err error, code fault.Code, words string) {
	t.Helper()
	if !fault.Is(err, code) || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want %s that says %q", err, code, words)
	}
}

// afresh is what a retried delivery's row must be.
func (o *office) wantDueAfresh(dlv id.ID, attempts int) {
	o.Helper()
	n := o.count(`SELECT count(*) FROM deliveries WHERE shard = $1 AND id = $2 AND state = 'pending' AND failures = 0
		AND rescues = 0 AND next_retry_at = $3 AND attempts = $4`, dlv.Shard, dlv.N, noon, attempts)
	finished := o.count(`SELECT count(*) FROM deliveries_finished WHERE shard = $1 AND id = $2`, dlv.Shard, dlv.N)
	if n != 1 || finished != 0 {
		o.Errorf("%d rows are due afresh, %d finished", n, finished)
	}
}

func TestRetryStartsAfresh(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	enabled, disabled := o.endpoint(ten, "enabled", ""), o.endpoint(ten, "disabled", "")
	for name, r := range map[string]row{
		"scheduled": {ep: enabled, state: "scheduled", due: time.Hour},
		"waiting":   {ep: enabled, state: "pending", due: time.Hour, attempts: 4, outcome: "timeout"},
		"held":      {ep: disabled, state: "pending", due: time.Hour},
		"failed":    {ep: enabled, state: "failed", attempts: 6, outcome: "retryable", status: 503, reason: "exhausted"},
		"cancelled": {ep: enabled, state: "cancelled", reason: "event_cancelled"},
		"succeeded": {ep: enabled, state: "succeeded", attempts: 1, outcome: "succeeded", status: 200},
	} {
		r.ten = ten
		dlv := o.delivery(r)
		o.woke = nil
		d, err := o.desk.Retry(t.Context(), dlv)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := dispatcher.Pending
		if r.ep == disabled {
			want = dispatcher.Held
		}
		if d.State != want || d.ID != dlv || d.Attempts != r.attempts || d.FinishedAt != nil || d.Event != o.get(dlv).Event {
			t.Errorf("%s: got %+v", name, d)
		}
		if (d.LastOutcome == nil) != (r.outcome == "") || d.LastOutcome != nil && d.LastOutcome.String() != r.outcome {
			t.Errorf("%s: last outcome %v", name, d.LastOutcome)
		}
		o.wantDueAfresh(dlv, r.attempts)
		if len(o.woke) != 1 || o.woke[0] != dlv.Shard {
			t.Errorf("%s: woke %v", name, o.woke)
		}
	}
}

func TestRetryIsRefused(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	enabled, dead, deleted := o.endpoint(ten, "enabled", ""), o.endpoint(ten, "dead", ""), o.endpoint(ten, "enabled", "")
	o.exec(`UPDATE endpoints SET deleted_at = $1 WHERE id = $2`, noon, deleted.N)
	failed := row{ten: ten, ep: enabled, state: "failed", attempts: 6, reason: "exhausted"}
	ofDead, ofDeleted := failed, failed
	ofDead.ep, ofDeleted.ep = dead, deleted
	forgotten := o.delivery(failed)
	o.exec(`DELETE FROM events`)
	for name, c := range map[string]struct {
		dlv   id.ID
		code  fault.Code
		words string
	}{
		"in flight":         {o.delivery(row{ten: ten, ep: enabled, state: "in_flight", attempts: 1}), fault.Conflict, "in flight"},
		"endpoint dead":     {o.delivery(ofDead), fault.Conflict, "dead"},
		"endpoint deleted":  {o.delivery(ofDeleted), fault.Conflict, "deleted"},
		"waiting, dead":     {o.delivery(row{ten: ten, ep: dead, state: "pending"}), fault.Conflict, "dead"},
		"payload forgotten": {forgotten, fault.Conflict, "not kept"},
		"unknown":           {o.ids.In(ten.Shard), fault.NotFound, "no such delivery"},
	} {
		before := o.count(`SELECT (SELECT count(*) FROM deliveries) * 100 + (SELECT count(*) FROM deliveries_finished)`)
		_, err := o.desk.Retry(t.Context(), c.dlv)
		wantFault(t, err, c.code, c.words)
		if after := o.count(`SELECT (SELECT count(*) FROM deliveries) * 100 + (SELECT count(*) FROM deliveries_finished)`); after != before {
			t.Errorf("%s: rows moved", name)
		}
	}
	if len(o.woke) != 0 {
		t.Errorf("woke %v for nothing", o.woke)
	}
}

// A finished delivery that everybody retries at once comes back once, and everybody is told so.
func TestConcurrentRetriesBringItBackOnce(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	dlv := o.delivery(row{ten: ten, ep: o.endpoint(ten, "enabled", ""), state: "failed", attempts: 6, reason: "exhausted"})
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if _, err := o.desk.Retry(t.Context(), dlv); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	o.wantDueAfresh(dlv, 6)
}

// A retry that waits for a claim's lock finds the delivery in flight, and leaves it alone.
func TestRetryAndCancelLoseToAClaim(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	for name, act := range map[string]func(id.ID) error{
		"retry":  func(dlv id.ID) error { _, err := o.desk.Retry(t.Context(), dlv); return err },
		"cancel": func(dlv id.ID) error { _, err := o.desk.Cancel(t.Context(), dlv, "x"); return err },
	} {
		dlv := o.delivery(row{ten: ten, ep: o.endpoint(ten, "enabled", ""), state: "pending", due: time.Hour})
		claim, err := o.db.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := claim.Exec(t.Context(), `UPDATE deliveries SET state = 'in_flight', attempts = 1, lease_owner = 7,
			leased_until = next_retry_at WHERE id = $1`, dlv.N); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- act(dlv) }()
		for o.count(`SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'`) == 0 {
			if err := t.Context().Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := claim.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantFault(t, <-done, fault.Conflict, "in flight")
		if d := o.get(dlv); d.State != dispatcher.InFlight || d.Attempts != 1 {
			t.Errorf("%s: got %+v", name, d)
		}
	}
}
