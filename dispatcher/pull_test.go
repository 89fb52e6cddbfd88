package dispatcher

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// puller is a world with an endpoint that is fetched from.
type puller struct {
	*world
	p        *Pull
	endpoint id.ID
	secret   signer.Secret
}

func newPuller(t *testing.T) *puller {
	t.Helper()
	w := newWorld(t, func(*http.Request) (*http.Response, error) {
		t.Error("something was sent")
		return reply(200, nil, "")
	})
	p := &puller{world: w, p: w.pull()}
	p.endpoint, p.secret = w.pullEndpoint()
	return p
}

// pull makes what gives away, as each process that takes requests has one.
func (w *world) pull() *Pull {
	box, err := seal.New([][]byte{bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		w.Fatal(err)
	}
	return NewPull(Config{Lease: time.Minute, AlertAfterFailures: 5}, PullDeps{
		Deps: Deps{
			DB: w.db, IDs: w.ids, Now: w.clock, Store: w.store, Metrics: Unmeasured(),
			Log: zerolog.New(zerolog.NewTestWriter(w.T)), WallTime: time.Now,
		},
		Marks: Marks{box},
	})
}

func (w *world) pullEndpoint() (id.ID, signer.Secret) {
	w.Helper()
	e, secret, err := w.store.CreateEndpoint(w.Context(), w.tenant, subscriptions.NewEndpoint{Kind: subscriptions.Pull})
	if err != nil {
		w.Fatal(err)
	}
	return e.ID, secret
}

// poll gives what a poll brings at once.
func (p *puller) poll(limit int) []Pulled {
	p.Helper()
	got, err := p.p.Poll(p.Context(), p.endpoint, Ask{Limit: limit})
	if err != nil {
		p.Fatal(err)
	}
	return got
}

func (p *puller) ack(tokens ...string) []AckState {
	p.Helper()
	acked, err := p.p.Ack(p.Context(), p.endpoint, p.tenant.ID, tokens)
	if err != nil {
		p.Fatal(err)
	}
	var states []AckState
	for _, a := range acked {
		states = append(states, a.State)
	}
	return states
}

// owe makes n deliveries, each due a second after the one before.
func (p *puller) owe(n int) (deliveries []id.ID) {
	p.Helper()
	for range n {
		p.advance(time.Second)
		deliveries = append(deliveries, p.enqueuePull(p.endpoint, `{"n": 1.0}`))
	}
	return deliveries
}

func deliveriesOf(got []Pulled) (deliveries []id.ID) {
	for _, g := range got {
		deliveries = append(deliveries, g.Delivery)
	}
	return deliveries
}

func TestPollGivesTheOldestFirstEachToOne(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	owed := p.owe(5)
	first, second := p.poll(2), p.poll(10)
	if got := deliveriesOf(slices.Concat(first, second)); !slices.Equal(got, owed) {
		t.Errorf("polls gave %v, want %v", got, owed)
	}
	if more := p.poll(10); len(more) > 0 {
		t.Errorf("what is leased was given to another: %v", more)
	}
	for _, g := range first {
		if g.Attempt != 1 || g.ContentType != "application/json" || g.EventType != "order.paid" || string(g.Payload) != `{"n": 1.0}` ||
			!g.LeasedUntil.Equal(p.clock().Add(time.Minute)) {
			t.Errorf("it is %+v", g)
		}
	}
	if states := p.ack(first[0].Token, first[1].Token); !slices.Equal(states, []AckState{Acknowledged, Acknowledged}) {
		t.Errorf("acknowledged: %v", states)
	}
}

// Whoever polls beside others gets what they do not.
func TestPollsSideBySideShareNothing(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	owed := p.owe(60)
	var mu sync.Mutex
	var given []id.ID
	var polls sync.WaitGroup
	for range 6 {
		another := p.pull()
		polls.Go(func() {
			for {
				got, err := another.Poll(t.Context(), p.endpoint, Ask{Limit: 7})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				given = append(given, deliveriesOf(got)...)
				all := len(given) >= len(owed)
				mu.Unlock()
				if all {
					return
				}
			}
		})
	}
	polls.Wait()
	slices.SortFunc(given, id.ID.Compare)
	if !slices.Equal(given, owed) {
		t.Errorf("%d were given away of %d: %v", len(given), len(owed), given)
	}
}

// What dies with its poller is given out again, at once and behind what is due, however often. It counts as failed, is told of
// after five, and never switches the endpoint off.
func TestWhatIsNotAcknowledgedIsGivenOutAgain(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	p.p.d.cfg.DisableAfter = time.Second
	dlv := p.owe(1)[0]
	for attempt := 1; attempt <= 7; attempt++ {
		got := p.poll(1)
		if len(got) != 1 || got[0].Delivery != dlv || got[0].Attempt != attempt {
			t.Fatalf("poll %d gave %+v", attempt, got)
		}
		p.advance(time.Minute)
		if early := p.poll(1); len(early) > 0 {
			t.Fatalf("given out within its lease: %+v", early)
		}
		p.advance(time.Millisecond)
		alerts := 0
		if attempt > 5 {
			alerts = 1
		}
		if n := p.count(`SELECT count(*) FROM alerts WHERE kind = 'delivery.failing' AND state = 'open'`); n != alerts {
			t.Errorf("after %d leases, %d alerts", attempt-1, n)
		}
	}
	next := p.owe(1)[0]
	p.advance(time.Millisecond)
	if got := deliveriesOf(p.poll(2)); !slices.Equal(got, []id.ID{next, dlv}) {
		// The lease has ended, and with this very poll it goes behind what came meanwhile.
		t.Errorf("behind what is due it is %v, want %v", got, []id.ID{next, dlv})
	}
	attempts := p.attempts(dlv)
	if len(attempts) != 7 || attempts[0].Outcome != Timeout || attempts[0].Timings.Total != nil || !strings.Contains(attempts[0].Error, "not acknowledged") ||
		attempts[0].ErrorDetail != "" || attempts[0].Address != "" {
		t.Fatalf("its attempts are %+v", attempts)
	}
	if n := p.count(`SELECT consecutive_failures FROM endpoints WHERE status = 'enabled' AND kind = 'pull'`); n != 7 {
		t.Errorf("the endpoint has %d failures", n)
	}
	p.advance(time.Minute + time.Millisecond)
	again := p.poll(2)
	p.ack(again[0].Token, again[1].Token)
	if got := p.get(dlv); got.State != StateSucceeded || got.Attempts != 9 {
		t.Errorf("acknowledged it is %+v", got)
	}
	if n := p.count(`SELECT consecutive_failures FROM endpoints WHERE failing_since IS NULL AND last_error IS NULL AND kind = 'pull'`); n != 0 {
		t.Errorf("acknowledged, the endpoint has %d failures", n)
	}
	if n := p.count(`SELECT count(*) FROM alerts WHERE state = 'resolved'`); n != 1 {
		t.Errorf("%d alerts are resolved", n)
	}
}

// A dispatcher's rescue puts back what a poller has left behind, the same as a poll does, and says nothing of dead processes.
func TestARescuePutsBackWhatWasNotAcknowledged(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	dlv := p.owe(1)[0]
	p.poll(1)
	p.advance(2 * time.Minute)
	if n, err := p.d.rescue(t.Context()); err != nil || n != 0 {
		t.Fatalf("rescued %d, %v", n, err)
	}
	p.settle(p.d)
	got := p.get(dlv)
	if got.State != Pending || got.Attempts != 1 || *got.LastOutcome != Timeout || !got.NextAttemptAt.Equal(p.clock()) || p.lane(dlv) != lanePull {
		t.Errorf("put back it is %+v in lane %d", got, p.lane(dlv))
	}
	if attempts := p.attempts(dlv); len(attempts) != 1 || attempts[0].Outcome != Timeout {
		t.Errorf("its attempts are %+v", attempts)
	}
	if n := p.round(p.d); n != 0 {
		t.Errorf("%d were claimed by a dispatcher", n)
	}
	if again := p.poll(1); len(again) != 1 || again[0].Attempt != 2 {
		t.Errorf("polled again: %+v", again)
	}
}

// A dispatcher has no eyes for what is to be fetched, whichever way it came there; and for the rest it has.
func TestDispatchersLeaveWhatIsFetched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(http.StatusInternalServerError))
	p := &puller{world: w, p: w.pull()}
	p.endpoint, p.secret = w.pullEndpoint()
	pushed := p.enqueue(p.world.endpoint(), `{}`)
	owed := p.owe(4)
	p.d.Accepted([]NewDelivery{{Shard: owed[0].Shard, ID: owed[0].N, Endpoint: p.endpoint.N, DueAt: p.clock(), Pull: true}})
	if n := p.round(p.d); n != 1 || p.get(pushed).Attempts != 1 {
		t.Errorf("%d were claimed, and the pushed one is %+v", n, p.get(pushed))
	}
	got := p.poll(1)
	p.ack(got[0].Token)
	desk := p.d.deps.Desk
	for _, dlv := range []id.ID{owed[0], owed[1]} { // one that is finished, one that waits
		if _, err := desk.Retry(t.Context(), dlv); err != nil {
			t.Fatal(err)
		}
		if p.lane(dlv) != lanePull {
			t.Errorf("retried by hand, %v is in lane %d", dlv, p.lane(dlv))
		}
	}
	got = p.poll(1)
	p.ack(got[0].Token)
	states := []State{Pending, StateSucceeded}
	if n := p.again(QueueRetries, states, owed...); n != 4 {
		t.Errorf("%d were retried", n)
	}
	for _, dlv := range owed {
		if p.lane(dlv) != lanePull {
			t.Errorf("retried by a job, %v is in lane %d", dlv, p.lane(dlv))
		}
	}
	p.advance(time.Second)
	if n := p.round(p.d); n != 0 {
		t.Errorf("%d were claimed", n)
	}
	if _, err := desk.Cancel(t.Context(), owed[3], ReasonCancelledByUser); err != nil {
		t.Fatal(err)
	}
	if got := p.poll(10); len(got) != 3 {
		t.Errorf("%d were left to fetch", len(got))
	}
	u, err := desk.CountUnfinished(t.Context())
	if err != nil || u.Counts[InFlight] != 3 || !u.OldestDue.IsZero() {
		t.Errorf("unfinished is %+v, %v", u, err)
	}
}

