// Package dispatcher is the life of a delivery: claim → send → classify → decide → record.
//
// It claims due deliveries in batches by a short lease (FOR UPDATE SKIP LOCKED, never a transaction open while a request
// is on its way), signs and posts each, judges what came back, and records many results in one transaction, only where
// the lease is still its own. What a crash leaves behind is tried again when its lease ends.
//
// The stages are apart: signing, classifying and deciding are pure; only send touches the network, only claim, record
// and their like the database. The package does not accept events (internal/intake), does not know what an endpoint may
// be (subscriptions), sends no alert (internal/alert), and knows the network only as a Doer.
package dispatcher

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pulse"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// Config is what an operator may turn; CONTRACT §6 has the defaults.
type Config struct {
	RetrySchedule          []time.Duration
	RetryJitter            float64 // 0 to 1: the share of a delay that may be added to it
	Timeout                time.Duration
	Lease                  time.Duration // at least twice the longest timeout
	MaxInFlight            int
	MaxInFlightPerEndpoint int
	ResponseBodyLimit      int64 // bytes
	DisableAfter           time.Duration
	AlertAfterFailures     int
	UserAgent              string
	Grace                  time.Duration // how long a stop waits for requests on their way
}

// Metrics hears of what happens. It must not keep anybody waiting.
type Metrics interface {
	// Attempt is one that history has now. The status is 0 where no whole answer came, and it took 0 if nobody knows how long.
	Attempt(outcome string, status int, took time.Duration)
	Delivered(latency time.Duration)
	InFlight(delta int)
	Claimed(deliveries int, took time.Duration)
	Recorded(attempts int, took time.Duration) // in one transaction
	RecordFailed()
	Rescued(attempts int)
	LeasesLost(attempts int)
}

// Tally hears of what has been recorded, once it is, by endpoint and by the time at which the attempt ended. It must not keep
// the recorder waiting.
type Tally interface {
	// Attempt is one attempt that history has now. It took 0 if nobody knows how long.
	Attempt(endpoint id.ID, outcome Outcome, took time.Duration, ended time.Time)
	// Finished is a delivery that has succeeded or failed for good.
	Finished(endpoint id.ID, outcome Outcome, ended time.Time)
}

// Deps is what a dispatcher works with.
type Deps struct {
	DB       *pgxpool.Pool
	Queue    *pgxpool.Pool // for the statements of the queue (pg.OpenQueue); nil: DB
	Pooled   bool          // Queue is one of pg.OpenPooled
	IDs      *id.Generator
	Now      func() time.Time // the database's clock: schedules and leases
	Doer     Doer
	Store    *subscriptions.Store
	Desk     *Desk // cancels what a closed endpoint leaves behind
	Metrics  Metrics
	Tally    Tally  // nil: nobody wants to hear of it
	Tracer   Tracer // nil: nothing is traced
	Log      zerolog.Logger
	WallTime func() time.Time // this process's clock: timestamps in signatures
}

// Dispatcher claims and delivers. Make it with New, then Run it.
type Dispatcher struct {
	cfg   Config
	deps  Deps
	log   zerolog.Logger
	owner int64 // names this process's leases; never used again by another
	// common says that Queue is a pool like any other: what has to be planned as the queue's statements are says so each time.
	common bool
	agent  int16 // the number of cfg.UserAgent; 0: not registered yet. Only the recorder looks

	roads      *roads
	targets    *targets
	woken      wakes                    // to the loop that looks
	news       chan struct{}            // to the claim loop
	results    chan result              // to the recorder
	inFlight   atomic.Int64             // claimed and not recorded; only the claim loop adds
	memory     *semaphore.Weighted      // bytes of large payloads held at once
	sickUntil  [id.Buckets]atomic.Int64 // buckets left alone for a while; Unix nanoseconds
	closing    sync.Map                 // id.ID of endpoints whose deliveries are just being cancelled
	complained sync.Map                 // id.ID to time.Time
	errands    chan errand              // what is claimed and not begun
	few        int64                    // how many carriers there may be while receivers are quick
	carriers   atomic.Int64             // how many there are
	enough     atomic.Int64             // how many there may be
	busy       atomic.Int64             // how many carry something
	begun      atomic.Int64             // deliveries that a carrier has taken, ever
	senders    sync.WaitGroup           // deliveries in flight
	tasks      sync.WaitGroup           // cancellations on their way
	claiming   pulse.Pulse              // of the loops, for who watches over them
	looking    pulse.Pulse
	recording  pulse.Pulse
	beside     context.Context //nolint:containedctx // of tasks, which belong to no call
	stopBeside context.CancelFunc
}

