package dispatcher

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// enqueueAs makes a delivery of a group with what n says: its id, when it is due, whether it is scheduled.
func (w *world) enqueueAs(n NewDelivery, endpoint id.ID) id.ID {
	w.Helper()
	event := w.ids.Next()
	n.Shard, n.Tenant, n.Event, n.Endpoint = endpoint.Shard, w.tenant.ID.N, event, endpoint.N
	err := pg.InTx(w.Context(), w.db, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`INSERT INTO events (shard, id, tenant_id, type, content_type, payload, delivery_ids)
			VALUES ($1, $2, $3, 'order.paid', 'application/json', '{}', ARRAY[$4::bigint])`,
			endpoint.Shard, event, w.tenant.ID.N, n.ID)
		QueueNew(b, []NewDelivery{n})
		return tx.SendBatch(w.Context(), b).Close()
	})
	if err != nil {
		w.Fatal(err)
	}
	return id.ID{Shard: endpoint.Shard, N: n.ID}
}

// lane is where a waiting delivery waits.
func (w *world) lane(delivery id.ID) (in lane) {
	w.Helper()
	err := w.db.QueryRow(w.Context(), `SELECT lane FROM deliveries WHERE shard = $1 AND id = $2`, delivery.Shard, delivery.N).Scan(&in)
	if err != nil {
		w.Fatal(err)
	}
	return in
}

// claim has d claim without waiting for answers.
func (w *world) claim(d *Dispatcher) int {
	w.Helper()
	n, err := d.claimOnce(w.Context(), w.Context(), allShards)
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// inTurn notes which deliveries were posted, in the order in which they came.
type inTurn struct {
	mu    sync.Mutex
	heard []string
	reply doer
}

func (r *inTurn) Do(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.heard = append(r.heard, posted(req))
	r.mu.Unlock()
	return r.reply(req)
}

func TestGroupGoesOneByOneAndGroupsSideBySide(t *testing.T) {
	t.Parallel()
	heard := &inTurn{reply: always(200)}
	w := newWorld(t, heard.Do)
	endpoint := w.endpoint()
	want := map[int64][]string{}
	for range 4 {
		for _, group := range []int64{-5, 7, 1 << 62} {
			want[group] = append(want[group], id.Delivery.Format(w.enqueueIn(group, endpoint, `{}`)))
		}
	}
	for n := range 4 {
		if got := w.round(w.d); got != 3 {
			t.Fatalf("round %d: %d go out, want the head of each group", n, got)
		}
		w.advance(time.Millisecond)
	}
	for group, list := range want {
		got := slices.DeleteFunc(slices.Clone(heard.heard), func(s string) bool { return !slices.Contains(list, s) })
		if !slices.Equal(got, list) {
			t.Errorf("group %d: %v, want %v", group, got, list)
		}
	}
}

func TestHeadThatIsInFlightHoldsBackItsGroup(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := newWorld(t, g.Do)
	endpoint := w.endpoint()
	w.enqueueIn(1, endpoint, `{}`)
	w.enqueueIn(1, endpoint, `{}`)
	w.enqueueIn(2, endpoint, `{}`)
	if n := w.claim(w.d); n != 2 {
		t.Fatalf("%d go out", n)
	}
	other := w.another(always(200))
	if n := w.claim(w.d) + w.claim(other); n != 0 {
		t.Errorf("%d go out beside the heads", n)
	}
	g.answer <- 200
	g.answer <- 200
	w.settle(w.d)
	if n := w.claim(other); n != 1 {
		t.Errorf("%d go out after them", n)
	}
	w.settle(other)
}

// The next of a group goes when its head has ended, however it did; a head that waits holds back its group and no other.
func TestNextGoesWhenTheHeadHasEnded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, head id.ID){
		"succeeded": func(w *world, _ id.ID) {
			w.d.deps.Doer = always(200)
			w.advance(time.Minute)
			if n := w.round(w.d); n != 2 { // and the other group's second
				w.Fatalf("%d go out after a minute", n)
			}
		},
		"failed for good": func(w *world, head id.ID) {
			for _, delay := range DefaultSchedule {
				w.advance(delay)
				w.round(w.d)
			}
			if got := w.get(head); got.State != StateFailed {
				w.Fatalf("%+v", got)
			}
		},
		"cancelled": func(w *world, head id.ID) {
			if _, err := w.d.deps.Desk.Cancel(w.Context(), head, ReasonCancelledByUser); err != nil {
				w.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heard := &inTurn{reply: always(500)}
			w := newWorld(t, heard.Do)
			endpoint := w.endpoint()
			head, next := w.enqueueIn(1, endpoint, `{}`), w.enqueueIn(1, endpoint, `{}`)
			w.round(w.d)
			if got := w.lane(head); got != laneOrdered {
				t.Errorf("a head that failed waits in lane %d", got)
			}
			w.d.deps.Doer = always(200)
			w.advance(time.Second)
			w.enqueueIn(2, endpoint, `{}`)
			if n := w.round(w.d); n != 1 || w.get(next).Attempts != 0 {
				t.Fatalf("%d go out, of another group, while the head waits", n)
			}
			w.enqueueIn(2, endpoint, `{}`)
			w.d.deps.Doer = doer(heard.Do)
			if name == "succeeded" {
				end(w, head)
			} else {
				w.d.deps.Doer = always(200)
				w.round(w.d) // the other group's
				w.d.deps.Doer = doer(heard.Do)
				end(w, head)
			}
			w.d.deps.Doer = always(200)
			for w.round(w.d) > 0 {
				w.advance(time.Millisecond)
			}
			if got := w.get(next); got.State != StateSucceeded || got.Attempts != 1 {
				t.Errorf("the next: %+v", got)
			}
		})
	}
}

func TestScheduledHeadHoldsNothingBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint := w.endpoint()
	later := w.enqueueAs(NewDelivery{ID: w.ids.Next(), DueAt: noon.Add(time.Hour), Scheduled: true, Group: 1}, endpoint)
	w.enqueueIn(1, endpoint, `{}`)
	if n := w.round(w.d); n != 1 || w.get(later).State != Scheduled {
		t.Errorf("%d go out beside a head whose time is to come", n)
	}
	w.advance(time.Hour)
	if n := w.round(w.d); n != 1 || w.get(later).State != StateSucceeded {
		t.Errorf("%d go out when its time has come", n)
	}
}

// A delivery that is committed after a younger one of its group was claimed does not go out beside it.
func TestLateHeadDoesNotGoBesideTheOneInFlight(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := newWorld(t, g.Do)
	endpoint := w.endpoint()
	early := w.ids.Next()
	w.enqueueIn(1, endpoint, `{}`)
	if n := w.claim(w.d); n != 1 {
		t.Fatal(n)
	}
	late := w.enqueueAs(NewDelivery{ID: early, DueAt: w.clock(), Group: 1}, endpoint)
	if n := w.claim(w.d) + w.claim(w.another(g.Do)); n != 0 {
		t.Errorf("%d go out beside it", n)
	}
	g.answer <- 200
	w.settle(w.d)
	g.answer <- 200
	w.advance(time.Millisecond)
	if n := w.round(w.d); n != 1 || w.get(late).State != StateSucceeded {
		t.Errorf("%d go out after it", n)
	}
}

// However many come back by hand, from before what is in flight, none goes out beside it.
func TestManyRetriedByHandDoNotGoBesideTheOneInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(401))
	endpoint := w.endpoint()
	var failed []id.ID
	for range lateHeads + 1 {
		failed = append(failed, w.enqueueIn(1, endpoint, `{}`))
	}
	for w.round(w.d) > 0 {
		w.advance(time.Millisecond)
	}
	g := newGate()
	w.d.deps.Doer = doer(g.Do)
	w.enqueueIn(1, endpoint, `{}`)
	if n := w.claim(w.d); n != 1 {
		t.Fatal(n)
	}
	for _, delivery := range failed {
		if _, err := w.d.deps.Desk.Retry(t.Context(), delivery); err != nil {
			t.Fatal(err)
		}
	}
	n := w.claim(w.d)
	if n != 0 {
		t.Errorf("%d go out beside the one of their group that is in flight", n)
	}
	for range n + 1 {
		g.answer <- 200
	}
	w.settle(w.d)
}

// A failed one comes back into its group by hand, to its old place.
func TestManualRetryComesBackIntoItsGroup(t *testing.T) {
	t.Parallel()
	heard := &inTurn{reply: always(401)}
	w := newWorld(t, heard.Do)
	endpoint := w.endpoint()
	failed := w.enqueueIn(-3, endpoint, `{}`)
	w.round(w.d)
	next := w.enqueueIn(-3, endpoint, `{}`)
	if _, err := w.d.deps.Desk.Retry(t.Context(), failed); err != nil {
		t.Fatal(err)
	}
	if n := w.count(`SELECT count(*) FROM deliveries WHERE group_id = -3 AND lane = 2`); n != 2 {
		t.Errorf("%d are in the group", n)
	}
	heard.reply = always(200)
	w.round(w.d)
	w.advance(time.Millisecond)
	w.round(w.d)
	want := []string{id.Delivery.Format(failed), id.Delivery.Format(failed), id.Delivery.Format(next)}
	if !slices.Equal(heard.heard, want) {
		t.Errorf("%v, want %v", heard.heard, want)
	}
	if n := w.count(`SELECT count(*) FROM deliveries_finished WHERE group_id = -3 AND state = 'succeeded'`); n != 2 {
		t.Errorf("%d of the group succeeded", n)
	}
}

