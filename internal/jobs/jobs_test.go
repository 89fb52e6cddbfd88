package jobs_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/subscriptions"
)

func failed(tenant *id.ID) jobs.Request { return jobs.Request{Kind: jobs.Retry, Tenant: tenant} }

// What failed is due again, behind new events, and nothing else is touched; who made the job is in the audit log.
func TestARetryBringsBackWhatFailed(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten, other := s.tenant(), s.tenant()
	s.endpoint(ten, subscriptions.NewEndpoint{})
	s.endpoint(other, subscriptions.NewEndpoint{})
	s.events(ten, "order.paid", 2)
	s.finish("succeeded")
	s.events(ten, "order.paid", 7)
	s.events(other, "order.paid", 1)
	s.finish("failed")
	j := s.create(failed(&ten.ID))
	if j.State != jobs.Queued || j.Matched != 7 || j.MatchedAtLeast || j.CreatedBy != "ada" {
		t.Errorf("made: %+v", j)
	}
	s.events(ten, "order.paid", 1) // later than the job
	s.exec(`UPDATE deliveries SET attempts = 1`)
	s.finish("failed")
	if j = s.work(j.ID); j.State != jobs.Succeeded || j.Matched != 7 || j.Done != 7 || j.Skipped != 0 || j.FinishedAt == nil {
		t.Errorf("done: %+v", j)
	}
	n := s.count(`SELECT count(*) FROM deliveries WHERE tenant_id = $1 AND state = 'pending' AND lane = 1 AND failures = 0
		AND origin = 1 AND attempts = 1`, ten.ID.N)
	if all := s.count(`SELECT count(*) FROM deliveries`); n != 7 || all != 7 {
		t.Errorf("%d are due again, of %d", n, all)
	}
	if n := s.count(`SELECT count(*) FROM job_chunks`); n != 0 {
		t.Errorf("%d chunks are left", n)
	}
	if n := s.count(`SELECT count(*) FROM audit_log WHERE action = 'job.created' AND actor_name = 'ada' AND object_id = $1`, j.ID.N); n != 1 {
		t.Errorf("%d entries in the audit log", n)
	}
	if !slices.Contains(s.woke, ten.ID.Shard) {
		t.Error("nobody was woken")
	}
}

// A process that dies in the middle costs nothing: when its lease is over another goes on, and each delivery is retried once.
func TestAnotherProcessGoesOn(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten := s.tenant()
	s.endpoint(ten, subscriptions.NewEndpoint{})
	s.events(ten, "order.paid", 9)
	s.finish("failed")
	j := s.create(failed(&ten.ID))
	dies, lives := s.another(), s.another()
	for range 2 { // it gathers, and retries three
		if !s.step(dies) {
			t.Fatal("nothing to do")
		}
	}
	// What was done is finished again before the other one comes: doing it twice would show.
	s.finish("failed")
	s.pass(10 * time.Second)
	if s.step(lives) {
		t.Error("the other one took a job that is leased")
	}
	s.pass(21 * time.Second)
	for s.get(j.ID).State == jobs.Running {
		if !s.step(lives) {
			s.pass(100 * time.Millisecond)
		}
	}
	if j = s.get(j.ID); j.State != jobs.Succeeded || j.Done != 9 {
		t.Errorf("got %+v", j)
	}
	if n := s.count(`SELECT count(*) FROM deliveries`); n != 6 {
		t.Errorf("the second has retried %d, want 6", n)
	}
	if n := s.count(`SELECT count(*) FROM deliveries_finished WHERE attempts = 2`); n != 3 {
		t.Errorf("the first has retried %d, want 3", n)
	}
}

// One that comes back from the dead finds its job taken.
func TestALeaseThatIsOverIsNoLease(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten := s.tenant()
	s.endpoint(ten, subscriptions.NewEndpoint{})
	s.events(ten, "order.paid", 6)
	s.finish("failed")
	j := s.create(failed(&ten.ID))
	first, second := s.another(), s.another()
	s.step(first)
	s.pass(31 * time.Second)
	s.step(second)
	if got := s.get(j.ID); got.Done != 3 {
		t.Errorf("got %+v", got)
	}
	s.pass(time.Second)
	if s.step(first) {
		t.Error("the first works on")
	}
}

