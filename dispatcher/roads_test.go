package dispatcher

import (
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
)

func endpointNumbers(due []dueRoad) []int64 {
	out := make([]int64, len(due))
	for i, r := range due {
		out[i] = r.endpoint.N
	}
	return out
}

// all gives the roads that something is due on, in turn.
func (r *roads) all(now time.Time) []dueRoad {
	first, n := r.begin()
	out, _ := r.due(now, first, n, n, n)
	return out
}

func TestLanesTakeTurnsFromBehindTheLastOne(t *testing.T) {
	t.Parallel()
	r := newRoads()
	for n := range int64(4) {
		r.note(id.ID{Shard: int16(n % 2), N: n + 1}, laneFirst, noon) // buckets 0, 1, 0, 1
	}
	if got := endpointNumbers(r.all(noon)); !slices.Equal(got, []int64{1, 3, 2, 4}) {
		t.Fatalf("first round: %v", got)
	}
	r.turn = id.ID{Shard: 0, N: 3}
	if got := endpointNumbers(r.all(noon)); !slices.Equal(got, []int64{2, 4, 1, 3}) {
		t.Errorf("next round: %v", got)
	}
}

func TestLaneCountsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	r := newRoads()
	key := id.ID{Shard: 1, N: 7}
	r.note(key, laneFirst, noon)
	r.claimed(noon, map[int16][]wish{1: {{endpoint: 7, slots: 2}}}, []claimed{{Shard: 1, EndpointID: 7}, {Shard: 1, EndpointID: 7}})
	if got := r.all(noon); len(got) != 1 || got[0].inFlight != 2 {
		t.Errorf("two in flight and more due: %v", got)
	}
	r.left(claimed{Shard: 1, EndpointID: 7}, steady, false, 10, noon, noon)
	if got := r.all(noon); len(got) != 1 || got[0].inFlight != 1 {
		t.Errorf("one in flight: %v", got)
	}
}

func TestLaneThatGaveLessThanAskedIsDry(t *testing.T) {
	t.Parallel()
	r := newRoads()
	key := id.ID{Shard: 1, N: 7}
	r.note(key, laneFirst, noon)
	r.claimed(noon, map[int16][]wish{1: {{endpoint: 7, slots: 2}}}, []claimed{{Shard: 1, EndpointID: 7}})
	if got := r.all(noon.Add(time.Hour)); len(got) != 0 {
		t.Errorf("dry, but due: %v", got)
	}
	r.left(claimed{Shard: 1, EndpointID: 7}, steady, false, 10, noon, noon)
	r.sweep(noon.Add(forgetAfter))
	if len(r.byEndpoint) != 1 {
		t.Error("what an endpoint's answers have taught is forgotten at once")
	}
	r.sweep(noon.Add(forgetAfter + 1))
	if len(r.byEndpoint)+len(r.inOrder)+len(r.tenants) != 0 {
		t.Errorf("an idle road stays in memory: %v, %v, %v", r.byEndpoint, r.inOrder, r.tenants)
	}
}

func TestLaneKeepsWhatIsDueLater(t *testing.T) {
	t.Parallel()
	r := newRoads()
	key := id.ID{Shard: 1, N: 7}
	later, last := noon.Add(time.Minute), noon.Add(time.Hour)
	r.note(key, laneFirst, last)
	r.note(key, laneFirst, noon)
	r.note(key, laneFirst, later) // noted while a claim is on its way
	if got := r.next(noon); !got.Equal(later) {
		t.Errorf("next is %v", got)
	}
	r.claimed(noon, map[int16][]wish{1: {{endpoint: 7, slots: 2}}}, []claimed{{Shard: 1, EndpointID: 7}})
	r.left(claimed{Shard: 1, EndpointID: 7}, steady, false, 10, noon, noon)
	if got := r.all(noon); len(got) != 0 {
		t.Errorf("dry, but due: %v", got)
	}
	if got := endpointNumbers(r.all(later)); !slices.Equal(got, []int64{7}) {
		t.Errorf("what was noted for later is lost: %v", got)
	}
	r.forget(key)
	if got := r.all(last); len(got) != 0 {
		t.Errorf("forgotten, but due: %v", got)
	}
}