// A walk goes over more groups than a claim looks at, from the lowest number to the highest, and then from the start.
func TestWalkFindsEveryGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	w.d.cfg.MaxInFlight, w.d.cfg.MaxInFlightPerEndpoint = 2000, 1000
	w.d.results = make(chan result, 2000)
	endpoint := w.endpoint()
	event := w.ids.Next()
	const groups = 2*walkLimit + 40
	news := make([]NewDelivery, 0, groups+1)
	for n := range int64(groups) {
		group := (n - groups/2) << 50
		if n == groups/2 {
			group = firstGroup + 1
		}
		news = append(news, NewDelivery{
			Shard: endpoint.Shard, ID: w.ids.Next(), Tenant: w.tenant.ID.N, Event: event, Endpoint: endpoint.N,
			DueAt: w.clock(), Group: group,
		})
		if n == groups-1 || n == 0 {
			second := news[len(news)-1]
			second.ID = w.ids.Next()
			news = append(news, second)
		}
	}
	if _, err := w.db.Exec(t.Context(), `INSERT INTO events (shard, id, tenant_id, type, content_type, payload, delivery_ids)
			VALUES ($1, $2, $3, 'order.paid', 'application/json', '{}', '{}')`, endpoint.Shard, event, w.tenant.ID.N); err != nil {
		t.Fatal(err)
	}
	b := &pgx.Batch{}
	QueueNew(b, news)
	if err := w.db.SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
	rounds := 0
	for w.round(w.d) > 0 {
		rounds++
		w.advance(time.Microsecond)
	}
	if n := w.count(`SELECT count(*) FROM deliveries_finished WHERE state = 'succeeded'`); n != len(news) {
		t.Errorf("%d of %d went out in %d rounds", n, len(news), rounds)
	}
	for range 3 { // and with nothing left it does not walk on for ever
		if n := w.round(w.d); n != 0 {
			t.Errorf("%d more", n)
		}
	}
}

// A group behind hundreds that are held back is found.
func TestWalkPassesHeldBackGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint := w.endpoint()
	if _, err := w.db.Exec(t.Context(), `INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, attempts, failures,
			next_retry_at, lane, group_id)
		SELECT $1, 2 * g + n, $2, 1, $3, 'pending', 1 - n, 1 - n, $4::timestamptz + (1 - n) * interval '1 hour', 2, g
		  FROM generate_series(1, $5) g, generate_series(0, 1) n`,
		endpoint.Shard, w.tenant.ID.N, endpoint.N, w.clock(), 3*walkLimit); err != nil {
		t.Fatal(err)
	}
	if n := w.round(w.d); n != 0 {
		t.Fatalf("%d go out behind heads that wait", n)
	}
	free := w.enqueueIn(3*walkLimit+1, endpoint, `{}`)
	if n := w.round(w.d); n != 1 || w.get(free).State != StateSucceeded {
		t.Errorf("%d go out", n)
	}
}

// Many rounds of two dispatchers that claim at the same moment: never are two of one group in flight.
func TestTwoDispatchersNeverHaveTwoOfOneGroup(t *testing.T) {
	t.Parallel()
	const groups, each = 5, 12
	var mu sync.Mutex
	inFlight, last, twice, backwards := map[int64]int{}, map[int64]int64{}, 0, 0
	groupOf := map[string]int64{}
	receive := func(r *http.Request) (*http.Response, error) {
		name := posted(r)
		delivery, err := id.Delivery.Parse(name)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		group := groupOf[name]
		if inFlight[group]++; inFlight[group] > 1 {
			twice++
		}
		if delivery.N <= last[group] {
			backwards++
		}
		last[group] = delivery.N
		mu.Unlock()
		defer func() {
			mu.Lock()
			inFlight[group]--
			mu.Unlock()
		}()
		return reply(200, nil, "")
	}
	w := newWorld(t, receive)
	endpoint := w.endpoint()
	for range each {
		for group := range int64(groups) {
			groupOf[id.Delivery.Format(w.enqueueIn(group+1, endpoint, `{}`))] = group
		}
	}
	dispatchers := []*Dispatcher{w.d, w.another(receive)}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var busy sync.WaitGroup
	for _, d := range dispatchers {
		busy.Go(func() {
			for ctx.Err() == nil && w.ended() < groups*each {
				w.advance(10 * time.Millisecond) // so that lockRest passes, and no lease
				if _, err := d.claimOnce(ctx, ctx, allShards); err != nil {
					t.Error(err)
					return
				}
				w.settle(d)
			}
		})
	}
	busy.Wait()
	if twice+backwards > 0 || w.ended() != groups*each {
		t.Errorf("%d times two of a group were in flight, %d times one came after a younger; %d of %d ended", twice, backwards, w.ended(), groups*each)
	}
}

