package subscriptions_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

func TestOneOfManyTakesTheProbe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.endpoint(w.tenant(), nil)
	stores := []*subscriptions.Store{w.Store, w.under(sealKey)}
	until := w.clock.now().Add(time.Hour)
	// take lets many try at once, and gives how many did.
	take := func(endpoint id.ID) int {
		t.Helper()
		type result struct {
			took bool
			err  error
		}
		results := make(chan result, 16)
		for i := range cap(results) {
			go func() {
				took, err := stores[i%2].TakeProbe(t.Context(), endpoint, until)
				results <- result{took, err}
			}()
		}
		n := 0
		for range cap(results) {
			r := <-results
			if r.err != nil {
				t.Error(r.err)
			}
			if r.took {
				n++
			}
		}
		return n
	}
	if n := take(e.ID); n != 0 {
		t.Errorf("%d probe a breaker that never opened", n)
	}
	opened := w.clock.now()
	w.bookPace(e.ID.Shard, change{Endpoint: e.ID.N, Open: true, Until: opened.Add(time.Second)})
	w.clock.advance(time.Second - time.Microsecond)
	if n := take(e.ID); n != 0 {
		t.Errorf("%d probe too early", n)
	}
	w.clock.advance(time.Microsecond)
	if n := take(id.ID{Shard: (e.ID.Shard + 1) % id.Buckets, N: e.ID.N}); n != 0 {
		t.Errorf("%d probe in another bucket", n)
	}
	if n := take(e.ID); n != 1 {
		t.Errorf("%d took the turn", n)
	}
	half := w.clock.now()
	if got := w.pace(e); got.Breaker != subscriptions.BreakerHalfOpen || !got.BreakerUntil.Equal(until) || got.Trips != 1 {
		t.Errorf("it is %+v", got)
	}
	// The prober died: its turn ends.
	w.clock.advance(time.Hour)
	until = w.clock.now().Add(time.Hour)
	if n := take(e.ID); n != 1 {
		t.Errorf("%d took the turn of a dead one", n)
	}
	if since := must(w.EndpointByID(t.Context(), e.ID))(t).Pace.Since; since == nil || !since.Equal(half) {
		t.Errorf("it is half-open since %v, want %v", since, half)
	}
	w.clock.advance(time.Hour)
	w.bookPace(e.ID.Shard, change{Endpoint: e.ID.N, Close: true})
	if n := take(e.ID); n != 0 {
		t.Errorf("%d probe a closed breaker", n)
	}
}