// A round that looks at a few roads at a time looks at each once, also when others are noted meanwhile.
func TestRoundLooksAtEachRoadOnce(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 2, 3, 7, 100} {
		r := newRoads()
		for n := range int64(7) {
			r.note(id.ID{Shard: 1, N: 2 * (n + 1)}, laneFirst, noon.Add(time.Duration(n%2)*time.Hour)) // every other is due later
		}
		r.turn = id.ID{Shard: 1, N: 7}
		var got []int64
		pages := 0
		at, of := r.begin()
		for left := of; left > 0; pages++ {
			page, looked := r.due(noon, at, left, of, most)
			if looked == 0 || len(page) > most {
				t.Fatalf("%d at a time: %d looked at, %d given", most, looked, len(page))
			}
			at, left = at+looked, left-looked
			got = append(got, endpointNumbers(page)...)
		}
		if !slices.Equal(got, []int64{10, 14, 2, 6}) {
			t.Errorf("%d at a time: %v", most, got)
		}
	}
	r := newRoads()
	if at, left := r.begin(); left != 0 {
		t.Errorf("with no road at all a round looks at %d from %d", left, at)
	}
}

// What is noted while a claim is on its way is not taken for what the claim did not find.
func TestNoteDuringAClaimIsKept(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]lane{"first": laneFirst, "retry": laneRetry, "groups": laneOrdered} {
		r := newRoads()
		key := id.ID{Shard: 1, N: 7}
		r.note(key, in, noon.Add(-time.Second))
		now := noon // of the claim
		r.note(key, in, noon.Add(time.Millisecond))
		r.note(key, in, noon.Add(time.Hour))
		r.claimed(now, map[int16][]wish{1: {{endpoint: 7, lane: in, slots: 5}}}, nil)
		if in == laneOrdered {
			r.walked(now, key, 0, 5, true)
		}
		if got := r.all(noon); len(got) != 0 {
			t.Errorf("%s: nothing was found, but %v is due", name, got)
		}
		if got := r.all(noon.Add(time.Millisecond)); len(got) != 1 || !got[0].due[in] {
			t.Errorf("%s: what was noted meanwhile is lost: %v", name, got)
		}
	}
}

// A walk over groups goes on behind the last one, and begins anew when it has found any; one that has found none is over.
func TestWalkGoesOnUntilItFindsNone(t *testing.T) {
	t.Parallel()
	r := newRoads()
	key := id.ID{Shard: 1, N: 7}
	r.note(key, laneOrdered, noon)
	for i, step := range []struct {
		got   int
		group int64
		whole bool
		want  int64 // where it goes on
		due   bool
	}{
		{0, -9, false, -9, true}, {3, 4, false, 4, true}, {0, 4, true, firstGroup, true}, // a walk that found three
		{0, 2, false, 2, true}, {0, 4, true, firstGroup, false}, // one that found none
	} {
		r.walked(noon, key, step.got, step.group, step.whole)
		hint := r.byEndpoint[key].lanes[laneOrdered]
		if hint.group != step.want || hint.due(noon) != step.due {
			t.Errorf("after step %d: on from %d, due %v", i, hint.group, hint.due(noon))
		}
	}
}