func (w *world) ended() int { return w.count(`SELECT count(*) FROM deliveries_finished`) }

// Which lane a delivery waits in follows from what became of it.
func TestLanesFollowWhatBecameOfADelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(500))
	endpoint := w.endpoint()
	plain, ordered := w.enqueue(endpoint, `{}`), w.enqueueIn(9, endpoint, `{}`)
	check := func(when string, wantPlain lane) {
		t.Helper()
		if a, b := w.lane(plain), w.lane(ordered); a != wantPlain || b != laneOrdered {
			t.Errorf("%s: lanes %d and %d, want %d and %d", when, a, b, wantPlain, laneOrdered)
		}
	}
	check("new", laneFirst)
	w.round(w.d)
	check("failed", laneRetry)
	for _, delivery := range []id.ID{plain, ordered} {
		if _, err := w.d.deps.Desk.Retry(t.Context(), delivery); err != nil {
			t.Fatal(err)
		}
	}
	check("retried by hand", laneFirst)
	dead := w.another(newGate().Do)
	ctx, kill := context.WithCancel(t.Context())
	if n, err := dead.claimOnce(ctx, ctx, allShards); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	kill()
	dead.senders.Wait()
	w.advance(2 * time.Minute)
	if n, err := w.d.rescue(t.Context()); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	w.settle(w.d)
	check("rescued", laneFirst)
	w.round(w.d)
	check("failed again", laneRetry)
	w.advance(time.Minute)
	w.round(w.d)
	check("and again", laneRetry)
	if n := w.count(`SELECT sum(failures) FROM deliveries`); n != 4 {
		t.Errorf("%d failures", n)
	}
}

// An endpoint that the database refuses to claim of costs itself, not those behind it.
func TestEndpointThatCannotBeClaimedOfHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint := w.endpoint()
	delivery := w.enqueueIn(1, endpoint, `{}`)
	bad := map[int16][]wish{
		0:              {{endpoint: 1, lane: laneOrdered, slots: -1, group: firstGroup}}, // LIMIT must not be negative
		endpoint.Shard: {{endpoint: endpoint.N, lane: laneOrdered, slots: 1, group: firstGroup}},
	}
	got, err := w.d.claimOrdered(t.Context(), bad)
	if err != nil || len(got) != 1 || got[0].ID != delivery.N {
		t.Errorf("%v, %v", got, err)
	}
	alone := func(e id.ID) bool { return w.d.roads.to(e).closedUntil.After(w.clock()) }
	if !alone(id.ID{N: 1}) || alone(endpoint) {
		t.Error("the endpoint is asked again at once, or the other one is not")
	}
}

// Somebody who holds an endpoint's row for long holds up that endpoint's groups and nothing else.
func TestLockedEndpointHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	locked, free := w.endpoint(), w.endpoint()
	w.enqueueIn(1, locked, `{}`)
	delivery := w.enqueue(free, `{}`)
	tx, err := w.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM endpoints WHERE shard = $1 AND id = $2 FOR NO KEY UPDATE`, locked.Shard, locked.N); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // less than dbPatience
	defer cancel()
	if _, err := w.d.claimOnce(ctx, ctx, allShards); err != nil {
		t.Error(err)
	}
	w.settle(w.d)
	if got := w.get(delivery); got.State != StateSucceeded {
		t.Errorf("another endpoint's delivery waits for the lock: %+v", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A head that is committed between the looks of two claims: the second must see what the first takes.
func TestTwoClaimsOfOneEndpointDoNotOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	endpoint := w.endpoint()
	early := w.ids.Next()
	w.enqueueIn(1, endpoint, `{}`)
	first := w.another(always(200))
	args := first.leaseArgs(w.clock(), withEvents)
	args["shard"], args["endpoint"], args["slots"], args["group"] = endpoint.Shard, endpoint.N, 1, firstGroup
	args["walk"], args["late"], args["returned"] = walkLimit, lateHeads, returnedHeads
	args["now"], args["until_due"], args["lane"] = w.clock(), w.clock(), laneOrdered
	tx, err := w.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	for sql, args := range map[string]pgx.StrictNamedArgs{
		oneAtATimeSQL: {"shard": endpoint.Shard, "endpoints": []int64{endpoint.N}}, orderedSQL: args,
	} {
		if _, err := tx.Exec(t.Context(), sql, args); err != nil {
			t.Fatal(err)
		}
	}
	w.enqueueAs(NewDelivery{ID: early, DueAt: w.clock(), Group: 1}, endpoint)
	if n := w.claim(w.d); n != 0 {
		t.Errorf("%d go out while another process claims", n)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.advance(time.Second)
	if n := w.claim(w.d); n != 0 {
		t.Errorf("%d go out beside what it has claimed", n)
	}
	w.settle(w.d)
}
