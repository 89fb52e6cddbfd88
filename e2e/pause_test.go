package e2e

import (
	"fmt"
	"testing"
	"time"
)

// Retry-After in a 429 or a 503 is about the endpoint: nothing is sent to it before. In a 500 it is about that delivery
// alone, and what is no time in the future is about nothing. Other endpoints go on.
func TestRetryAfterPausesTheEndpoint(t *testing.T) {
	t.Parallel()
	const pause = 3 * time.Second
	answers := map[string]verdict{ // to the first request on a path
		"/429":      says(429, "Retry-After: 3"),
		"/503":      says(503, "Retry-After: 3"),
		"/date":     {}, // filled in below
		"/500":      says(500, "Retry-After: 3"),
		"/garbage":  says(429, "Retry-After: soon"),
		"/negative": says(503, "Retry-After: -5"),
		"/past":     says(429, "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT"),
		"/well":     says(200),
	}
	h := entertain(t, func(v visit) verdict {
		if v.path == "/date" && v.nth == 1 {
			// An HTTP date has whole seconds: four from now are more than three.
			return says(503, "Retry-After: "+v.begun.Add(pause+time.Second).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"))
		}
		if v.nth == 1 {
			return answers[v.path]
		}
		if v.path == "/429" {
			<-time.After(20 * time.Millisecond) // long enough for visits to meet
		}
		return says(200)
	})
	p := serve(t, nil)
	tenant := p.tenant()
	paths := map[string]string{}
	for path := range answers {
		paths[path] = p.on(tenant, h, path, object{"retry_schedule": []string{"100ms", "100ms", "100ms"}})
	}
	ids := map[string]string{}
	for path := range answers {
		ids[path] = p.send(tenant, path[1:], "first")
	}
	pausing := []string{"/429", "/503", "/date"}
	for _, path := range pausing {
		eventually(t, func() string {
			e := p.get(paths[path])
			until := e.stamp(t, "paused_until")
			if until.IsZero() {
				return fmt.Sprintf("%s does not show as paused: %s", path, sprint(e))
			}
			// Shown in whole milliseconds.
			if told := h.first(t, path, "first").begun; until.Before(told.Add(pause - time.Millisecond)) {
				t.Errorf("%s: paused until %v, told at %v", path, until, told)
			}
			return ""
		})
	}
	h.awaitVisits(t, "/500", 1)
	eventually(t, func() string {
		if d := p.deliveries(ids["/500"])[0]; d.number("attempts") != 1 || d.text("state") != "pending" {
			return "the first attempt is not recorded: " + sprint(d)
		}
		return ""
	})
	for path := range answers {
		p.send(tenant, path[1:], "second")
	}
	p.batch(tenant, many("429", 100))
	for path := range answers {
		h.awaitServed(t, path, 2)
	}
	h.awaitServed(t, "/429", 102)

	for _, path := range pausing {
		// Ended is when the host answered: no sender can have known before.
		told := h.first(t, path, "first").ended
		if next := h.visits(path)[1].begun; next.Before(told.Add(pause)) {
			t.Errorf("%s: the next request came %v after it asked for %v", path, next.Sub(told), pause)
		}
	}
	resumed := h.visits("/429")[1].begun
	for _, path := range []string{"/garbage", "/negative", "/past", "/well"} {
		if last := h.visits(path)[1].begun; !last.Before(resumed) {
			t.Errorf("%s: nothing should have kept its second event until the paused ones went on", path)
		}
		if e := p.get(paths[path]); e["paused_until"] != nil {
			t.Errorf("%s: paused until %v", path, e["paused_until"])
		}
	}
	all := h.visits("/500")
	if all[1].name != "second" || all[2].name != "first" {
		t.Errorf("after a 500 with Retry-After came %q and %q, want the other event first", all[1].name, all[2].name)
	}
	if wait := all[2].begun.Sub(all[0].ended); wait < pause {
		t.Errorf("the delivery that a 500 asked to wait came again after %v", wait)
	}
	growing(t, h.visits("/429")[1:], 1)
}

// growing checks that visits after a standstill begin one at a time, and that each answer lets at most one more be there
// at once. known is how many had been answered before.
func growing(t *testing.T, all []visit, known int) {
	t.Helper()
	top := 0
	for i, v := range all {
		top = max(top, v.beside)
		if answers := v.before - known; v.beside > 1+answers {
			t.Errorf("%s: request %d after the standstill found %d others there when %d had been answered", v.path, i+1, v.beside-1, answers)
		}
	}
	if top < 3 {
		t.Errorf("%s: of %d requests no more than %d were there at once: the pace does not grow", all[0].path, len(all), top)
	}
	t.Logf("%s: at most %d of %d at once after the standstill", all[0].path, top, len(all))
}
