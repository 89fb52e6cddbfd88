package jobs_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/subscriptions"
)

func window(t subscriptions.Tenant, ep id.ID, states, types []string) jobs.Request {
	return jobs.Request{Kind: jobs.Replay, Tenant: &t.ID, Window: &jobs.Window{
		Endpoint: &ep, Since: noon, States: states, Types: types,
	}}
}

// What an endpoint got and what it never got, by what the window says.
func TestWhatAReplayMeans(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		states, types []string
		done          int64
	}{
		"all":                              {nil, nil, 2 + 2 + 3},
		"what failed":                      {[]string{"failed"}, nil, 2},
		"what it never got":                {[]string{"missing"}, nil, 3},
		"of a type":                        {nil, []string{"order.paid"}, 2 + 2 + 3},
		"of another type":                  {nil, []string{"user.*"}, 0},
		"that it did not ask for then":     {nil, []string{"stock.*"}, 1},
		"that it does not ask for now":     {nil, []string{"user.made"}, 0},
		"with no state that any of it has": {[]string{"cancelled"}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			ten, other := s.tenant(), s.tenant()
			s.endpoint(ten, subscriptions.NewEndpoint{}) // wants everything, and was there all the time
			s.endpoint(other, subscriptions.NewEndpoint{})
			s.events(ten, "order.paid", 3) // before it was there
			s.events(other, "order.paid", 1)
			ep := s.endpoint(ten, subscriptions.NewEndpoint{EventTypes: []string{"order.*"}})
			s.events(ten, "order.paid", 2)
			s.finish("succeeded")
			s.events(ten, "order.paid", 2)
			s.finish("failed")
			s.events(ten, "stock.low", 1) // it did not ask for these
			s.events(ten, "user.made", 1)
			s.exec(`UPDATE endpoints SET event_types = '{order.*,stock.*}' WHERE id = $1`, ep.N)
			s.events(ten, "order.paid", 1) // on its way by itself
			before := s.count(`SELECT count(*) FROM deliveries`)
			j := s.work(s.create(window(ten, ep, c.states, c.types)).ID)
			if j.State != jobs.Succeeded || j.Done != c.done || j.Matched != c.done || j.Skipped != 0 {
				t.Errorf("got %+v, want %d", j, c.done)
			}
			n := s.count(`SELECT count(*) FROM deliveries WHERE endpoint_id = $1 AND origin = 2 AND lane = 1 AND next_retry_at <= $2`, ep.N, s.now())
			if all := s.count(`SELECT count(*) FROM deliveries`); int64(n) != c.done || all != before+n {
				t.Errorf("%d are due again; there were %d, there are %d", n, before, all)
			}
		})
	}
}

// To replay twice makes no second delivery, and the event names the one that was made and no longer says that it skipped.
func TestAMissedEventGetsOneDelivery(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten := s.tenant()
	ep := s.endpoint(ten, subscriptions.NewEndpoint{Ordering: "group"})
	s.exec(`UPDATE endpoints SET status = 'dead', status_reason = 'gone'`)
	evt := s.events(ten, "order.paid", 1)[0]
	if e, err := s.intake.Event(t.Context(), ten.ID, id.Event.Format(evt)); err != nil || len(e.Skipped) != 1 {
		t.Fatalf("got %+v, %v", e, err)
	}
	_, err := s.jobs.Create(t.Context(), window(ten, ep, nil, nil))
	wantFault(t, err, fault.Conflict) // it is dead still
	s.exec(`UPDATE endpoints SET status = 'enabled', status_reason = NULL`)
	first, second := s.create(window(ten, ep, nil, nil)), s.create(window(ten, ep, nil, nil))
	if one, two := s.work(first.ID), s.work(second.ID); one.Done+two.Done != 1 {
		t.Errorf("got %+v and %+v", one, two)
	}
	e, err := s.intake.Event(t.Context(), ten.ID, id.Event.Format(evt))
	if err != nil || e.FanOut != 1 || len(e.Skipped) != 0 || e.Status != "queued" {
		t.Errorf("got %+v, %v", e, err)
	}
	if n := s.count(`SELECT count(*) FROM deliveries d JOIN events e ON d.id = ANY (e.delivery_ids) WHERE d.group_id = d.id AND d.lane = 2`); n != 1 {
		t.Errorf("%d are in a group of their own", n)
	}
}

