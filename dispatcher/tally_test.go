package dispatcher

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
)

// ear keeps what a dispatcher has counted.
type ear struct{ heard []string }

func (e *ear) Attempt(endpoint id.ID, outcome Outcome, took time.Duration, ended time.Time) {
	e.heard = append(e.heard, fmt.Sprintf("attempt %d %s %v %s", endpoint.N, outcome, took > 0, ended.Format("15:04:05")))
}

func (e *ear) Finished(endpoint id.ID, outcome Outcome, ended time.Time) {
	e.heard = append(e.heard, fmt.Sprintf("finished %d %s %s", endpoint.N, outcome, ended.Format("15:04:05")))
}

func (w *world) heard(what string, e *ear, want ...string) {
	w.Helper()
	if !slices.Equal(e.heard, want) {
		w.Errorf("%s: heard %q, want %q", what, e.heard, want)
	}
	e.heard = nil
}

// An attempt is counted when it is recorded, once, with the time at which it ended; a delivery when it is over.
func TestWhatIsRecordedIsCounted(t *testing.T) {
	t.Parallel()
	status := http.StatusInternalServerError
	w := newWorld(t, func(*http.Request) (*http.Response, error) { return reply(status, nil, "") })
	e := &ear{}
	w.d.deps.Tally = e
	endpoint := w.endpoint()
	w.enqueue(endpoint, `{}`)
	if n := w.claim(w.d); n != 1 {
		t.Fatalf("%d are claimed", n)
	}
	w.d.senders.Wait()
	w.heard("before the record", e)
	w.advance(3 * time.Second)
	w.settle(w.d)
	w.heard("a failure", e, fmt.Sprintf("attempt %d retryable true 12:00:00", endpoint.N))

	status = http.StatusOK
	w.advance(2 * time.Minute)
	w.round(w.d)
	w.heard("a success", e, fmt.Sprintf("attempt %d succeeded true 12:02:03", endpoint.N), fmt.Sprintf("finished %d succeeded 12:02:03", endpoint.N))

	status = http.StatusForbidden
	w.enqueue(endpoint, `{}`)
	w.round(w.d)
	w.heard("failed for good", e, fmt.Sprintf("attempt %d unauthorized true 12:02:03", endpoint.N), fmt.Sprintf("finished %d unauthorized 12:02:03", endpoint.N))
}

// A result that came after its lease is an attempt that was made, and ends nothing. One of which nobody knows what came of it
// is counted by who records that.
func TestLateAndLostAttemptsAreCountedOnce(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := newWorld(t, always(200))
	e, of := &ear{}, &ear{}
	w.d.deps.Tally = e
	endpoint := w.endpoint()
	w.enqueue(endpoint, `{}`)
	late := w.another(g.Do)
	late.deps.Tally = of
	if n, err := late.claimOnce(t.Context(), t.Context(), allShards); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	<-g.arrived
	w.advance(2 * time.Minute)
	for range 2 { // twice the same lost attempt
		if n, err := w.d.rescue(t.Context()); err != nil || n != 1 {
			t.Fatal(n, err)
		}
	}
	first := <-w.d.results
	w.d.flush(t.Context(), []result{first})
	w.heard("lost", e, fmt.Sprintf("attempt %d unknown false 12:02:00", endpoint.N))
	w.settle(w.d)
	w.heard("lost, once more", e)
	g.answer <- http.StatusOK
	w.settle(late)
	w.heard("late", of, fmt.Sprintf("attempt %d succeeded true 12:02:00", endpoint.N))
}

// What cannot be sent at all is no attempt; its delivery is over all the same.
func TestWhatCannotBeSentIsFinishedWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	e := &ear{}
	w.d.deps.Tally = e
	endpoint := w.endpoint()
	w.enqueue(endpoint, `{}`)
	if _, err := w.db.Exec(t.Context(), `DELETE FROM events`); err != nil {
		t.Fatal(err)
	}
	w.round(w.d)
	w.heard("unsendable", e, fmt.Sprintf("finished %d unknown 12:00:00", endpoint.N))
}

func TestOldestDueOfAnEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(500))
	endpoint, other := w.endpoint(), w.endpoint()
	due := func(what string, of id.ID, want string) {
		t.Helper()
		at, err := w.d.deps.Desk.OldestDue(t.Context(), of)
		got := "none"
		if at != nil {
			got = at.UTC().Format("15:04:05")
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", what, got, err, want)
		}
	}
	due("nothing there", endpoint, "none")
	w.enqueue(endpoint, `{}`)
	due("one due now", endpoint, "12:00:00")
	due("not of another", other, "none")
	w.round(w.d)
	due("a retry to come", endpoint, "none")
	w.advance(2 * time.Minute)
	w.enqueue(endpoint, `{}`)
	w.enqueueIn(7, endpoint, `{}`)
	if at, err := w.d.deps.Desk.OldestDue(t.Context(), endpoint); err != nil || at == nil || at.Before(noon.Add(time.Minute)) || at.After(noon.Add(66*time.Second)) {
		t.Errorf("a retry that waits for longer than new ones: %v, %v", at, err)
	}
	if _, err := w.db.Exec(t.Context(), `UPDATE deliveries SET state = 'in_flight', attempts = 1, lease_owner = 1, leased_until = now() WHERE lane = 1`); err != nil {
		t.Fatal(err)
	}
	due("but not one in flight", endpoint, "12:02:00")
}
