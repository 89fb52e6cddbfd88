package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// grouped makes the events of groups, "<group>/<number>" each, number by number: events of one group are as far apart as
// they can be.
func grouped(kind string, groups, each int) []object {
	out := make([]object, 0, groups*each)
	for n := range each {
		for g := range groups {
			out = append(out, object{"type": kind, "group_key": fmt.Sprint("g", g), "payload": fmt.Sprintf("g%d/%d", g, n)})
		}
	}
	return out
}

// member reads a payload of grouped.
func member(t *testing.T, v visit) (group string, n int) {
	t.Helper()
	group, number, _ := strings.Cut(v.name, "/")
	n, err := strconv.Atoi(number)
	if err != nil {
		t.Fatalf("payload %q: %v", v.name, err)
	}
	return group, n
}

// inOrder checks the visits on a path, group by group: an event comes only when all before it have ended well, or are
// among those that finished otherwise; none comes again when a later one has come; no two are there at once.
func inOrder(t *testing.T, all []visit, otherwise map[string]bool) {
	t.Helper()
	groups, faults := map[string][]visit{}, 0
	for _, v := range all {
		group, _ := member(t, v)
		groups[group] = append(groups[group], v)
	}
	for group, visits := range groups {
		succeeded := map[int]time.Time{} // when the first 2xx was given
		latest := 0
		for i, v := range visits {
			_, n := member(t, v)
			var wrong string
			switch {
			case n < latest:
				wrong = fmt.Sprintf("came after %d", latest)
			case i > 0 && (visits[i-1].ended.IsZero() || visits[i-1].ended.After(v.begun)):
				wrong = fmt.Sprintf("came while %s was there", visits[i-1].name)
			}
			for before := range n {
				at, well := succeeded[before]
				if !otherwise[fmt.Sprintf("%s/%d", group, before)] && (!well || at.After(v.begun)) {
					wrong = fmt.Sprintf("came before %d had succeeded", before)
				}
			}
			if wrong != "" {
				if faults++; faults <= 10 {
					t.Errorf("%s (%s, attempt %d) %s", v.name, v.id, v.attempt, wrong)
				}
			}
			latest = max(latest, n)
			if _, known := succeeded[n]; !known && v.status/100 == 2 {
				succeeded[n] = v.ended
			}
		}
	}
	if faults > 10 {
		t.Errorf("and %d more", faults-10)
	}
}

// 1,000 groups of 5, with first attempts that fail, slow answers, a group whose head fails on and on, and a kill -9 in the
// middle: every group in order and one at a time, and none waits for another.
func TestGroupsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	const groups, each, middle = 1000, 5, 2500
	reached, mended := newGate(t), newGate(t)
	var mu sync.Mutex
	total := 0
	h := entertain(t, func(v visit) verdict {
		mu.Lock()
		if total++; total == middle {
			reached.open()
		}
		n := total
		mu.Unlock()
		switch {
		case v.name == "stuck/0" && !mended.isOpen():
			return says(500)
		case v.attempt == 1 && n%11 == 0:
			return says(500)
		case n%37 == 0:
			<-time.After(50 * time.Millisecond)
		}
		return says(200)
	})
	// A lease is over four seconds after the kill; whoever starts looks for those at once and five seconds later.
	env := settings{"DELIVERY_MAX_IN_FLIGHT_PER_ENDPOINT": "64"}
	p := start(t, env)
	tenant := p.tenant()
	p.on(tenant, h, "/a", object{"ordering": "group", "retry_schedule": []string{"100ms", "1h"}})
	stuck := []object{
		{"type": "a", "group_key": "stuck", "payload": "stuck/0"},
		{"type": "a", "group_key": "stuck", "payload": "stuck/1"},
		{"type": "a", "group_key": "stuck", "payload": "stuck/2"},
	}
	p.batch(tenant, append(stuck, grouped("a", groups, each)...))
	eventually(t, func() string {
		if !reached.isOpen() {
			return fmt.Sprintf("only %d requests have come", h.came("/a"))
		}
		return ""
	})
	p.kill()
	killed := time.Now()

	again := serve(t, env)
	h.awaitServed(t, "/a", groups*each)
	t.Logf("all but the stuck group were delivered %v after the kill, in %d requests", time.Since(killed), h.came("/a"))
	eventually(t, func() string {
		for _, v := range h.visits("/a") {
			if v.name == "stuck/1" {
				t.Fatal("the event behind one that fails was sent")
			}
		}
		all := again.get("/v1/deliveries?state=pending,in_flight&limit=10").list("data")
		if len(all) != 3 {
			return fmt.Sprintf("%d deliveries are unfinished, want the three of the stuck group", len(all))
		}
		return ""
	})
	mended.open()
	head := h.first(t, "/a", "stuck/0").id
	again.want(http.StatusOK, http.MethodPost, "/v1/deliveries/"+again.deliveries(head)[0].text("id")+"/retry", nil)
	h.awaitServed(t, "/a", groups*each+3)
	inOrder(t, h.visits("/a"), nil)
	eventually(t, again.unfinished)
}

