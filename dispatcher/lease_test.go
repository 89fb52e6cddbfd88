package dispatcher

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
)

// A dispatcher that claims and then never comes back is one whose process died: its lease runs out, the attempt shows as
// unknown, and the delivery goes on without having lost its place in the schedule.
func TestLostAttemptIsRescuedWhenItsLeaseEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	delivery := w.enqueue(w.endpoint(), `{}`)
	dead := w.another(newGate().Do)
	ctx, kill := context.WithCancel(t.Context())
	if n, err := dead.claimOnce(ctx, ctx, allShards); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	kill()
	dead.senders.Wait() // its results are never recorded

	w.advance(59 * time.Second)
	if n, err := w.d.rescue(t.Context()); err != nil || n != 0 {
		t.Fatalf("rescued %d before the lease's end, %v", n, err)
	}
	w.advance(2 * time.Second)
	if n, err := w.d.rescue(t.Context()); err != nil || n != 1 {
		t.Fatalf("rescued %d, %v", n, err)
	}
	w.settle(w.d)
	w.round(w.d)
	if got := w.get(delivery); got.State != StateSucceeded || got.Attempts != 2 {
		t.Errorf("after the rescue: %+v", got)
	}
	attempts := w.attempts(delivery)
	if len(attempts) != 2 || attempts[1].Outcome != Unknown || !strings.Contains(attempts[1].Error, "outcome unknown") || attempts[0].Outcome != Succeeded {
		t.Errorf("history: %+v", attempts)
	}
}

// A process that was stopped for longer than its lease comes back with an answer: the attempt is kept in history, and
// nothing that others have done since is touched.
func TestLateResultChangesNothing(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := newWorld(t, always(500))
	delivery := w.enqueue(w.endpoint(), `{}`)
	late := w.another(g.Do)
	if _, err := late.claimOnce(t.Context(), t.Context(), allShards); err != nil {
		t.Fatal(err)
	}
	<-g.arrived
	w.advance(2 * time.Minute)
	if n, err := w.d.rescue(t.Context()); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	w.settle(w.d)
	w.round(w.d) // the second attempt: 500, to be tried again
	before := w.get(delivery)

	g.answer <- 200
	w.settle(late)
	if got := w.get(delivery); got.State != Pending || got.Attempts != before.Attempts || !got.NextAttemptAt.Equal(*before.NextAttemptAt) {
		t.Errorf("before %+v, after the late result %+v", before, got)
	}
	if n := w.count(`SELECT count(*) FROM attempts WHERE outcome = 'succeeded'`); n != 1 {
		t.Error("the late attempt was made, but history does not have it")
	}
}

// The tenant was erased while the request was on its way: nothing of it comes back with the answer.
func TestALateResultOfWhatWasErasedLeavesNothing(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := newWorld(t, always(500))
	w.enqueue(w.endpoint(), `{}`)
	late := w.another(g.Do)
	if _, err := late.claimOnce(t.Context(), t.Context(), allShards); err != nil {
		t.Fatal(err)
	}
	<-g.arrived
	for _, table := range []string{"deliveries", "events"} {
		if _, err := w.db.Exec(t.Context(), `DELETE FROM `+table); err != nil {
			t.Fatal(err)
		}
	}
	g.answer <- 200
	w.settle(late)
	for _, table := range []string{"deliveries", "deliveries_finished", "attempts", "alerts"} {
		if n := w.count(`SELECT count(*) FROM ` + table); n != 0 {
			t.Errorf("%s has %d rows", table, n)
		}
	}
}

func TestTwoRescuersMakeOneRescue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	delivery := w.enqueue(w.endpoint(), `{}`)
	dead := w.another(newGate().Do)
	ctx, kill := context.WithCancel(t.Context())
	if _, err := dead.claimOnce(ctx, ctx, allShards); err != nil {
		t.Fatal(err)
	}
	kill()
	dead.senders.Wait()
	w.advance(2 * time.Minute)
	other := w.another(always(200))
	for _, d := range []*Dispatcher{w.d, other} {
		if n, err := d.rescue(t.Context()); err != nil || n != 1 {
			t.Fatal(n, err)
		}
	}
	w.settle(w.d)
	w.settle(other)
	if n := w.count(`SELECT count(*) FROM attempts`); n != 1 {
		t.Errorf("history has %d unknown attempts", n)
	}
	if n := w.count(`SELECT rescues FROM deliveries`); n != 1 {
		t.Errorf("%d rescues", n)
	}
	w.round(w.d)
	if got := w.get(delivery); got.State != StateSucceeded {
		t.Errorf("%+v", got)
	}
}

