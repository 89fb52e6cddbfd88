package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// breakerOf gives the state of an endpoint's breaker, and not before when it is probed.
func (p *process) breakerOf(endpoint string) (state string, probe time.Time) {
	p.t.Helper()
	b := p.get(endpoint).object("breaker")
	return b.text("state"), b.stamp(p.t, "next_probe_at")
}

// A receiver that is not well, in one way or another: ten failures in a row open its endpoint's breaker, which stops all
// but single probes, further and further apart. A restart changes nothing about that. A probe that finds it well lets
// everything go again, at a pace that grows from one at a time.
func TestBreaker(t *testing.T) {
	t.Parallel()
	const events = 400
	well := newGate(t)
	paths := []string{"/503", "/reset"}
	h := entertain(t, func(v visit) verdict {
		switch {
		case well.isOpen():
			<-time.After(20 * time.Millisecond) // long enough for visits to meet
			return says(200)
		case v.path == "/503":
			<-time.After(10 * time.Millisecond)
			return says(503)
		}
		<-time.After(10 * time.Millisecond)
		return verdict{}
	})
	p := start(t, nil)
	tenant := p.tenant()
	endpoints := map[string]string{}
	for _, path := range paths {
		endpoints[path] = p.on(tenant, h, path, object{
			"retry_schedule": slices.Repeat([]string{"100ms"}, 8), // the breaker cools down as long as the first, and then longer
		})
		p.batch(tenant, many(path[1:], events))
	}
	opened := map[string]int{} // how many requests had come by then
	for _, path := range paths {
		eventually(t, func() string {
			if state, _ := p.breakerOf(endpoints[path]); state == "closed" {
				return fmt.Sprintf("%s: the breaker is %s after %d requests", path, state, h.came(path))
			}
			return ""
		})
		opened[path] = h.came(path)
		if opened[path] < 10 || opened[path] > events/2 {
			t.Errorf("%s: the breaker opened after %d requests of %d", path, opened[path], events)
		}
	}
	for _, path := range paths {
		h.awaitVisits(t, path, opened[path]+2)
	}
	p.stop() // what was on its way has ended
	before := map[string]int{}
	for _, path := range paths {
		before[path] = h.came(path)
		single(t, h.visits(path), opened[path])
	}

	again := serve(t, nil)
	for _, path := range paths {
		if state, _ := again.breakerOf(endpoints[path]); state == "closed" {
			t.Errorf("%s: after the restart the breaker is %s", path, state)
		}
	}
	for _, path := range paths {
		h.awaitVisits(t, path, before[path]+2)
	}
	well.open()
	for _, path := range paths {
		eventually(t, func() string {
			if state, _ := again.breakerOf(endpoints[path]); state != "closed" {
				return fmt.Sprintf("%s: the breaker is %s though the receiver is well", path, state)
			}
			return ""
		})
		h.awaitServed(t, path, events)
		all := h.visits(path)
		healed := slices.IndexFunc(all, func(v visit) bool { return v.status == 200 })
		single(t, all[:healed+1], opened[path])
		t.Logf("%s: opened after %d requests, %d probes", path, opened[path], healed+1-opened[path])
		growing(t, all[healed:], healed)
	}
}

// single checks visits to an endpoint whose breaker was found open after so many of them: those that had been on their way
// aside, each is alone, and comes longer and longer after the one before. (The waits double from 100ms up to 1.2s. They are
// taken for half as long here, since one that was late on its way may be taken for the first probe.)
func single(t *testing.T, all []visit, opened int) {
	t.Helper()
	const first, longest = 100 * time.Millisecond, 1200 * time.Millisecond
	const straying = 16 // as many as may have been in flight
	from := min(opened, len(all))
	for from < min(len(all), opened+straying) && all[from].begun.Sub(all[from-1].ended) < first {
		from++
	}
	for i, n := from, 0; i < len(all); i, n = i+1, n+1 {
		least := max(first, min(first<<min(n, 10), longest)/2)
		if wait := all[i].begun.Sub(all[i-1].ended); all[i].beside > 1 || wait < least {
			t.Errorf("%s: probe %d came %v after the one before, which is too soon, or beside %d others",
				all[i].path, n+1, wait, all[i].beside-1)
		}
	}
}

// One delivery that fails keeps its own schedule, however many attempts that has: it says nothing about its endpoint.
func TestOneFailingDeliveryOpensNoBreaker(t *testing.T) {
	t.Parallel()
	h := entertain(t, func(visit) verdict { return says(503) })
	p := serve(t, nil)
	tenant := p.tenant()
	schedule := map[string][]string{
		"/five":   {"100ms", "100ms", "200ms", "300ms", "400ms"},
		"/twelve": slices.Repeat([]string{"100ms"}, 12),
	}
	ids := map[string]string{}
	endpoints := map[string]string{}
	for path, delays := range schedule {
		endpoints[path] = p.on(tenant, h, path, object{"retry_schedule": delays})
		ids[path] = p.send(tenant, path[1:], "fails")
	}
	for path, delays := range schedule {
		p.await(ids[path], "failed")
		all := h.visits(path)
		if len(all) != len(delays)+1 {
			t.Errorf("%s: %d requests for %d delays", path, len(all), len(delays))
			continue
		}
		for i, delay := range delays {
			want, err := time.ParseDuration(delay)
			if err != nil {
				t.Fatal(err)
			}
			// Of a longer wait only much more is for sure no slow machine's.
			if wait := all[i+1].begun.Sub(all[i].ended); wait < want || wait > want+want/10+time.Second {
				t.Errorf("%s: attempt %d came %v after the one before, want %v", path, i+2, wait, want)
			}
		}
		if b := p.get(endpoints[path]).object("breaker"); b.text("state") != "closed" || b["since"] != nil {
			t.Errorf("%s: the breaker has been opened: %s", path, sprint(b))
		}
	}
}

// The owner who says that an endpoint is well need not wait for a probe.
func TestOwnerClosesTheBreaker(t *testing.T) {
	t.Parallel()
	well := newGate(t)
	h := entertain(t, func(visit) verdict {
		if well.isOpen() {
			return says(200)
		}
		return says(500)
	})
	p := serve(t, nil)
	tenant := p.tenant()
	e := p.on(tenant, h, "/a", object{"retry_schedule": []string{"1h"}}) // so the breaker cools down as long as it may
	p.batch(tenant, many("a", 60))
	var probe time.Time
	eventually(t, func() string {
		state, at := p.breakerOf(e)
		if state != "open" {
			return "the breaker is " + state
		}
		probe = at
		return ""
	})
	well.open()
	if b := p.want(http.StatusOK, http.MethodPatch, e, object{"status": "enabled"}).object("breaker"); b.text("state") != "closed" {
		t.Errorf("after the owner's word it is %s", sprint(b))
	}
	p.send(tenant, "a", "last")
	h.awaitServed(t, "/a", 1)
	all := h.visits("/a")
	first := slices.IndexFunc(all, func(v visit) bool { return v.status == 200 })
	if at := all[first].begun; !at.Before(probe) {
		t.Errorf("the first request came at %v, when the breaker would have been probed at %v anyway", at, probe)
	}
}
