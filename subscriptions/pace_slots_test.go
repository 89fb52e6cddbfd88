package subscriptions_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

type slots = subscriptions.SlotWish

const ages = 1000 * time.Hour // to wait for a slot

func TestSlotsBeginWhereTheLastEndedOrNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant, next := w.tenant(), w.tenant()
	a, _ := w.endpoint(tenant, nil)
	b, _ := w.endpoint(next, nil)
	gone, _ := w.endpoint(tenant, nil)
	must(w.DeleteEndpoint(t.Context(), tenant, ref(gone)))(t)
	w.bookPace(b.ID.Shard, change{Endpoint: b.ID.N, Open: true, Until: w.clock.now()}) // it has a row, without a slot
	reserve := func(wishes ...slots) map[id.ID]time.Time {
		t.Helper()
		starts := map[id.ID]time.Time{}
		for e, got := range must(w.ReserveSlots(t.Context(), wishes))(t) {
			starts[e] = got.Start
		}
		return starts
	}
	if got := reserve(); len(got) != 0 {
		t.Errorf("without a wish: %v", got)
	}
	now := w.clock.now()
	got := reserve(slots{a.ID, 3, time.Second, ages}, slots{b.ID, 1, 36 * time.Hour, ages}, slots{gone.ID, 1, time.Second, ages},
		slots{id.ID{Shard: a.ID.Shard, N: 77}, 1, time.Second, ages})
	if len(got) != 2 || !got[a.ID].Equal(now) || !got[b.ID].Equal(now) {
		t.Errorf("the first begin at %v, want now, %v", got, now)
	}
	got = reserve(slots{a.ID, 1, 1500 * time.Nanosecond, ages}, slots{b.ID, 1, 36 * time.Hour, ages})
	if !got[a.ID].Equal(now.Add(3*time.Second)) || !got[b.ID].Equal(now.Add(36*time.Hour)) {
		t.Errorf("the second begin at %v", got)
	}
	// Times are kept to the microsecond, and spans rounded up to it.
	got = reserve(slots{a.ID, 3, 333_333_333, ages})
	if !got[a.ID].Equal(now.Add(3*time.Second + 2*time.Microsecond)) {
		t.Errorf("the third begins at %v", got)
	}
	if at := w.pace(a).NextSlotAt; !at.Equal(now.Add(4*time.Second + 4*time.Microsecond)) {
		t.Errorf("the next slot is at %v", at)
	}
	later := w.clock.advance(time.Minute)
	if got := reserve(slots{a.ID, 1, time.Second, ages}); !got[a.ID].Equal(later) {
		t.Errorf("after a silence it begins at %v, want %v", got, later)
	}
	if got := w.pace(b); got.Breaker != subscriptions.BreakerOpen || got.Trips != 1 || !got.NextSlotAt.Equal(now.Add(72*time.Hour)) {
		t.Errorf("b is %+v", got)
	}
}

// What would begin too late is not taken: whoever asks is told when the next one begins, and nobody has lost it.
func TestSlotsThatBeginTooLateAreNotTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.endpoint(w.tenant(), nil)
	now := w.clock.now()
	for _, step := range []struct {
		n, want int
		start   time.Duration
	}{
		{n: 5, want: 3, start: 0}, // at 0, 1 and 2 s
		{n: 5, want: 0, start: 3 * time.Second},
		{n: 1, want: 0, start: 3 * time.Second},
	} {
		got := must(w.ReserveSlots(t.Context(), []slots{{e.ID, step.n, time.Second, 2 * time.Second}}))(t)[e.ID]
		if got.N != step.want || !got.Start.Equal(now.Add(step.start)) {
			t.Errorf("of %d slots it gives %+v, want %d from %v on", step.n, got, step.want, step.start)
		}
	}
	later := w.clock.advance(2 * time.Second)
	got := must(w.ReserveSlots(t.Context(), []slots{{e.ID, 5, time.Second, 2 * time.Second}}))(t)[e.ID]
	if got.N != 2 || !got.Start.Equal(later.Add(time.Second)) {
		t.Errorf("two seconds later it gives %+v", got)
	}
}

// Two processes reserve at once for the same endpoints, in different order: no slot is given twice, and none is lost.
func TestSlotsOfTwoProcessesNeverOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var endpoints []id.ID
	for range 3 { // tenants, in buckets that come as they may
		tenant := w.tenant()
		for range 2 {
			e, _ := w.endpoint(tenant, nil)
			endpoints = append(endpoints, e.ID)
		}
	}
	const every, workers, rounds = 10 * time.Millisecond, 4, 10
	type span struct {
		start time.Time
		n     int
	}
	var mu sync.Mutex
	given := map[id.ID][]span{}
	now := w.clock.now()
	var all sync.WaitGroup
	for worker := range workers {
		store := []*subscriptions.Store{w.Store, w.under(sealKey)}[worker%2]
		all.Go(func() {
			for round := range rounds {
				var wishes []slots
				for i, e := range endpoints {
					wishes = append(wishes, slots{e, 1 + (round+i+worker)%3, every, ages})
				}
				if worker%2 == 1 {
					slices.Reverse(wishes)
				}
				starts, err := store.ReserveSlots(t.Context(), wishes)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, wish := range wishes {
					given[wish.Endpoint] = append(given[wish.Endpoint], span{starts[wish.Endpoint].Start, starts[wish.Endpoint].N})
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for _, e := range endpoints {
		spans := given[e]
		slices.SortFunc(spans, func(a, b span) int { return a.start.Compare(b.start) })
		at := now
		for i, s := range spans {
			if !s.start.Equal(at) {
				t.Fatalf("reservation %d of %v begins at %v, want %v", i, e, s.start, at)
			}
			at = at.Add(time.Duration(s.n) * every)
		}
		if len(spans) != workers*rounds {
			t.Errorf("%d reservations", len(spans))
		}
	}
}
