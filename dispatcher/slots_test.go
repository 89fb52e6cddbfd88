package dispatcher

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// limited makes an endpoint with a rate limit.
func (w *world) limited(limit int, per time.Duration) id.ID {
	w.Helper()
	e, _, err := w.store.CreateEndpoint(w.Context(), w.tenant, subscriptions.NewEndpoint{
		URL: "https://receiver.test/hook", RateLimit: &subscriptions.RateLimit{Limit: limit, Per: per},
	})
	if err != nil {
		w.Fatal(err)
	}
	return e.ID
}

// lease claims as a round does, up to having the slots, and gives what it has.
func (w *world) lease(d *Dispatcher) []claimed {
	w.Helper()
	if err := d.discover(w.Context(), allShards); err != nil {
		w.Fatal(err)
	}
	p, err := d.plan(w.Context(), 50, 100)
	if err != nil {
		w.Fatal(err)
	}
	got, err := d.claim(w.Context(), p.wishes)
	if err != nil {
		w.Fatal(err)
	}
	d.roads.claimed(w.clock(), p.wishes, got)
	d.takeSlots(w.Context(), p, got, w.clock())
	slices.SortFunc(got, func(a, b claimed) int { return a.slotAt.Compare(b.slotAt) })
	return got
}

// What is claimed for an endpoint with a rate limit gets slots that are evenly spaced, the oldest the first, and no more is
// claimed than has a slot soon.
func TestSlotsAreSpaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint := w.limited(50, time.Second) // one each 20.2 ms: at 0, 20.2, 40.4, 60.6 and 80.8
	var want []int64
	for range 8 {
		want = append(want, w.enqueue(endpoint, `{}`).N)
	}
	every := spacing(subscriptions.RateLimit{Limit: 50, Per: time.Second})
	got := w.lease(w.d)
	if len(got) != 5 {
		t.Fatalf("%d are claimed, want as many as have slots within %v", len(got), slotHorizon)
	}
	for i, c := range got {
		if c.ID != want[i] {
			t.Errorf("slot %d is not the oldest's", i)
		}
		if i > 0 && c.slotAt.Sub(got[i-1].slotAt) != every {
			t.Errorf("slots %d and %d are %v apart, want %v", i-1, i, c.slotAt.Sub(got[i-1].slotAt), every)
		}
	}
	if n := len(w.lease(w.d)); n != 0 {
		t.Errorf("%d more are claimed at once", n)
	}
	w.advance(every)
	if n := len(w.lease(w.d)); n != 1 {
		t.Errorf("%d are claimed one slot later", n)
	}
}

// Two processes take slots from one row: none is given twice.
func TestSlotsOfTwoDispatchersDoNotOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint := w.limited(50, time.Second)
	for range 9 {
		w.enqueue(endpoint, `{}`)
	}
	other := w.another(always(200))
	if _, err := other.targets.fresh(t.Context(), []id.ID{endpoint}); err != nil { // as it was before
		t.Fatal(err)
	}
	began := time.Now()
	got := w.lease(w.d)
	got = append(got, w.lease(other)...)
	took := time.Since(began) // what each had of it is not known to the slots: they are reckoned from the same standing clock
	if len(got) != 9 {
		t.Fatalf("%d are claimed", len(got))
	}
	every := spacing(subscriptions.RateLimit{Limit: 50, Per: time.Second})
	for i := 1; i < len(got); i++ {
		if apart := got[i].slotAt.Sub(got[i-1].slotAt); apart < every-took || apart > every+took {
			t.Errorf("slots %d and %d are %v apart", i-1, i, apart)
		}
	}
	var next time.Time
	if err := w.db.QueryRow(t.Context(), `SELECT next_slot_at FROM endpoint_pace`).Scan(&next); err != nil {
		t.Fatal(err)
	}
	if want := w.clock().Add(9 * every); next.Sub(want).Abs() > 2*time.Microsecond {
		t.Errorf("the next slot is at %v, want %v", next, want)
	}
}

// How long a claim takes does not move slots: what is claimed in two rounds is as far apart as within one.
func TestSlotsDoNotMoveWithTheTimeThatAClaimTakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint := w.limited(1000, time.Second)
	w.enqueue(endpoint, `{}`)
	w.d.roads.note(endpoint, laneFirst, w.clock())
	p, err := w.d.plan(t.Context(), 1, 10)
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.d.claim(t.Context(), p.wishes)
	if err != nil {
		t.Fatal(err)
	}
	began := w.clock()
	w.advance(50 * time.Millisecond) // the claim took that long
	w.d.takeSlots(t.Context(), p, got, began)
	if wait := time.Until(got[0].slotAt); wait > 25*time.Millisecond {
		t.Errorf("a slot that is free at once is waited for: %v", wait)
	}
}