// So much a second, whoever works on it.
func TestAJobKeepsItsPace(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten := s.tenant()
	s.endpoint(ten, subscriptions.NewEndpoint{})
	s.events(ten, "order.paid", 9)
	s.finish("failed")
	j := s.create(failed(&ten.ID))
	s.step(s.jobs)
	s.step(s.jobs)
	if s.step(s.jobs) {
		t.Error("it does not rest after three")
	}
	s.pass(29 * time.Millisecond)
	if s.step(s.jobs) {
		t.Error("it rests less than 30 ms after three")
	}
	s.pass(time.Millisecond)
	if !s.step(s.jobs) || s.get(j.ID).Done != 6 {
		t.Errorf("it does not go on: %+v", s.get(j.ID))
	}
}

func TestCancelInTheMiddle(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten := s.tenant()
	s.endpoint(ten, subscriptions.NewEndpoint{})
	s.events(ten, "order.paid", 9)
	s.finish("failed")
	j := s.create(failed(nil))
	s.step(s.jobs)
	s.step(s.jobs)
	got, err := s.jobs.Cancel(audit.With(t.Context(), audit.CLI("ada")), j.ID)
	if err != nil || got.State != jobs.Cancelled || got.Done != 3 || got.FinishedAt == nil {
		t.Errorf("got %+v, %v", got, err)
	}
	s.pass(time.Minute)
	if s.step(s.jobs) || s.count(`SELECT count(*) FROM deliveries`) != 3 || s.count(`SELECT count(*) FROM job_chunks`) != 0 {
		t.Error("it goes on")
	}
	if _, err := s.jobs.Cancel(t.Context(), j.ID); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second time: %v", err)
	}
	if n := s.count(`SELECT count(*) FROM audit_log WHERE action = 'job.cancelled' AND actor_name = 'ada'`); n != 1 {
		t.Errorf("%d entries in the audit log", n)
	}
}

// What has changed by the time that its turn comes is passed over and counted.
func TestWhatHasChangedIsSkipped(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten := s.tenant()
	s.endpoint(ten, subscriptions.NewEndpoint{})
	s.events(ten, "order.paid", 3)
	s.finish("failed")
	j := s.create(failed(&ten.ID))
	s.step(s.jobs)
	s.exec(`UPDATE deliveries_finished SET state = 'succeeded', reason = NULL, last_outcome = 'succeeded'
		WHERE id = (SELECT min(id) FROM deliveries_finished)`)
	if j = s.work(j.ID); j.Done != 2 || j.Skipped != 1 || j.Matched != 3 {
		t.Errorf("got %+v", j)
	}
	if n := s.count(`SELECT count(*) FROM deliveries_finished WHERE state = 'succeeded'`); n != 1 {
		t.Error("a success was sent again")
	}
}

func TestACancellationEndsWhatWaits(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten := s.tenant()
	off := s.endpoint(ten, subscriptions.NewEndpoint{Disabled: true})
	s.endpoint(ten, subscriptions.NewEndpoint{})
	s.events(ten, "order.paid", 4)
	j := s.work(s.create(jobs.Request{Kind: jobs.Cancel, Tenant: &ten.ID, Filter: dispatcher.Filter{States: []dispatcher.State{dispatcher.Held}}}).ID)
	if j.Done != 4 {
		t.Errorf("got %+v", j)
	}
	n := s.count(`SELECT count(*) FROM deliveries_finished WHERE state = 'cancelled' AND reason = 'cancelled_by_user' AND endpoint_id = $1`, off.N)
	if left := s.count(`SELECT count(*) FROM deliveries`); n != 4 || left != 4 {
		t.Errorf("%d were cancelled, %d are left", n, left)
	}
}

