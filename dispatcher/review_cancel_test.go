package dispatcher_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

func TestCancelEndsADelivery(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	enabled, disabled := o.endpoint(ten, "enabled", ""), o.endpoint(ten, "disabled", "")
	for name, r := range map[string]row{
		"scheduled": {ep: enabled, state: "scheduled", due: time.Hour},
		"waiting":   {ep: enabled, state: "pending", attempts: 4, outcome: "retryable", status: 500},
		"held":      {ep: disabled, state: "pending"},
	} {
		r.ten = ten
		dlv := o.delivery(r)
		d, err := o.desk.Cancel(t.Context(), dlv, dispatcher.ReasonCancelledByUser)
		if err != nil || d.State != dispatcher.StateCancelled || d.Reason != dispatcher.ReasonCancelledByUser ||
			d.Attempts != r.attempts || d.FinishedAt == nil || !d.FinishedAt.Equal(noon) {
			t.Errorf("%s: got %+v, %v", name, d, err)
		}
		if (d.LastOutcome == nil) != (r.outcome == "") || (d.LastStatus == nil) != (r.status == 0) {
			t.Errorf("%s: got %+v", name, d)
		}
		if n := o.count(`SELECT count(*) FROM deliveries WHERE id = $1`, dlv.N); n != 0 {
			t.Errorf("%s: it is still there", name)
		}
	}
	for name, c := range map[string]struct {
		row   row
		words string
	}{
		"in flight": {row{state: "in_flight", attempts: 1}, "in flight"},
		"succeeded": {row{state: "succeeded", outcome: "succeeded", attempts: 1}, "succeeded"},
		"failed":    {row{state: "failed", reason: "exhausted"}, "it failed"},
		"cancelled": {row{state: "cancelled", reason: "x"}, "it was cancelled"},
	} {
		c.row.ten, c.row.ep = ten, enabled
		dlv := o.delivery(c.row)
		_, err := o.desk.Cancel(t.Context(), dlv, dispatcher.ReasonCancelledByUser)
		wantFault(t, err, fault.Conflict, c.words)
		if got := o.get(dlv); got.State.String() != c.row.state {
			t.Errorf("%s: it is %v now", name, got.State)
		}
	}
	_, err := o.desk.Cancel(t.Context(), o.ids.In(ten.Shard), dispatcher.ReasonCancelledByUser)
	wantFault(t, err, fault.NotFound, "no such delivery")
}

func TestCancelEventLeavesWhatIsInFlightAndOthersEvents(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	ep, evt := o.endpoint(ten, "enabled", ""), o.event(ten, "", "a", "{}")
	for _, r := range []row{
		{state: "scheduled", due: time.Hour},
		{state: "pending"},
		{state: "pending", attempts: 2},
		{state: "in_flight", attempts: 1},
		{state: "failed", reason: "exhausted"},
	} {
		r.ten, r.ep, r.evt = ten, ep, evt
		o.delivery(r)
	}
	other := o.delivery(row{ten: ten, ep: ep, state: "pending"})
	for _, want := range [][2]int{{3, 1}, {0, 1}} {
		cancelled, inFlight, err := o.desk.CancelEvent(t.Context(), evt)
		if err != nil || cancelled != want[0] || inFlight != want[1] {
			t.Errorf("got %d, %d, %v; want %v", cancelled, inFlight, err, want)
		}
	}
	if n := len(o.list(dispatcher.Filter{Event: &evt, States: []dispatcher.State{dispatcher.StateCancelled}}, 10, id.ID{})); n != 3 {
		t.Errorf("%d are cancelled", n)
	}
	if d := o.get(other); d.State != dispatcher.Pending {
		t.Errorf("another event's is %v", d.State)
	}
}

func TestCancelUnfinishedGoesThroughAllOfThem(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	ep, other := o.endpoint(ten, "dead", ""), o.endpoint(ten, "enabled", "")
	for e, n := range map[id.ID]int{ep: 2_345, other: 5} {
		o.exec(`INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, next_retry_at)
			SELECT $1, $2::bigint + g, $3, 1, $4, CASE WHEN g % 3 = 0 THEN 'scheduled' ELSE 'pending' END::delivery_state, $5
			FROM generate_series(1, $6::int) g`, ten.Shard, o.ids.Next()+1<<30+e.N%1000*10_000, ten.N, e.N, noon, n)
	}
	flying := o.delivery(row{ten: ten, ep: ep, state: "in_flight", attempts: 1})
	for _, want := range []int64{2_345, 0} {
		got, err := o.desk.CancelUnfinished(t.Context(), ep, dispatcher.ReasonEndpointDead)
		if err != nil || got != want {
			t.Errorf("got %d, %v; want %d", got, err, want)
		}
	}
	if n := o.count(`SELECT count(*) FROM deliveries_finished WHERE endpoint_id = $1 AND state = 'cancelled'
		AND reason = 'endpoint_dead' AND finished_at = $2`, ep.N, noon); n != 2_345 {
		t.Errorf("%d are finished", n)
	}
	if d := o.get(flying); d.State != dispatcher.InFlight {
		t.Errorf("the one in flight is %v", d.State)
	}
	if n := o.count(`SELECT count(*) FROM deliveries WHERE endpoint_id = $1`, other.N); n != 5 {
		t.Errorf("the other endpoint has %d left", n)
	}
}

