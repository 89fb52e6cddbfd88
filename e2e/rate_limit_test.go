package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// A rate limit spaces what comes at once, drops nothing, and is counted over all requests; changed or taken away, what is
// left follows the change.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	h := entertain(t, func(visit) verdict { return says(200) })
	p := serve(t, nil)
	tenant := p.tenant()
	p.on(tenant, h, "/even", object{"rate_limit": object{"limit": 20, "per": "1s"}})
	changed := p.on(tenant, h, "/changed", object{"rate_limit": object{"limit": 1, "per": "10m"}})
	freed := p.on(tenant, h, "/freed", object{"rate_limit": object{"limit": 1, "per": "10m"}})

	begun := time.Now()
	p.batch(tenant, append(append(many("even", 60), many("changed", 30)...), many("freed", 300)...))
	h.awaitServed(t, "/changed", 1)
	h.awaitServed(t, "/freed", 1)
	before := h.came("/changed") + h.came("/freed")
	if before != 2 {
		t.Errorf("%d requests at two endpoints that take one in ten minutes each", before)
	}
	h.awaitServed(t, "/even", 60) // before there is a rush, which might make some of them late
	patched := time.Now()
	p.want(http.StatusOK, http.MethodPatch, changed, object{"rate_limit": object{"limit": 30, "per": "1s"}})
	p.want(http.StatusOK, http.MethodPatch, freed, object{"rate_limit": nil})

	h.awaitServed(t, "/freed", 300)
	h.awaitServed(t, "/changed", 30)
	even(t, h.visits("/even"), begun, 20)
	even(t, h.visits("/changed")[1:], patched, 30)
	for _, path := range []string{"/even", "/changed", "/freed"} {
		h.once(t, path)
	}
	took := h.visits("/even")[59].begun.Sub(begun)
	t.Logf("60 at 20 a second took %v, at most %d in a second; 299 without a limit %v", took, most(h.visits("/even"), time.Second),
		h.visits("/freed")[299].begun.Sub(patched))
	if took < 2900*time.Millisecond {
		t.Errorf("60 at 20 a second took %v", took)
	}
}

// even checks that visits came at no more than so many a second. What is late on its way may meet what is on time, so the
// count in a window of a second is given some slack; what was sent too early no slow machine explains: that is exact.
func even(t *testing.T, all []visit, begun time.Time, perSecond int) {
	t.Helper()
	every := time.Second / time.Duration(perSecond)
	for i, v := range all {
		if soonest := begun.Add(time.Duration(i) * every); v.begun.Before(soonest) {
			t.Errorf("request %d of %d came %v too early", i+1, len(all), soonest.Sub(v.begun))
		}
	}
	const lateness = 300 * time.Millisecond
	if n := most(all, time.Second-lateness); n > perSecond {
		t.Errorf("%d requests came in %v, %d may in a second", n, time.Second-lateness, perSecond)
	}
}

// most is the largest number of visits in any window of that length.
func most(all []visit, window time.Duration) (n int) {
	from := 0
	for i, v := range all {
		for v.begun.Sub(all[from].begun) >= window {
			from++
		}
		n = max(n, i-from+1)
	}
	return n
}

// Two processes keep one rate limit together, and both do their part; both hear that it was taken away.
func TestRateLimitOfTwoProcesses(t *testing.T) {
	t.Parallel()
	h := entertain(t, func(visit) verdict { return says(200) })
	p := serve(t, nil)
	q := serve(t, nil) // the same test, so the same database
	tenant := p.tenant()
	p.on(tenant, h, "/even", object{"rate_limit": object{"limit": 20, "per": "1s"}})
	freed := map[string]string{}
	for i := range 4 {
		path := fmt.Sprint("/freed", i)
		freed[path] = p.on(tenant, h, path, object{
			"event_types": []string{"freed"}, "rate_limit": object{"limit": 1, "per": "10m"},
		})
	}
	begun := time.Now()
	p.batch(tenant, many("freed", 5))
	q.batch(tenant, many("freed", 5))
	p.batch(tenant, many("even", 30))
	q.batch(tenant, many("even", 30))
	h.awaitServed(t, "/even", 60)
	even(t, h.visits("/even"), begun, 20)
	h.once(t, "/even")
	if took := h.visits("/even")[59].begun.Sub(begun); took < 2900*time.Millisecond {
		t.Errorf("60 at 20 a second took %v", took)
	}
	mine, others := p.attempted(), q.attempted()
	t.Logf("one process made %d attempts, the other %d; at most %d in a second", mine, others, most(h.visits("/even"), time.Second))
	if mine == 0 || others == 0 {
		t.Errorf("one process made %d attempts, the other %d: both should take part", mine, others)
	}

	for path, endpoint := range freed {
		if n := h.came(path); n > 1 {
			t.Errorf("%s: %d requests at an endpoint that takes one in ten minutes", path, n)
		}
		p.want(http.StatusOK, http.MethodPatch, endpoint, object{"rate_limit": nil})
	}
	for path := range freed {
		h.awaitServed(t, path, 10)
		h.once(t, path)
	}
}