// Deliveries that are named one by one need no filter, and have to be there, for whoever names them.
func TestNamedDeliveries(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten, other := s.tenant(), s.tenant()
	s.endpoint(ten, subscriptions.NewEndpoint{})
	s.endpoint(other, subscriptions.NewEndpoint{})
	s.events(ten, "order.paid", 5)
	s.events(other, "order.paid", 1)
	s.finish("succeeded")
	list := func(of id.ID) (ids []id.ID) {
		found, err := s.desk.List(t.Context(), dispatcher.Filter{Tenant: &of}, 10, id.ID{})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range found {
			ids = append(ids, d.ID)
		}
		return ids
	}
	mine, theirs := list(ten.ID), list(other.ID)
	r := jobs.Request{Kind: jobs.Retry, Tenant: &ten.ID, IDs: append(slices.Clone(mine[:4]), mine[0])}
	if j := s.work(s.create(r).ID); j.Matched != 4 || j.Done != 4 {
		t.Errorf("got %+v", j)
	}
	for name, r := range map[string]jobs.Request{
		"another tenant's": {Kind: jobs.Retry, Tenant: &ten.ID, IDs: theirs},
		"unknown":          {Kind: jobs.Retry, IDs: []id.ID{{Shard: 1, N: 1}}},
		"with a filter":    {Kind: jobs.Retry, IDs: mine, Filter: dispatcher.Filter{EventType: "order.paid"}},
		"too many":         {Kind: jobs.Retry, IDs: make([]id.ID, jobs.MaxIDs+1)},
		"in flight":        {Kind: jobs.Retry, Filter: dispatcher.Filter{States: []dispatcher.State{dispatcher.InFlight}}},
		"finished":         {Kind: jobs.Cancel, Filter: dispatcher.Filter{States: []dispatcher.State{dispatcher.StateFailed}}},
		"of two tenants":   {Kind: jobs.Retry, Tenant: &ten.ID, Filter: dispatcher.Filter{Tenant: &other.ID}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.jobs.Create(t.Context(), r)
			wantFault(t, err, fault.Invalid)
		})
	}
	if n := s.count(`SELECT count(*) FROM jobs`); n != 1 {
		t.Errorf("%d jobs were made", n)
	}
}

func TestAPreviewMakesNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten := s.tenant()
	ep := s.endpoint(ten, subscriptions.NewEndpoint{})
	s.events(ten, "order.paid", 5)
	s.finish("failed")
	for _, r := range []jobs.Request{
		failed(&ten.ID),
		{Kind: jobs.Replay, Tenant: &ten.ID, Window: &jobs.Window{Endpoint: &ep, Since: noon}},
	} {
		if c, err := s.jobs.Preview(t.Context(), r); err != nil || c.Matched != 5 || c.AtLeast {
			t.Errorf("%s: got %+v, %v", r.Kind, c, err)
		}
	}
	if n := s.count(`SELECT count(*) FROM jobs`) + s.count(`SELECT count(*) FROM audit_log WHERE action LIKE 'job.%'`); n != 0 {
		t.Errorf("%d things were made", n)
	}
}

func TestListsAreATenantsOwn(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten, other := s.tenant(), s.tenant()
	var all []id.ID
	for _, r := range []jobs.Request{failed(&ten.ID), failed(&other.ID), failed(nil), failed(&ten.ID)} {
		s.pass(time.Second)
		all = append(all, s.create(r).ID)
	}
	list := func(tenant *id.ID, limit int, before id.ID) (ids []id.ID) {
		found, err := s.jobs.List(t.Context(), tenant, limit, before)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range found {
			ids = append(ids, j.ID)
		}
		return ids
	}
	if got := list(&ten.ID, 10, id.ID{}); !slices.Equal(got, []id.ID{all[3], all[0]}) {
		t.Errorf("the tenant's: %v", got)
	}
	if got := list(nil, 3, id.ID{}); !slices.Equal(got, []id.ID{all[3], all[2], all[1]}) {
		t.Errorf("the first page: %v", got)
	}
	if got := list(nil, 3, all[1]); !slices.Equal(got, all[:1]) {
		t.Errorf("the second page: %v", got)
	}
}

func TestOldJobsAreDeleted(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten := s.tenant()
	done := s.create(failed(&ten.ID))
	s.work(done.ID)
	s.pass(jobs.Keep)
	s.create(failed(&ten.ID))
	if n, err := s.jobs.DropOld(t.Context(), ten.ID.Shard); err != nil || n != 0 {
		t.Errorf("too soon: %d, %v", n, err)
	}
	s.pass(time.Minute)
	if n, err := s.jobs.DropOld(t.Context(), ten.ID.Shard); err != nil || n != 1 {
		t.Errorf("got %d, %v", n, err)
	}
}