// A slot too far off, because other processes took those before it, puts the delivery back until then: no attempt is made of
// it, and nobody is blamed.
func TestSlotTooFarOffPutsTheDeliveryBack(t *testing.T) {
	t.Parallel()
	posted := 0
	w := newWorld(t, always(200))
	endpoint := w.limited(1, time.Hour)
	w.enqueue(endpoint, `{}`)
	if n := w.round(w.d); n != 1 {
		t.Fatal(n)
	}
	second := w.enqueue(endpoint, `{}`)
	late := w.another(func(*http.Request) (*http.Response, error) { posted++; return reply(200, nil, "") })
	late.targets.known[endpoint] = knownTarget{w.stale(endpoint), time.Now()} // from before the slot was taken
	if n := w.round(late); n != 1 || posted != 0 {
		t.Fatalf("%d claimed, %d posted", n, posted)
	}
	got := w.get(second)
	if got.State != Pending || got.Attempts != 0 || got.NextAttemptAt.Sub(w.clock()) > time.Second {
		t.Errorf("put back: %+v", got)
	}
	if n := w.count(`SELECT count(*) FROM attempts`); n != 1 {
		t.Errorf("history has %d attempts", n)
	}
	if n := w.count(`SELECT consecutive_failures FROM endpoints`); n != 0 {
		t.Errorf("%d failures", n)
	}
	if late.inFlight.Load() != 0 {
		t.Error("its slot in flight is lost")
	}
}

// What is put back because its slot is too far off does not use that slot up: it goes out when the next one is free.
func TestSlotThatIsTooFarOffIsNotUsedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint := w.limited(1, time.Hour)
	w.enqueue(endpoint, `{}`)
	w.round(w.d)
	second := w.enqueue(endpoint, `{}`)
	late := w.another(always(200))
	late.targets.known[endpoint] = knownTarget{w.stale(endpoint), time.Now()} // from before the slot was taken
	w.round(late)
	w.advance(spacing(subscriptions.RateLimit{Limit: 1, Per: time.Hour}) + time.Minute)
	if n := w.look(w.d, endpoint); n != 1 || w.get(second).State != StateSucceeded {
		t.Errorf("%d go out an hour after the first: the next slot is yet another hour later", n)
	}
}

// stale is an endpoint as it was before any slot was taken.
func (w *world) stale(endpoint id.ID) *subscriptions.Target {
	w.Helper()
	all, err := w.store.Targets(w.Context(), []id.ID{endpoint})
	if err != nil {
		w.Fatal(err)
	}
	target := all[endpoint]
	target.NextSlotAt = time.Time{}
	return &target
}

func TestAwaitSlot(t *testing.T) {
	t.Parallel()
	d := &Dispatcher{}
	now := time.Now()
	for name, at := range map[string]time.Time{"none": {}, "past": now.Add(-time.Second), "soon": now.Add(time.Millisecond)} {
		if err := d.awaitSlot(t.Context(), claimed{slotAt: at}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := d.awaitSlot(t.Context(), claimed{slotAt: now.Add(time.Hour), slotless: true})
	if !errors.Is(err, errNoSlot) {
		t.Errorf("far off: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := d.awaitSlot(stopped, claimed{slotAt: now.Add(slotPatience - 100*time.Millisecond)}); !errors.Is(err, context.Canceled) {
		t.Errorf("while we stop: %v", err)
	}
}

// Another process may have changed the limit: what this one knows of slots of the former says nothing about the new.
func TestSlotsOfAFormerLimitAreForgotten(t *testing.T) {
	t.Parallel()
	d := &Dispatcher{roads: newRoads()}
	slow, fast := subscriptions.RateLimit{Limit: 1, Per: 24 * time.Hour}, subscriptions.RateLimit{Limit: 100, Per: time.Second}
	key := id.ID{Shard: 1, N: 7}
	d.roads.note(key, laneFirst, noon)
	d.roads.slotsTaken(key, slow, noon.Add(24*time.Hour))
	r := d.roads.all(noon)[0]
	if n := d.slotsAhead(r, &subscriptions.Target{RateLimit: slow}, noon); n != 0 {
		t.Errorf("%d slots of the slow limit", n)
	}
	if n := d.slotsAhead(r, &subscriptions.Target{RateLimit: fast}, noon); n < 5 {
		t.Errorf("%d slots of the fast limit", n)
	}
}
