package jobs_test

import (
	"sync"
	"testing"
	"time"

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