// What a step does and how far the job is are one: when the second cannot be written, the first is undone, and done once later.
func TestAStepIsDoneAsAWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten := s.tenant()
	ep := s.endpoint(ten, subscriptions.NewEndpoint{})
	s.events(ten, "order.paid", 3)
	later := s.endpoint(ten, subscriptions.NewEndpoint{})
	s.finish("failed")
	for _, r := range []jobs.Request{failed(&ten.ID), window(ten, ep, nil, nil), window(ten, later, nil, nil)} {
		j := s.create(r)
		for s.get(j.ID).State == jobs.Queued {
			if r.Kind == jobs.Replay {
				break
			}
			s.step(s.jobs) // it gathers
		}
		s.exec(`ALTER TABLE jobs ADD CONSTRAINT stuck CHECK (done = 0) NOT VALID`)
		if _, err := s.jobs.RunOnce(t.Context()); err == nil {
			t.Errorf("%s: it went well", r.Kind)
		}
		if n := s.count(`SELECT count(*) FROM deliveries`); n != 0 || s.count(`SELECT count(*) FROM events WHERE cardinality(delivery_ids) > 1`) != 0 {
			t.Errorf("%s: %d were done all the same", r.Kind, n)
		}
		s.exec(`ALTER TABLE jobs DROP CONSTRAINT stuck`)
		if j = s.work(j.ID); j.State != jobs.Succeeded || j.Done != 3 || s.count(`SELECT count(*) FROM deliveries`) != 3 {
			t.Errorf("%s: got %+v", r.Kind, j)
		}
		s.finish("failed")
		s.exec(`DELETE FROM jobs`)
	}
}

// A step that fails again and again ends the job, which says no more of our own faults than that.
func TestAJobThatCannotBeDoneFails(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ten := s.tenant()
	s.endpoint(ten, subscriptions.NewEndpoint{})
	s.events(ten, "order.paid", 3)
	s.finish("failed")
	j := s.create(failed(&ten.ID))
	s.step(s.jobs)
	s.exec(`ALTER TABLE jobs ADD CONSTRAINT stuck CHECK (done = 0) NOT VALID`)
	tries := 0
	for ; !s.get(j.ID).State.Finished() && tries < 20; tries++ {
		if _, err := s.jobs.RunOnce(t.Context()); err == nil {
			t.Error("it went well")
		}
		s.pass(time.Minute)
	}
	if j = s.get(j.ID); tries != 8 || j.State != jobs.Failed || j.Error != "an internal fault: the log has more" || s.count(`SELECT count(*) FROM job_chunks`) != 0 {
		t.Errorf("after %d tries: %+v", tries, j)
	}
}

// A process that ends in the middle of a step says nothing about the job: another one goes on at once, with all tries left.
func TestAnInterruptedStepCostsNoTry(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tenant := s.tenant()
	s.endpoint(tenant, subscriptions.NewEndpoint{})
	s.events(tenant, "a", 1)
	s.finish("failed")
	j := s.create(failed(&tenant.ID))
	ctx, end := context.WithCancel(t.Context())
	asked := 0
	ending := jobs.New(jobs.Deps{
		DB: s.db, IDs: s.ids, Desk: s.desk, Intake: s.intake, Log: zerolog.Nop(), Wake: func(int16) {},
		Now: func() time.Time {
			if asked++; asked == 2 { // it has taken the job, and is in its transaction
				end()
			}
			return s.now()
		},
	})
	if _, err := ending.RunOnce(ctx); err == nil || asked < 2 {
		t.Fatalf("the step was not interrupted: %v", err)
	}
	if n := s.count(`SELECT count(*) FROM jobs WHERE tries = 0 AND next_at <= $1`, s.now()); n != 1 {
		t.Error("the interruption counts as a failure")
	}
	if j := s.work(j.ID); j.State != jobs.Succeeded || j.Done != 1 {
		t.Errorf("afterwards: %+v", j)
	}
}

// The code's kinds and states are the database's.
func TestKindsAndStatesAreTheDatabases(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, state := range jobs.States() {
		if n := s.count(`SELECT count(*) FROM unnest(enum_range(NULL::job_state)) AS s WHERE s::text = $1`, string(state)); n != 1 {
			t.Errorf("the database does not know the state %s", state)
		}
	}
	if n := s.count(`SELECT cardinality(enum_range(NULL::job_state))`); n != len(jobs.States()) {
		t.Errorf("the database knows %d states", n)
	}
	for _, kind := range jobs.Kinds() {
		if n := s.count(`SELECT count(*) FROM pg_constraint WHERE conname = 'jobs_kind_check' AND pg_get_constraintdef(oid) LIKE '%''' || $1 || '''%'`, string(kind)); n != 1 {
			t.Errorf("the database does not know the kind %s", kind)
		}
	}
}
