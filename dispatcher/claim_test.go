package dispatcher

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
)

// What a claim need not look before is lowered by whatever is noted to be due earlier.
func TestOlderDueTimeLowersWhereAClaimBegins(t *testing.T) {
	t.Parallel()
	r := newRoads()
	key := id.ID{Shard: 1, N: 7}
	from := func() time.Time { return r.byEndpoint[key].lanes[laneFirst].from }
	r.note(key, laneFirst, noon)
	if !from().IsZero() {
		t.Errorf("nothing was claimed, but claims begin at %v", from())
	}
	r.claimed(noon, map[int16][]wish{1: {{endpoint: 7, slots: 1}}}, []claimed{{Shard: 1, EndpointID: 7, DueAt: noon}})
	if want := noon.Add(-late); !from().Equal(want) {
		t.Errorf("claims begin at %v, want %v", from(), want)
	}
	r.claimed(noon, map[int16][]wish{1: {{endpoint: 7, slots: 1}}}, []claimed{{Shard: 1, EndpointID: 7, DueAt: noon.Add(-time.Minute)}})
	if want := noon.Add(-late); !from().Equal(want) {
		t.Errorf("an older one brings it back to %v", from())
	}
	older := noon.Add(-time.Hour)
	r.note(key, laneFirst, older)
	if !from().Equal(older) {
		t.Errorf("claims begin at %v although one is due since %v", from(), older)
	}
	if other := r.byEndpoint[key].lanes[laneRetry].from; !other.IsZero() {
		t.Errorf("another lane's claims begin at %v", other)
	}
	r.forget(key)
	if !from().IsZero() {
		t.Errorf("all is forgotten, but claims begin at %v", from())
	}
}

// A delivery that shows long after its time, committed by a slow transaction or put back by hand, is found by discovery.
func TestDeliveryFromBeforeWhereClaimsBeginIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint := w.endpoint()
	w.enqueue(endpoint, `{}`)
	w.round(w.d)
	if from := w.d.roads.byEndpoint[endpoint].lanes[laneFirst].from; !from.Equal(noon.Add(-late)) {
		t.Fatalf("claims begin at %v", from)
	}
	w.enqueue(endpoint, `{}`) // so that the lane is asked anyhow
	slow := w.enqueueAs(NewDelivery{ID: w.ids.Next(), DueAt: noon.Add(-time.Hour)}, endpoint)
	if n := w.round(w.d); n != 2 || w.get(slow).State != StateSucceeded {
		t.Errorf("%d go out", n)
	}
}

// A retry that comes due is found by the time that its record noted, without a look at the truth.
func TestRetryIsClaimedWithoutDiscovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(500))
	delivery := w.enqueue(w.endpoint(), `{}`)
	w.round(w.d)
	w.d.deps.Doer = always(200)
	next := w.d.roads.next(w.clock())
	if want := w.get(delivery).NextAttemptAt; !next.Equal(*want) {
		t.Fatalf("the next is known to come at %v, want %v", next, want)
	}
	w.advance(next.Sub(w.clock()))
	if n, err := w.d.claimOnce(t.Context(), t.Context(), nil); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	w.settle(w.d)
	if got := w.get(delivery); got.State != StateSucceeded {
		t.Errorf("%+v", got)
	}
}

// With every slot taken nothing is claimed, and what was due goes out when one is free.
func TestNoSlotNoClaim(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := newWorld(t, g.Do)
	w.d.cfg.MaxInFlight = 2
	for range 5 {
		w.enqueue(w.endpoint(), `{}`)
	}
	all := func() (n int) {
		t.Helper()
		for got := w.claim(w.d); got > 0; got = w.claim(w.d) {
			n += got
		}
		return n
	}
	for _, want := range []int{2, 2, 1} {
		if n := all(); n != want {
			t.Fatalf("%d are claimed, want %d", n, want)
		}
		for range want {
			g.answer <- 200
		}
		w.settle(w.d)
	}
}