// New makes a dispatcher.
func New(cfg Config, deps Deps) *Dispatcher {
	if deps.Queue == nil {
		deps.Queue = deps.DB
	}
	d := &Dispatcher{
		cfg: cfg, deps: deps, log: deps.Log, owner: deps.IDs.Next(), common: deps.Pooled,
		roads: newRoads(), targets: &targets{load: deps.Store.Targets, known: map[id.ID]knownTarget{}},
		woken: newWakes(), news: make(chan struct{}, 1), results: make(chan result, cfg.MaxInFlight+rescueBatch),
		errands: make(chan errand, cfg.MaxInFlight), few: int64(carriersPerCore * runtime.GOMAXPROCS(0)),
		memory: semaphore.NewWeighted(largePayloads),
	}
	d.enough.Store(d.few)
	d.beside, d.stopBeside = context.WithCancel(context.Background())
	return d
}

// result is one attempt with what was decided about it, on its way to the record.
type result struct {
	claimed  claimed
	owner    int64 // of the lease it ran under
	target   *subscriptions.Target
	outcome  Outcome
	answer   answer
	decision Decision

	attemptID int64
	begun     time.Time // by the clock that schedules run on
	signedAt  int64     // Unix seconds
	signature string
	endedAt   time.Time

	made      bool // by this process: history keeps it whoever holds the lease now
	noAttempt bool // nothing went out: history has nothing to keep, and the number is free again
	ownSlot   bool // it counts as in flight here
	opens     bool // its endpoint's breaker: one failure too many in a row

	span AttemptSpan // nil: it is not traced
}

func (r result) deliveryID() string { return id.Delivery.Format(r.claimed.delivery()) }

// deliver takes one claimed delivery through its stages. ctx is the work's: it ends when a stop has waited long enough,
// and an attempt that it interrupts costs the delivery nothing. read is when the target was looked at.
func (d *Dispatcher) deliver(ctx context.Context, c claimed, target *subscriptions.Target, read time.Time) {
	r := result{claimed: c, owner: d.owner, target: target, ownSlot: true}
	defer d.survive(&r)
	if err := d.mayBegin(ctx, c, target); err != nil {
		d.finish(d.putBack(ctx, r, err))
		return
	}
	payload, release, err := d.payload(ctx, c, target)
	if err != nil {
		d.finish(d.putBack(ctx, r, err))
		return
	}
	defer release()
	if r.target, err = d.stillThere(ctx, r.target, read); err != nil {
		d.finish(d.putBack(ctx, r, err))
		return
	}

	body, contentType, err := d.body(ctx, c, r.target, payload)
	if err != nil {
		d.finish(d.putBack(ctx, r, err))
		return
	}
	d.begin(ctx, &r)
	headers, err := d.sign(&r, body, contentType)
	if err != nil {
		d.finish(unsendable(r, err))
		return
	}
	r.attemptID, r.begun = d.deps.IDs.Next(), d.deps.Now()
	r.answer = d.send(ctx, r.target, headers, body)
	if r.answer.err != nil && ctx.Err() != nil {
		d.finish(interrupted(r, d.deps.Now()))
		return
	}
	r.made, r.endedAt = true, d.deps.Now()
	r.outcome = Classify(r.answer.status, r.answer.err)
	r.decision = Decide(d.facts(r))
	d.finish(r)
}

// mayBegin waits for the delivery's slot. It is an error if it has none, if its event could not be read, or if its lease
// leaves no time for an attempt, as after a process that stood still: somebody else may have it by now.
func (d *Dispatcher) mayBegin(ctx context.Context, c claimed, t *subscriptions.Target) error {
	if c.spoilt != nil {
		return c.spoilt
	}
	if err := d.awaitSlot(ctx, c); err != nil {
		return err
	}
	if time.Until(c.leaseEnds) < d.timeout(t) {
		return errLate
	}
	return nil
}