func TestCancelUnfinishedOfSeveralEndpoints(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	gone := []id.ID{o.endpoint(ten, "dead", ""), o.endpoint(ten, "dead", ""), o.endpoint(ten, "dead", "")}
	for i, ep := range gone {
		for range i {
			o.delivery(row{ten: ten, ep: ep, state: "pending"})
		}
	}
	if got, err := o.desk.CancelUnfinishedOf(t.Context(), gone, dispatcher.ReasonTenantDeleted); got != 3 || err != nil {
		t.Errorf("got %d, %v; want 3", got, err)
	}
	if n := o.count(`SELECT count(*) FROM deliveries WHERE tenant_id = $1`, ten.N); n != 0 {
		t.Errorf("%d are left", n)
	}
}

func TestCancelUnfinishedLeavesALivingEndpointAlone(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	for status, want := range map[string]int64{"enabled": 0, "disabled": 0, "dead": 1, "deleted": 1} {
		ep := o.endpoint(ten, strings.Replace(status, "deleted", "enabled", 1), "")
		if status == "deleted" {
			o.exec(`UPDATE endpoints SET deleted_at = $1 WHERE id = $2`, noon, ep.N)
		}
		o.delivery(row{ten: ten, ep: ep, state: "pending"})
		if got, err := o.desk.CancelUnfinished(t.Context(), ep, "x"); got != want || err != nil {
			t.Errorf("%s: got %d, %v; want %d", status, got, err, want)
		}
	}
}

func TestWaitingNamesEndpointsWithWorkLeft(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	waiting, flying, done := o.endpoint(ten, "dead", ""), o.endpoint(ten, "dead", ""), o.endpoint(ten, "dead", "")
	o.delivery(row{ten: ten, ep: waiting, state: "pending"})
	o.delivery(row{ten: ten, ep: flying, state: "in_flight", attempts: 1})
	o.delivery(row{ten: ten, ep: done, state: "failed", reason: "gone"})
	got, err := o.desk.Waiting(t.Context(), ten.Shard, []id.ID{done, flying, waiting})
	if err != nil || len(got) != 1 || got[0] != waiting {
		t.Errorf("got %v, %v; want %v", got, err, waiting)
	}
}

// One that is just being claimed is passed over and not waited for.
func TestCancelUnfinishedWaitsForNobody(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ten := o.tenant()
	ep := o.endpoint(ten, "dead", "")
	claimed := o.delivery(row{ten: ten, ep: ep, state: "pending"})
	o.delivery(row{ten: ten, ep: ep, state: "pending"})
	err := pgx.BeginFunc(t.Context(), o.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT FROM deliveries WHERE id = $1 FOR UPDATE`, claimed.N); err != nil {
			return err
		}
		if got, err := o.desk.CancelUnfinished(t.Context(), ep, "x"); got != 1 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	check := func(want, wantFinished string, due time.Time) {
		t.Helper()
		// One that has not counted yet: on a busy machine a count may take so long that the next one rests.
		desk := dispatcher.NewDesk(dispatcher.DeskDeps{DB: o.db, Now: func() time.Time { return noon }})
		u, err := desk.CountUnfinished(t.Context())
		if err != nil || !u.OldestDue.Equal(due) || !u.At.Equal(noon) || fmt.Sprint(u.Counts) != want {
			t.Errorf("unfinished: %+v, %v; want %s", u, err, want)
		}
		finished, err := desk.CountFinished(t.Context())
		if err != nil || fmt.Sprint(finished) != wantFinished {
			t.Errorf("finished: %v, %v; want %s", finished, err, wantFinished)
		}
	}
	check("map[scheduled:0 pending:0 in_flight:0 held:0]", "map[succeeded:0 failed:0 cancelled:0]", time.Time{})
	ten := o.tenant()
	enabled, disabled, dead := o.endpoint(ten, "enabled", ""), o.endpoint(ten, "disabled", ""), o.endpoint(ten, "dead", "")
	for _, r := range []row{
		{ep: enabled, state: "scheduled", due: time.Hour},
		{ep: enabled, state: "scheduled", due: -time.Minute},
		{ep: enabled, state: "pending", due: -2 * time.Minute},
		{ep: enabled, state: "pending", due: time.Minute},
		{ep: enabled, state: "in_flight", attempts: 1, due: -time.Hour},
		{ep: disabled, state: "pending", due: -time.Hour},
		{ep: disabled, state: "scheduled", due: time.Hour},
		{ep: disabled, state: "in_flight", attempts: 1},
		{ep: dead, state: "pending", due: -time.Hour},
		{ep: enabled, state: "succeeded", outcome: "succeeded", attempts: 1},
		{ep: enabled, state: "failed", reason: "exhausted"},
		{ep: enabled, state: "failed", reason: "gone"},
		{ep: enabled, state: "cancelled", reason: "x"},
	} {
		r.ten = ten
		o.delivery(r)
	}
	check("map[scheduled:1 pending:4 in_flight:2 held:2]", "map[succeeded:1 failed:2 cancelled:1]", noon.Add(-2*time.Minute))
}