// What was addressed to others stays with them: by the producer, or by a test.
func TestAReplayLeavesWhatWasMeantForOthers(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten := s.tenant()
	one, two := s.endpoint(ten, subscriptions.NewEndpoint{}), s.endpoint(ten, subscriptions.NewEndpoint{})
	s.pass(time.Second)
	test := intake.Event{Type: "order.paid", Payload: []byte("{}")}
	if _, err := s.intake.AcceptTest(t.Context(), one, ten.ID, test); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.intake.Accept(t.Context(), ten.ID, "", []intake.Event{{
		Type: "order.paid", Payload: []byte("{}"), EndpointIDs: []string{id.Endpoint.Format(one)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.pass(time.Second)
	s.finish("succeeded")
	three := s.endpoint(ten, subscriptions.NewEndpoint{})
	for _, ep := range []id.ID{two, three} {
		if j := s.work(s.create(window(ten, ep, nil, []string{"order.paid"})).ID); j.State != jobs.Succeeded || j.Done != 0 {
			t.Errorf("got %+v", j)
		}
	}
}

// One event goes again to all that got it, and to those that want it now and were not there.
func TestAReplayOfOneEvent(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten := s.tenant()
	s.endpoint(ten, subscriptions.NewEndpoint{})
	widened := s.endpoint(ten, subscriptions.NewEndpoint{EventTypes: []string{"user.*"}})
	evts := s.events(ten, "order.paid", 2)
	s.finish("succeeded")
	later := s.endpoint(ten, subscriptions.NewEndpoint{})
	s.endpoint(ten, subscriptions.NewEndpoint{EventTypes: []string{"user.*"}})
	s.exec(`UPDATE endpoints SET event_types = '{}' WHERE id = $1`, widened.N)
	r := jobs.Request{Kind: jobs.Replay, Tenant: &ten.ID, Window: &jobs.Window{Event: &evts[0]}}
	if c, err := s.jobs.Preview(t.Context(), r); err != nil || c.Matched != 3 {
		t.Errorf("got %+v, %v", c, err)
	}
	if j := s.work(s.create(r).ID); j.Done != 3 {
		t.Errorf("got %+v", j)
	}
	n := s.count(`SELECT count(*) FROM deliveries WHERE event_id = $1 AND origin = 2`, evts[0].N)
	if all := s.count(`SELECT count(*) FROM deliveries`); n != 3 || all != 3 {
		t.Errorf("%d go again, of %d", n, all)
	}
	if n := s.count(`SELECT count(*) FROM deliveries WHERE endpoint_id IN ($1, $2)`, widened.N, later.N); n != 2 {
		t.Errorf("%d go to those that missed it", n)
	}
}

func TestWindowsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten, other := s.tenant(), s.tenant()
	ep, theirs := s.endpoint(ten, subscriptions.NewEndpoint{}), s.endpoint(other, subscriptions.NewEndpoint{})
	for name, c := range map[string]struct {
		w    jobs.Window
		want fault.Code
	}{
		"no since":              {jobs.Window{Endpoint: &ep}, fault.Invalid},
		"a since to come":       {jobs.Window{Endpoint: &ep, Since: noon.Add(time.Hour)}, fault.Invalid},
		"the wrong way around":  {jobs.Window{Endpoint: &ep, Since: noon.Add(-time.Hour), Until: noon.Add(-2 * time.Hour)}, fault.Invalid},
		"no state":              {jobs.Window{Endpoint: &ep, Since: noon.Add(-time.Hour), States: []string{"pending"}}, fault.Invalid},
		"no pattern":            {jobs.Window{Endpoint: &ep, Since: noon.Add(-time.Hour), Types: []string{"a b"}}, fault.Invalid},
		"another's endpoint":    {jobs.Window{Endpoint: &theirs, Since: noon.Add(-time.Hour)}, fault.NotFound},
		"an unknown endpoint":   {jobs.Window{Endpoint: &id.ID{Shard: ten.ID.Shard, N: 5}, Since: noon.Add(-time.Hour)}, fault.NotFound},
		"a state and no window": {jobs.Window{Endpoint: &ep, States: []string{"x"}}, fault.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.jobs.Create(t.Context(), jobs.Request{Kind: jobs.Replay, Tenant: &ten.ID, Window: &c.w})
			wantFault(t, err, c.want)
		})
	}
}

// A job whose endpoint dies under it fails, and says why.
func TestAReplayToADeadEndpointFails(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten := s.tenant()
	ep := s.endpoint(ten, subscriptions.NewEndpoint{})
	s.events(ten, "order.paid", 7)
	s.finish("failed")
	j := s.create(window(ten, ep, nil, nil))
	s.step(s.jobs)
	s.exec(`UPDATE endpoints SET status = 'dead', status_reason = 'gone'`)
	s.pass(time.Second)
	if _, err := s.jobs.RunOnce(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("got %v", err)
	}
	if j = s.get(j.ID); j.State != jobs.Failed || j.Done != 3 || j.Error == "" {
		t.Errorf("got %+v", j)
	}
}

// Two processes that replay the same to the same endpoint at the same time make one delivery of each event.
func TestReplaysSideBySide(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten := s.tenant()
	s.events(ten, "order.paid", 3)
	ep := s.endpoint(ten, subscriptions.NewEndpoint{})
	for range 4 {
		s.create(window(ten, ep, nil, nil))
	}
	var all sync.WaitGroup
	for range 4 {
		by := s.another()
		all.Go(func() {
			if _, err := by.RunOnce(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := s.count(`SELECT count(*) FROM events WHERE cardinality(delivery_ids) = 1`); n != 3 || s.count(`SELECT count(*) FROM deliveries`) != 3 {
		t.Errorf("%d events have one delivery", n)
	}
	if n := s.count(`SELECT sum(done) FROM jobs`); n != 3 {
		t.Errorf("%d are said to be done", n)
	}
}

// What an endpoint's filter refuses stays with those who wanted it, also if the replay names the type; what it lets pass is made up for.
func TestAReplayAsksFilters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		filter string
		then   string // its filter while the events came; "": it was not there
		types  []string
		done   int64
	}{
		"no filter":                      {"", "", nil, 4},
		"some pass":                      {"payload.n >= 2.0 && event.type == 'order.paid'", "", nil, 2},
		"some pass, of a type":           {"payload.n >= 2.0", "", []string{"order.paid"}, 2},
		"none passes, of a type":         {"payload.n > 9.0", "", []string{"order.paid"}, 0},
		"it cannot tell":                 {"payload.there.is.none == 1", "", []string{"order.*"}, 0},
		"what it refused stays":          {"", "payload.n >= 2.0", nil, 0},
		"what it refused, of a type":     {"", "payload.n >= 2.0", []string{"order.paid"}, 2},
		"what it refuses still":          {"payload.n >= 1.0", "payload.n >= 2.0", []string{"order.paid"}, 1},
		"who asks for the event's names": {"event.id.startsWith('evt_') && event.uid == null && event.group_key == null", "", nil, 4},
		"when it was made":               {"event.created_at < timestamp('2026-11-30T12:00:03Z')", "", nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			ten := s.tenant()
			var ep id.ID
			if c.then != "" {
				ep = s.endpoint(ten, subscriptions.NewEndpoint{Filter: c.then})
			}
			s.events(ten, "order.paid", 4)
			if c.then == "" {
				ep = s.endpoint(ten, subscriptions.NewEndpoint{Filter: c.filter})
			}
			s.exec(`UPDATE endpoints SET filter = nullif($1, '') WHERE id = $2`, c.filter, ep.N)
			j := s.create(window(ten, ep, []string{"missing"}, c.types))
			if j.Matched != c.done {
				t.Errorf("%d are meant, want %d", j.Matched, c.done)
			}
			if j = s.work(j.ID); j.State != jobs.Succeeded || j.Done != c.done || j.Matched != c.done {
				t.Errorf("got %+v, want %d", j, c.done)
			}
			if n := s.count(`SELECT count(*) FROM deliveries WHERE origin = 2`); int64(n) != c.done {
				t.Errorf("%d deliveries, want %d", n, c.done)
			}
		})
	}
}

// One event that is told again asks the filter of each endpoint of now.
func TestAReplayOfOneEventAsksFilters(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten := s.tenant()
	evts := s.events(ten, "order.paid", 2)
	wants := s.endpoint(ten, subscriptions.NewEndpoint{Filter: "payload.n == 1.0"})
	s.endpoint(ten, subscriptions.NewEndpoint{Filter: "payload.n == 0.0"})
	all := s.endpoint(ten, subscriptions.NewEndpoint{})
	if j := s.work(s.create(jobs.Request{Kind: jobs.Replay, Tenant: &ten.ID, Window: &jobs.Window{Event: &evts[1]}}).ID); j.Done != 2 {
		t.Errorf("got %+v", j)
	}
	if n := s.count(`SELECT count(*) FROM deliveries WHERE event_id = $1 AND endpoint_id IN ($2, $3)`, evts[1].N, wants.N, all.N); n != 2 {
		t.Errorf("%d of two got it", n)
	}
}

// found gives all that a search finds, page by page.
func (s *shop) found(f dispatcher.Filter) (events []id.ID) {
	s.Helper()
	for before := (id.ID{}); ; {
		page, err := s.desk.Search(s.Context(), f, 10, before)
		if err != nil {
			s.Fatalf("%+v: %v", f, err)
		}
		for _, d := range page.Deliveries {
			events = append(events, d.Event)
		}
		if before = page.Next; before.IsZero() {
			return events
		}
	}
}

// What was made long after its event is found by the event's type and by what its payload holds, waiting or finished.
func TestASearchFindsWhatAReplayMade(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"", "succeeded", "failed"} {
		t.Run("finished: "+state, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			ten := s.tenant()
			evts := s.events(ten, "order.paid", 2)
			sent := s.events(ten, "order.sent", 1)
			s.pass(time.Hour)
			ep := s.endpoint(ten, subscriptions.NewEndpoint{})
			if j := s.work(s.create(window(ten, ep, nil, nil)).ID); j.Done != 3 {
				t.Fatalf("got %+v", j)
			}
			n := s.count(`SELECT count(*) FROM events e JOIN deliveries d ON e.delivery_ids = ARRAY[d.id] AND d.event_id = e.id
				WHERE abs(d.id - e.id) > 20971520000`)
			if n != 3 {
				t.Errorf("%d events name what was made for them an hour later", n)
			}
			if state != "" {
				s.finish(state)
			}
			s.pass(time.Minute)
			for name, c := range map[string]struct {
				filter dispatcher.Filter
				want   []id.ID
			}{
				"a type":                {dispatcher.Filter{EventType: "order.paid"}, []id.ID{evts[1], evts[0]}},
				"another type":          {dispatcher.Filter{EventType: "order.sent"}, sent},
				"a tenant's type":       {dispatcher.Filter{EventType: "order.paid", Tenant: &ten.ID}, []id.ID{evts[1], evts[0]}},
				"an endpoint's type":    {dispatcher.Filter{EventType: "order.paid", Endpoint: &ep}, []id.ID{evts[1], evts[0]}},
				"a text":                {dispatcher.Filter{Query: `"n": 1`}, evts[1:]},
				"a text and a type":     {dispatcher.Filter{Query: `"n": 0`, EventType: "order.sent"}, sent},
				"a beginning of a type": {dispatcher.Filter{Query: "order.s"}, sent},
				"an event":              {dispatcher.Filter{Event: &evts[1]}, evts[1:]},
			} {
				if got := s.found(c.filter); !slices.Equal(got, c.want) {
					t.Errorf("by %s: found %v, want %v", name, got, c.want)
				}
			}
		})
	}
}