// A head that fails for good or is cancelled lets the next one go. One that is retried by hand afterwards still is not
// sent beside another of its group. What has no group waits for nobody.
func TestGroupHeadThatEnds(t *testing.T) {
	t.Parallel()
	hold := newGate(t)
	h := entertain(t, func(v visit) verdict {
		switch {
		case v.path == "/exhausted" && v.name == "x/0" && v.attempt <= 2, v.name == "x/0" && v.path != "/exhausted":
			return says(500)
		case v.path == "/exhausted" && v.name == "x/1":
			hold.wait()
		}
		return says(200)
	})
	p := serve(t, settings{"DELIVERY_TIMEOUT": "20s", "DELIVERY_LEASE": "40s"})
	tenant := p.tenant()
	p.on(tenant, h, "/exhausted", object{"ordering": "group", "retry_schedule": []string{"50ms"}})
	for _, path := range []string{"/cancelled", "/loose"} {
		p.on(tenant, h, path, object{"ordering": "group", "retry_schedule": []string{"1h"}})
	}
	var all []object
	for _, kind := range []string{"exhausted", "cancelled", "loose"} {
		for n := range 3 {
			e := object{"type": kind, "payload": fmt.Sprint("x/", n)}
			if kind != "loose" {
				e["group_key"] = "x"
			}
			all = append(all, e)
		}
	}
	p.batch(tenant, all)

	h.awaitServed(t, "/loose", 2)
	h.awaitVisits(t, "/exhausted", 3)
	failed := p.await(h.first(t, "/exhausted", "x/0").id, "failed")
	h.awaitVisits(t, "/cancelled", 1)
	waiting := h.first(t, "/cancelled", "x/0").id
	eventually(t, func() string {
		if d := p.deliveries(waiting)[0]; d.text("state") != "pending" || d.number("attempts") != 1 {
			return "the head does not wait: " + sprint(d)
		}
		return ""
	})
	p.want(http.StatusOK, http.MethodPost, "/v1/deliveries/"+failed.text("id")+"/retry", nil)
	// Another group's event, enqueued after the retry, has its turn meanwhile.
	p.batch(tenant, []object{{"type": "exhausted", "group_key": "y", "payload": "y/0"}})
	h.awaitServed(t, "/exhausted", 1)
	if n := h.came("/cancelled"); n != 1 {
		t.Errorf("%d requests while the head of the only group waits for its retry", n)
	}
	if n := h.came("/exhausted"); n != 4 {
		t.Errorf("%d requests, want two of x/0, one of x/1 and one of y/0", n)
	}
	p.want(http.StatusOK, http.MethodPost, "/v1/deliveries/"+p.deliveries(waiting)[0].text("id")+"/cancel", nil)
	hold.open()
	h.awaitServed(t, "/cancelled", 2)
	h.awaitServed(t, "/exhausted", 4)
	inOrder(t, h.visits("/cancelled"), map[string]bool{"x/0": true})
	for i, v := range h.visits("/exhausted") {
		if v.name[0] == 'x' && v.beside > 1 && i != 3 {
			t.Errorf("%s (attempt %d) came beside another of its group", v.name, v.attempt)
		}
	}
}

// Two processes, both taking events and both delivering.
func TestGroupsOfTwoProcesses(t *testing.T) {
	t.Parallel()
	const groups, each = 100, 5
	h := entertain(t, func(v visit) verdict {
		switch {
		case v.attempt == 1 && v.nth%13 == 0:
			return says(500)
		case v.nth%7 == 0:
			<-time.After(20 * time.Millisecond)
		}
		return says(200)
	})
	p := serve(t, nil)
	q := serve(t, nil)
	tenant := p.tenant()
	p.on(tenant, h, "/a", object{"ordering": "group"})
	all := grouped("a", groups, each)
	p.batch(tenant, all[:groups*2])
	q.batch(tenant, all[groups*2:])
	h.awaitServed(t, "/a", groups*each)
	inOrder(t, h.visits("/a"), nil)
	eventually(t, p.unfinished)
	mine, others := p.attempted(), q.attempted()
	t.Logf("one process made %d attempts, the other %d", mine, others)
	if mine == 0 || others == 0 {
		t.Errorf("one process made %d attempts, the other %d: both should take part", mine, others)
	}
}

// A producer that waits for each answer, and whose requests two processes take in turn: the order is that of the answers.
func TestOrderIsThatOfTheAnswers(t *testing.T) {
	t.Parallel()
	const groups, each = 40, 5
	h := entertain(t, func(visit) verdict { return says(200) })
	p := serve(t, nil)
	q := serve(t, nil)
	tenant := p.tenant()
	p.on(tenant, h, "/a", object{"ordering": "group"})
	last, backwards := "", 0
	for g := range groups {
		for n := range each {
			taker := []*process{p, q}[n%2]
			event := taker.want(http.StatusAccepted, http.MethodPost, "/v1/tenants/"+tenant+"/events", object{
				"type": "a", "group_key": fmt.Sprint("g", g), "payload": fmt.Sprintf("g%d/%d", g, n),
			}).text("id")
			if event < last {
				backwards++
			}
			last = event
		}
	}
	t.Logf("%d of %d events have a smaller id than the one accepted before", backwards, groups*each)
	h.awaitServed(t, "/a", groups*each)
	inOrder(t, h.visits("/a"), nil)
}