func TestOldestDueOfWhatIsFetched(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	p.owe(1)
	since := p.clock()
	p.advance(time.Hour)
	due, err := p.d.deps.Desk.OldestDue(t.Context(), p.endpoint)
	if err != nil || due == nil || !due.Equal(since) {
		t.Errorf("the oldest is due since %v, want %v, %v", due, since, err)
	}
	u, err := p.d.deps.Desk.CountUnfinished(t.Context())
	if err != nil || u.Counts[Pending] != 1 || !u.OldestDue.IsZero() {
		t.Errorf("no dispatcher is behind, but unfinished is %+v, %v", u, err)
	}
}

// A poll that waits is woken by what comes, and by nothing else's coming; ends with its caller; and is not waited for by a stop.
func TestAPollWaits(t *testing.T) {
	t.Parallel()
	p, stop := newPuller(t), make(chan struct{})
	p.p.stopping = stop
	waits := func() bool { return !p.p.waiting.none() }
	began := func(ctx context.Context) (<-chan []Pulled, <-chan error) {
		got, failed := make(chan []Pulled, 1), make(chan error, 1)
		go func() {
			g, err := p.p.Poll(ctx, p.endpoint, Ask{Limit: 5, Wait: MaxPullWait})
			got <- g
			failed <- err
		}()
		p.until(waits)
		return got, failed
	}
	got, failed := began(t.Context())
	dlv := p.owe(1)[0]
	p.p.Accepted([]NewDelivery{{Shard: dlv.Shard, ID: dlv.N, Endpoint: p.endpoint.N, Pull: true}})
	if g, err := <-got, <-failed; err != nil || len(g) != 1 || g[0].Delivery != dlv {
		t.Errorf("woken it came back with %+v, %v", g, err)
	}
	ctx, leave := context.WithCancel(t.Context())
	got, failed = began(ctx)
	leave()
	if g, err := <-got, <-failed; !errors.Is(err, context.Canceled) || len(g) != 0 {
		t.Errorf("given up it came back with %+v, %v", g, err)
	}
	got, failed = began(t.Context())
	close(stop)
	if g, err := <-got, <-failed; err != nil || len(g) != 0 {
		t.Errorf("after a stop it came back with %+v, %v", g, err)
	}
	if waits() {
		t.Error("somebody is said to wait still")
	}
}