// stillThere gives the target as it is now, if it was read more than a second ago: a large payload may have waited for
// memory meanwhile. It is an error if nothing may be sent to it any more.
func (d *Dispatcher) stillThere(ctx context.Context, t *subscriptions.Target, read time.Time) (*subscriptions.Target, error) {
	if time.Since(read) < targetsMaxAge {
		return t, nil
	}
	fresh, err := d.targets.fresh(ctx, []id.ID{t.Endpoint})
	if err != nil {
		return t, err
	}
	if !d.mayReceive(t.Endpoint, fresh[0]) {
		return t, errClosed
	}
	return fresh[0], nil
}

// sign makes the attempt's headers with a timestamp of this very moment.
func (d *Dispatcher) sign(r *result, body []byte, contentType *string) ([]signer.Header, error) {
	c, now := r.claimed, d.deps.WallTime()
	if c.EventType == nil || contentType == nil {
		return nil, errNoEvent
	}
	r.signedAt = now.Unix()
	message := signer.Message{
		EventID: id.Event.Format(c.event()), DeliveryID: r.deliveryID(), EventType: *c.EventType,
		Timestamp: r.signedAt, Body: body,
	}
	signed, err := signer.Sign(r.target.Scheme, r.target.SignatureHeader, r.target.Valid(d.deps.Now()), message)
	if err != nil {
		return nil, err //nolint:wrapcheck // says it all
	}
	r.signature = signer.Signature(r.target.Scheme, r.target.SignatureHeader, signed)
	return requestHeaders(headerFacts{
		contentType: *contentType, userAgent: d.cfg.UserAgent, deliveryID: message.DeliveryID, eventType: *c.EventType,
		attempt: c.Attempts, replay: c.Origin == replayed, fetched: c.Pull, signed: signed, static: r.target.Headers,
		traceParent: r.traceParent(),
	}), nil
}

// facts gathers what Decide needs.
func (d *Dispatcher) facts(r result) Facts {
	f := Facts{
		Outcome: r.outcome, Status: r.answer.status, Header: r.answer.header,
		Failures: r.claimed.Failures, Rescues: r.claimed.Rescues, Schedule: d.schedule(r.target), Now: r.endedAt,
		Jitter:       rand.Float64() * d.cfg.RetryJitter,
		FailingSince: r.target.FailingSince, DisableAfter: d.cfg.DisableAfter,
	}
	if r.claimed.Origin == replayed {
		f.DisableAfter = 0 // what is sent again does not switch an endpoint off
	}
	return f
}

func (d *Dispatcher) schedule(t *subscriptions.Target) []time.Duration {
	if t.RetrySchedule != nil {
		return t.RetrySchedule
	}
	return d.cfg.RetrySchedule
}

func (d *Dispatcher) timeout(t *subscriptions.Target) time.Duration {
	if t.Timeout > 0 {
		return min(t.Timeout, d.cfg.Lease/2)
	}
	return d.cfg.Timeout
}

// finish frees the endpoint's slot, lets its pace learn, and hands the result to the recorder. It counts as in flight here
// until it is recorded.
func (d *Dispatcher) finish(r result) {
	r.endSpan()
	s, unwell := r.judged()
	inARow := d.roads.left(r.claimed, s, unwell, d.cap(r.target), r.begun, d.deps.Now())
	r.opens = unwell && inARow >= breakerAfter && r.target.Breaker == subscriptions.BreakerClosed
	if r.opens || !r.decision.PauseUntil.IsZero() { // from here nothing more goes out, even before it is recorded
		now := d.deps.Now()
		d.roads.hold(r.claimed.endpoint(), now.Add(targetsMaxAge), now)
	}
	d.results <- r
	// With much in flight the record, some milliseconds later, has the loop claim much at once. With little, an endpoint whose
	// cap is small would stand idle until then.
	if d.inFlight.Load() < d.few && d.roads.waits(r.claimed.endpoint(), d.cap(r.target), d.deps.Now()) {
		d.nudge()
	}
}
