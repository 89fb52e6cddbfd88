package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// hangs is how long the endpoints that hang are waited for: much longer than everything else takes.
const hangs = 10 * time.Second

var patient = settings{"DELIVERY_TIMEOUT": hangs.String(), "DELIVERY_LEASE": (2 * hangs).String()}

// FC-044: one endpoint that hangs with 500 due events, in front of ten quick ones: all of theirs are delivered before the first
// of its attempts has even timed out.
func TestHangingEndpointHoldsUpNobody(t *testing.T) {
	t.Parallel()
	end := newGate(t)
	h := entertain(t, func(v visit) verdict {
		if v.path == "/hangs" {
			end.wait()
		}
		return says(200)
	})
	env := settings{"DELIVERY_MAX_IN_FLIGHT": "64"}
	for k, v := range patient {
		env[k] = v
	}
	p := serve(t, env)
	tenant := p.tenant()
	p.on(tenant, h, "/hangs", nil)
	p.batch(tenant, many("hangs", 500))
	h.awaitVisits(t, "/hangs", 1)
	const quick, each = 10, 50
	for n := range quick {
		p.on(tenant, h, fmt.Sprint("/quick", n), object{"event_types": []string{"quick"}})
	}
	p.batch(tenant, many("quick", each))
	for n := range quick {
		h.awaitServed(t, fmt.Sprint("/quick", n), each)
	}
	hanging := h.visits("/hangs")
	for _, v := range hanging {
		if !v.ended.IsZero() {
			t.Error("an endpoint that hangs has answered")
		}
	}
	if over := time.Since(hanging[0].begun); over >= hangs {
		t.Errorf("the quick ones' events were delivered %v after the first attempt began to hang: not before that was over", over)
	}
	if len(hanging) > 32 { // delivery.max_in_flight_per_endpoint
		t.Errorf("%d attempts hang at once", len(hanging))
	}
	end.open()
	h.awaitServed(t, "/hangs", 500)
}

// A tenant with more hanging endpoints than there are slots leaves some for others.
func TestTenantLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	const slots, endpoints = 64, 20
	end := newGate(t)
	h := entertain(t, func(v visit) verdict {
		if strings.HasPrefix(v.path, "/hangs") {
			end.wait()
		}
		return says(200)
	})
	env := settings{"DELIVERY_MAX_IN_FLIGHT": fmt.Sprint(slots)}
	for k, v := range patient {
		env[k] = v
	}
	p := serve(t, env)
	greedy, modest := p.tenant(), p.tenant()
	for n := range endpoints {
		p.on(greedy, h, fmt.Sprint("/hangs", n), object{"event_types": []string{"hangs"}})
	}
	p.on(modest, h, "/modest", nil)
	p.batch(greedy, many("hangs", 20))
	hanging := func() (all []visit) {
		for n := range endpoints {
			all = append(all, h.visits(fmt.Sprint("/hangs", n))...)
		}
		return all
	}
	eventually(t, func() string {
		if n := len(hanging()); n < slots/2 {
			return fmt.Sprintf("%d attempts hang", n)
		}
		return ""
	})
	p.batch(modest, many("modest", 100))
	h.awaitServed(t, "/modest", 100)
	all := hanging()
	if over := time.Since(all[0].begun); over >= hangs {
		t.Errorf("the other tenant's events were delivered %v after the first attempt began to hang: not before that was over", over)
	}
	if len(all) >= slots {
		t.Errorf("%d attempts hang, there are %d slots", len(all), slots)
	}
	t.Logf("%d of %d slots hang", len(all), slots)
	end.open()
}

// A new event does not queue behind the retries that its endpoint has due.
func TestFirstAttemptsGoAhead(t *testing.T) {
	t.Parallel()
	const retries = 300
	end := newGate(t)
	h := entertain(t, func(v visit) verdict {
		switch {
		case v.attempt == 1 && v.name != "new":
			return says(404) // is retried, and says nothing against the receiver as a whole
		case !end.isOpen():
			<-time.After(50 * time.Millisecond)
		}
		return says(200)
	})
	p := serve(t, nil)
	tenant := p.tenant()
	e := p.on(tenant, h, "/a", object{"retry_schedule": []string{"1s"}})
	p.batch(tenant, many("a", retries))
	eventually(t, func() string {
		tried := 0
		for _, v := range h.visits("/a") {
			if v.attempt == 1 {
				tried++
			}
		}
		if tried < retries {
			return fmt.Sprintf("%d of %d were tried", tried, retries)
		}
		return ""
	})
	p.want(http.StatusOK, http.MethodPatch, e, object{"max_in_flight": 2}) // now it takes some seconds
	h.awaitServed(t, "/a", 40)
	p.send(tenant, "a", "new")
	again := h.came("/a") // it is accepted
	eventually(t, func() string {
		for _, v := range h.visits("/a") {
			if v.name == "new" {
				return ""
			}
		}
		return "the new event is not sent"
	})
	all := h.visits("/a")
	between := slices.IndexFunc(all, func(v visit) bool { return v.name == "new" }) - again // may be less than none
	t.Logf("the new event came after %d retries, %d were left", between, 2*retries-again-between)
	// A few rounds of two, and as many as go out in a second: that long it may take to be heard of.
	if between > 60 {
		t.Errorf("%d of the %d retries that were left came before the new event", between, 2*retries-again)
	}
	end.open()
	h.awaitServed(t, "/a", retries+1)
}

// A receiver that says it is overloaded sees fewer requests at once; well again, more.
func TestInFlightFollowsTheAnswers(t *testing.T) {
	t.Parallel()
	const events = 1000
	well, crowd := newGate(t), newGate(t)
	h := entertain(t, func(v visit) verdict {
		if v.beside >= 8 {
			crowd.open()
		}
		if v.nth <= 8 {
			crowd.wait() // until as many are there as may be in the beginning
		}
		<-time.After(20 * time.Millisecond)
		if v.nth%4 == 0 || well.isOpen() { // never ten failures in a row, which would open the breaker
			return says(200)
		}
		return says(503)
	})
	p := serve(t, nil)
	tenant := p.tenant()
	p.on(tenant, h, "/a", object{"max_in_flight": 16, "retry_schedule": []string{"100ms", "1h"}})
	p.batch(tenant, many("a", events))
	h.awaitVisits(t, "/a", 160)
	well.open()
	mended := h.came("/a")
	h.awaitVisits(t, "/a", mended+400)
	all := h.visits("/a")
	crowded := func(some []visit) (top int) {
		for _, v := range some {
			top = max(top, v.beside)
		}
		return top
	}
	first, later, after := crowded(all[:60]), crowded(all[80:160]), crowded(all[mended:])
	t.Logf("at once: %d at first, %d later on, %d when well again", first, later, after)
	if later > first/2 {
		t.Errorf("%d requests at once at first, still %d after many that were too much", first, later)
	}
	if after < 2*later {
		t.Errorf("%d requests at once when well again, %d before", after, later)
	}
}