// A road that is held is looked at again within a second, at its end if that is sooner, and begins with a window of one.
func TestHeldRoadIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	key := id.ID{Shard: 1, N: 7}
	for _, c := range []struct{ until, want time.Duration }{{time.Hour, targetsMaxAge}, {time.Millisecond, time.Millisecond}} {
		r := newRoads()
		r.note(key, laneFirst, noon)
		r.hold(key, noon.Add(c.until), noon)
		if got := r.all(noon.Add(c.want - 1)); len(got) != 0 {
			t.Errorf("held for %v: due before its time", c.until)
		}
		if got := r.next(noon); !got.Equal(noon.Add(c.want)) {
			t.Errorf("held for %v: looked at %v", c.until, got.Sub(noon))
		}
		if got := r.all(noon.Add(c.want)); len(got) != 1 || !got[0].held {
			t.Errorf("held for %v: %v", c.until, got)
		}
		for range 2 { // the second time it was not held any more
			if got := r.resume(key); got != 1 {
				t.Errorf("it begins with a window of %d", got)
			}
		}
	}
	r := newRoads()
	r.note(key, laneFirst, noon)
	r.hold(key, noon.Add(time.Hour), noon)
	r.reopen(key)
	if got := r.all(noon); len(got) != 1 {
		t.Error("its endpoint was changed, but it is left alone")
	}
	if got := r.resume(id.ID{Shard: 1, N: 8}); got != startWindow {
		t.Errorf("one that was not held begins with %d", got)
	}
}

// Slots in flight are counted by endpoint, by tenant and, of retries, all together, and all come back.
func TestCountsComeBack(t *testing.T) {
	t.Parallel()
	r := newRoads()
	got := []claimed{
		{Shard: 1, EndpointID: 7, TenantID: 1},
		{Shard: 1, EndpointID: 7, TenantID: 1, Failures: 2},
		{Shard: 2, EndpointID: 7, TenantID: 2, Group: 5, Failures: 2},
	}
	r.claimed(noon, map[int16][]wish{1: {{endpoint: 7, slots: 2}}, 2: {{endpoint: 7, lane: laneOrdered, slots: 1}}}, got)
	if r.retries != 1 || r.tenants[1] != 2 || r.tenants[2] != 1 {
		t.Errorf("%d retries, tenants %v", r.retries, r.tenants)
	}
	for _, c := range got {
		r.left(c, steady, false, 10, noon, noon)
	}
	if r.retries != 0 || len(r.tenants) != 0 {
		t.Errorf("in the end %d retries, tenants %v", r.retries, r.tenants)
	}
	for _, known := range r.inOrder {
		if known.inFlight != 0 {
			t.Errorf("%v: %d in flight", known.endpoint, known.inFlight)
		}
	}
}

// What a look has found is older than what has been noted meanwhile: the one that came in between is not passed over.
func TestALookHidesNothingThatWasJustNoted(t *testing.T) {
	t.Parallel()
	r := newRoads()
	key := id.ID{Shard: 1, N: 7}
	r.note(key, laneFirst, noon)
	r.found(key, laneFirst, noon.Add(24*time.Hour))
	if from := r.byEndpoint[key].lanes[laneFirst].from; from.After(noon) {
		t.Errorf("a claim would look no further back than %v", from)
	}
	r.found(key, laneRetry, noon)
	if from := r.byEndpoint[key].lanes[laneRetry].from; !from.Equal(noon.Add(-late)) {
		t.Errorf("a claim reads again what the look has read: from %v", from)
	}
}

func TestAFreedSlotThatSomethingWaitsForIsNews(t *testing.T) {
	t.Parallel()
	r := newRoads()
	c := claimed{Shard: 1, EndpointID: 7}
	key := c.endpoint()
	r.note(key, laneFirst, noon)
	r.claimed(noon, map[int16][]wish{1: {{endpoint: 7, slots: 2}}}, []claimed{c, c})
	r.note(key, laneFirst, noon)
	for n, want := range []bool{true, false} { // full with two of two; then there was room before
		r.left(c, steady, false, 2, noon, noon)
		if got := r.waits(key, 2, noon); got != want {
			t.Errorf("slot %d: %v", n, got)
		}
	}
	if r.waits(key, 1, noon.Add(-time.Hour)) || r.waits(id.ID{Shard: 1, N: 8}, 1, noon) {
		t.Error("what is not due waits for no slot")
	}
}