// After a database that was away for longer than a lease, a rescue may find a lease of our own whose result waits to be
// recorded: what was made here counts.
func TestMadeResultGoesBeforeTheRescueOfTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	delivery := w.enqueue(w.endpoint(), `{}`)
	if _, err := w.d.claimOnce(t.Context(), t.Context(), allShards); err != nil {
		t.Fatal(err)
	}
	w.d.senders.Wait()
	w.advance(2 * time.Minute)
	if n, err := w.d.rescue(t.Context()); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	w.settle(w.d)
	if got := w.get(delivery); got.State != StateSucceeded {
		t.Errorf("%+v", got)
	}
	if n := w.count(`SELECT count(*) FROM attempts`); n != 1 {
		t.Errorf("history has %d attempts", n)
	}
}

// A commit whose answer did not come back is flushed again: nothing happens twice.
func TestRecordingTwiceIsRecordingOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(410))
	w.enqueue(w.endpoint(), `{}`)
	if _, err := w.d.claimOnce(t.Context(), t.Context(), allShards); err != nil {
		t.Fatal(err)
	}
	w.d.senders.Wait()
	results := []result{<-w.d.results}
	for n, want := range []int{1, 0} {
		won, err := w.d.record(t.Context(), results, n > 0)
		if err != nil || len(won) != want {
			t.Fatalf("%d won, %v", len(won), err)
		}
	}
	if n := w.count(`SELECT (SELECT count(*) FROM attempts) + (SELECT sum(count) FROM alerts)
		+ (SELECT sum(consecutive_failures) FROM endpoints)`); n != 3 {
		t.Errorf("an attempt, an alert and a failure, counted as %d", n)
	}
}

func TestDeliveryThatKeepsKillingItsProcessIsParked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	delivery := w.enqueue(w.endpoint(), `{}`)
	for range maxRescues {
		dead := w.another(newGate().Do)
		ctx, kill := context.WithCancel(t.Context())
		if n, err := dead.claimOnce(ctx, ctx, allShards); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		kill()
		dead.senders.Wait()
		w.advance(2 * time.Minute)
		if _, err := w.d.rescue(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.settle(w.d)
	}
	if got := w.get(delivery); got.State != StateFailed || got.Reason != ReasonPoisoned || got.Attempts != maxRescues {
		t.Errorf("%+v", got)
	}
}

// A stop waits for what is on its way; what takes longer than the grace is interrupted and costs the delivery nothing.
func TestStopLetsWorkFinishAndInterruptsTheRest(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := newWorld(t, g.Do)
	w.d.cfg.Grace = 2 * time.Second // also what the record has, which takes its time on a busy machine
	endpoint := w.endpoint()
	delivery := w.enqueue(endpoint, `{}`)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.d.Run(ctx) }()
	<-g.arrived
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	got := w.get(delivery)
	if got.State != Pending || got.Attempts != 1 {
		t.Errorf("interrupted: %+v", got)
	}
	if n := w.count(`SELECT failures + rescues FROM deliveries`); n != 0 {
		t.Errorf("the interruption counts %d", n)
	}
	if n := w.count(`SELECT count(*) FROM endpoints WHERE consecutive_failures > 0`); n != 0 {
		t.Error("the endpoint is blamed for our stop")
	}

	again := w.another(g.Do)
	again.cfg.Grace = time.Minute
	ctx, stop = context.WithCancel(t.Context())
	go func() { done <- again.Run(ctx) }()
	<-g.arrived
	stop()
	g.answer <- 204
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := w.get(delivery); got.State != StateSucceeded || got.Attempts != 2 {
		t.Errorf("finished during the stop: %+v", got)
	}
}

// One result that PostgreSQL refuses costs itself, and the rest of its batch is recorded.
func TestPoisonResultCostsItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint := w.endpoint()
	for range 5 {
		w.enqueue(endpoint, `{}`)
	}
	if _, err := w.d.claimOnce(t.Context(), t.Context(), allShards); err != nil {
		t.Fatal(err)
	}
	w.d.senders.Wait()
	var results []result
	for len(w.d.results) > 0 {
		results = append(results, <-w.d.results)
	}
	results[2].decision.State = Held // no such thing in the database
	results[2].decision.NextAt = time.Time{}
	results[2].claimed.Attempts = -1 // breaks a CHECK
	w.d.flush(t.Context(), results)
	if n := w.count(`SELECT count(*) FROM deliveries_finished WHERE state = 'succeeded'`); n != 4 {
		t.Errorf("%d of the four good ones are recorded", n)
	}
	if n := w.d.inFlight.Load(); n != 0 {
		t.Errorf("%d slots are lost", n)
	}
}