func TestPollsWaitInBounds(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	for range maxWaitingEach {
		w, err := p.p.waiting.enter(p.endpoint)
		if err != nil {
			t.Fatal(err)
		}
		defer p.p.waiting.leave(w)
	}
	if _, err := p.p.Poll(t.Context(), p.endpoint, Ask{Limit: 1, Wait: time.Second}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("one more waits: %v", err)
	}
	p.owe(1)
	if got, err := p.p.Poll(t.Context(), p.endpoint, Ask{Limit: 1, Wait: time.Second}); err != nil || len(got) != 1 {
		t.Errorf("what is due is given to it all the same: %v, %v", got, err)
	}
}

// until looks again and again, as long as the test may take.
func (w *world) until(is func() bool) {
	w.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-w.Context().Done():
			w.Fatal("it did not come to that")
		}
	}
}

// One whose event is gone, and one that the database does not give away, cost themselves alone.
func TestWhatCannotBeFetchedIsParked(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	owed := p.owe(3)
	p.exec(`DELETE FROM events WHERE id = (SELECT event_id FROM deliveries ORDER BY id LIMIT 1)`)
	p.exec(`UPDATE events SET payload = 'spoilt' WHERE id = (SELECT event_id FROM deliveries ORDER BY id DESC LIMIT 1)`)
	p.damage()
	for range maxRescues {
		p.poll(10)
		p.advance(spoiltWait + time.Millisecond)
	}
	if got := p.get(owed[0]); got.State != StateFailed || got.Reason != ReasonUnsendable {
		t.Errorf("without its event it is %+v", got)
	}
	if got := p.get(owed[1]); got.State != InFlight {
		t.Errorf("the sound one is %+v", got)
	}
	if got := p.get(owed[2]); got.State != StateFailed || got.Reason != ReasonPoisoned {
		t.Errorf("the spoilt one is %+v", got)
	}
}

// An answer has no more payloads than fit, and the largest of all alone.
func TestPayloadsOfAnAnswerAreBounded(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	half := strings.Repeat("x", pullBytes/2)
	for _, payload := range []string{half, half, half, half + half + "x", "y"} {
		p.advance(time.Second)
		p.enqueuePull(p.endpoint, payload)
	}
	var sizes [][]int
	for range 3 {
		var of []int
		for _, g := range p.poll(10) {
			of = append(of, len(g.Payload))
		}
		sizes = append(sizes, of)
	}
	want := [][]int{{pullBytes / 2, pullBytes / 2}, {pullBytes / 2, pullBytes + 1}, {1}}
	if !slices.EqualFunc(sizes, want, slices.Equal) {
		t.Errorf("polls gave payloads of %v bytes, want %v", sizes, want)
	}
}

// Of what is leased and not acknowledged there is an end.
func TestOnlySoManyAreLeasedAtOnce(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	p.owe(1)
	p.exec(`INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, lane, state, attempts, next_retry_at, lease_owner, leased_until)
		SELECT d.shard, n, d.tenant_id, d.event_id, d.endpoint_id, 4, 'in_flight', 1, d.next_retry_at - interval '1 second', n, d.next_retry_at + interval '1 hour'
		  FROM deliveries d, generate_series(1, 1000) n`)
	if got := p.poll(10); len(got) != 0 {
		t.Errorf("one more was leased: %+v", got)
	}
}

// Whose endpoint is deleted while it is leased ends with its lease.
func TestADeletedEndpointsLeases(t *testing.T) {
	t.Parallel()
	p := newPuller(t)
	owed := p.owe(2)
	token := p.poll(1)[0].Token
	if _, err := p.store.DeleteEndpoint(t.Context(), p.tenant, id.Endpoint.Format(p.endpoint)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.d.deps.Desk.CancelUnfinished(t.Context(), p.endpoint, ReasonEndpointDeleted); err != nil {
		t.Fatal(err)
	}
	if got := p.get(owed[1]); got.State != StateCancelled {
		t.Errorf("the one that waited is %+v", got)
	}
	p.advance(2 * time.Minute)
	if _, err := p.d.rescue(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.settle(p.d)
	if got := p.get(owed[0]); got.State != StateCancelled || got.Reason != ReasonEndpointDeleted {
		t.Errorf("the one that was leased is %+v", got)
	}
	if states := p.ack(token); states[0] != AckLost {
		t.Errorf("it is acknowledged nevertheless: %v", states)
	}
}