// A Run that is woken, or polls, delivers what is enqueued while it runs; a retry comes in its time.
func TestRunDeliversWhatComesWhileItRuns(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := newWorld(t, g.Do)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.d.Run(ctx) }()
	endpoint := w.endpoint()
	for range 3 {
		w.enqueue(endpoint, `{}`)
		w.d.Wake(endpoint.Shard)
		<-g.arrived
		g.answer <- 200
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := w.count(`SELECT count(*) FROM deliveries_finished WHERE state = 'succeeded'`); n != 3 {
		t.Errorf("%d delivered", n)
	}
}

// An endpoint that failed for days and has just recovered is not switched off by a slow attempt that began before.
func TestEndpointThatRecoversIsNotSwitchedOff(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := newWorld(t, always(500))
	w.d.cfg.DisableAfter = time.Hour
	endpoint := w.endpoint()
	w.enqueue(endpoint, `{}`)
	w.round(w.d)
	w.advance(2 * time.Hour)
	w.d.targets.forget(endpoint)
	w.d.deps.Doer = doer(g.Do)
	w.enqueue(endpoint, `{}`)
	if n, err := w.d.claimOnce(t.Context(), t.Context(), allShards); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	for _, status := range []int{200, 500} {
		<-g.arrived
		g.answer <- status
		r := <-w.d.results
		w.d.flush(t.Context(), []result{r})
	}
	w.settle(w.d)
	if n := w.count(`SELECT count(*) FROM endpoints WHERE status = 'enabled'`); n != 1 {
		t.Error("the endpoint is switched off")
	}
}

// What is cancelled while it is in flight ends with its attempt: as succeeded if it does, else as cancelled.
func TestCancelledInFlightEndsWithItsAttempt(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]State{500: StateCancelled, 200: StateSucceeded} {
		t.Run(want.String(), func(t *testing.T) {
			t.Parallel()
			g := newGate()
			w := newWorld(t, g.Do)
			delivery := w.enqueue(w.endpoint(), `{}`)
			if _, err := w.d.claimOnce(t.Context(), t.Context(), allShards); err != nil {
				t.Fatal(err)
			}
			<-g.arrived
			event := w.get(delivery).Event
			if _, inFlight, err := w.d.deps.Desk.CancelEvent(t.Context(), event); err != nil || inFlight != 1 {
				t.Fatalf("%d in flight, %v", inFlight, err)
			}
			g.answer <- status
			w.settle(w.d)
			got := w.get(delivery)
			if got.State != want || want == StateCancelled && got.Reason != ReasonCancelledByEvent {
				t.Errorf("after a %d: %+v", status, got)
			}
		})
	}
}

// An endpoint that dies takes along what was in flight to it.
func TestInFlightEndsWithItsEndpoint(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := newWorld(t, g.Do)
	endpoint := w.endpoint()
	w.enqueue(endpoint, `{}`)
	w.enqueue(endpoint, `{}`)
	if n, err := w.d.claimOnce(t.Context(), t.Context(), allShards); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	for _, status := range []int{410, 503} {
		<-g.arrived
		g.answer <- status
		r := <-w.d.results
		w.d.flush(t.Context(), []result{r})
		w.d.tasks.Wait()
	}
	w.settle(w.d)
	if n := w.count(`SELECT count(*) FROM deliveries_finished WHERE state = 'cancelled' AND reason = 'endpoint_dead'`); n != 1 {
		t.Errorf("%d cancelled with the endpoint", n)
	}
	if n := w.count(`SELECT count(*) FROM deliveries`); n != 0 {
		t.Errorf("%d still wait", n)
	}
}

// A process that stood still longer than its lease sends nothing it claimed before: somebody else may have it by now.
func TestNothingIsSentUnderALeaseThatIsNearlyOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(*http.Request) (*http.Response, error) {
		t.Error("it is sent")
		return reply(200, nil, "")
	})
	endpoint := w.endpoint()
	delivery := w.enqueue(endpoint, `{}`)
	got, err := w.d.claim(t.Context(), map[int16][]wish{endpoint.Shard: {{endpoint: endpoint.N, slots: 1}}})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	known, err := w.d.targets.fresh(t.Context(), []id.ID{endpoint})
	if err != nil {
		t.Fatal(err)
	}
	got[0].leaseEnds = time.Now().Add(w.d.cfg.Timeout / 2)
	w.d.inFlight.Add(1)
	w.d.hand(t.Context(), errand{got[0], known[0], time.Now()})
	w.settle(w.d)
	if got := w.get(delivery); got.State != Pending || got.Attempts != 0 {
		t.Errorf("%+v", got)
	}
}
