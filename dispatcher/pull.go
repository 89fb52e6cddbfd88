package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// Deliveries of an endpoint of kind pull wait in a lane that no dispatcher claims from. Their owner fetches them: a poll leases
// what is due and signs it as a request would be, an acknowledgement finishes it, and what is not acknowledged before its
// lease ends is there for the next poll. It works where no dispatcher runs; see docs/decisions/0031.

// PullDeps is what a Pull works with, beside what a dispatcher does: of that it needs neither Doer nor Desk, nor a pool for the
// queue: polls are not to take that from the dispatcher. Metrics may be nil.
type PullDeps struct {
	Deps
	Marks Marks
	// Stopping is closed when the process begins to stop: polls that wait come back empty, and from then on none waits. What is due is
	// given away all the same. nil: it never stops.
	Stopping <-chan struct{}
}

// Pull gives deliveries away to be acknowledged. It may be used by several goroutines at once.
type Pull struct {
	d        *Dispatcher // never run: what signs and records is its own
	marks    Marks
	waiting  *waiting
	stopping <-chan struct{}
}

// NewPull makes one. Of cfg it needs Lease, AlertAfterFailures and nothing else.
func NewPull(cfg Config, deps PullDeps) *Pull {
	deps.Queue = deps.DB
	if deps.Metrics == nil {
		deps.Metrics = Unmeasured()
	}
	return &Pull{
		d:     &Dispatcher{cfg: cfg, deps: deps.Deps, log: deps.Log, common: true},
		marks: deps.Marks, waiting: newWaiting(), stopping: deps.Stopping,
	}
}

// query runs one statement, planned as those of the queue are (pg.OpenQueue).
func (p *Pull) query(ctx context.Context, sql string, args pgx.StrictNamedArgs, read func(pgx.Rows) error) error {
	ctx, cancel := context.WithTimeout(ctx, dbPatience)
	defer cancel()
	b := &pgx.Batch{}
	pg.PlanByIndex(b)
	b.Queue(sql, args).Query(read)
	return p.d.deps.DB.SendBatch(ctx, b).Close() //nolint:wrapcheck // whoever asks says what for
}

// What a poll may ask for.
const (
	MaxPull      = 100 // deliveries at once
	MaxPullWait  = 30 * time.Second
	MinPullLease = time.Second
	MaxPullLease = time.Hour
)

// Ask is what a poll asks for.
type Ask struct {
	Limit int           // 1 to MaxPull
	Wait  time.Duration // for the first delivery, when none is due; at most MaxPullWait
	Lease time.Duration // MinPullLease to MaxPullLease; 0: delivery.lease
}

// A waiting poll looks again by itself, less and less often: whoever makes deliveries in another process tells it nothing.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
)

// Poll leases what is due to an endpoint of kind pull, the oldest first. With nothing due it waits, holding nothing of the
// database, and comes back empty when the time is up or the process is about to stop. A disabled endpoint is a conflict.
//
// What is leased to a caller who has gone by then is put back.
func (p *Pull) Poll(ctx context.Context, endpoint id.ID, ask Ask) ([]Pulled, error) {
	if ask.Lease == 0 {
		ask.Lease = p.d.cfg.Lease
	}
	var w waiter
	var full error
	if ask.Wait > 0 {
		if w, full = p.waiting.enter(endpoint); full == nil { // before the first look: what comes after it is told of
			defer p.waiting.leave(w)
		}
	}
	got, err := p.take(ctx, endpoint, ask)
	if err != nil || len(got) > 0 || ask.Wait <= 0 {
		return got, err
	}
	if full != nil {
		return nil, full
	}
	over := time.NewTimer(ask.Wait)
	defer over.Stop()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		again := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			err = fmt.Errorf("wait for what is due: %w", ctx.Err())
		case <-p.stopping:
		case <-over.C:
		case <-w.signal:
			got, err = p.take(ctx, endpoint, ask)
			pause = firstPause
			if err == nil && len(got) == 0 {
				again.Stop()
				continue
			}
		case <-again.C:
			if got, err = p.take(ctx, endpoint, ask); err == nil && len(got) == 0 {
				continue
			}
		}
		again.Stop()
		return got, err
	}
}

// Accepted hints that deliveries have come into being. It never blocks, and costs next to nothing while nobody waits.
func (p *Pull) Accepted(news []NewDelivery) {
	if p.waiting.none() {
		return
	}
	for i := range news {
		if n := &news[i]; n.Pull {
			p.waiting.wake(func(e id.ID) bool { return e == id.ID{Shard: n.Shard, N: n.Endpoint} })
		}
	}
}

// Wake hints that a bucket has deliveries that are due. It never blocks.
func (p *Pull) Wake(shard int16) {
	if !p.waiting.none() {
		p.waiting.wake(func(e id.ID) bool { return e.Shard == shard })
	}
}

// take is one look, with what follows from it.
func (p *Pull) take(ctx context.Context, endpoint id.ID, ask Ask) ([]Pulled, error) {
	now := p.d.deps.Now()
	s, err := p.look(ctx, endpoint, now)
	if err != nil {
		return nil, err
	}
	if s.Lapsed > 0 {
		if err := p.lapse(ctx, endpoint, now); err != nil {
			return nil, err
		}
	}
	if ask.Limit = min(ask.Limit, maxFetched-s.Fetched); s.Due+s.Lapsed == 0 || ask.Limit <= 0 {
		return nil, nil
	}
	target, err := p.target(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	results, err := p.lease(ctx, endpoint, target, ask)
	if err != nil {
		return nil, err
	}
	return p.pack(ctx, results), nil
}

// target reads the endpoint as it is now.
func (p *Pull) target(ctx context.Context, endpoint id.ID) (*subscriptions.Target, error) {
	known, err := p.d.deps.Store.Targets(ctx, []id.ID{endpoint})
	if err != nil {
		return nil, err //nolint:wrapcheck // says it all
	}
	t, there := known[endpoint]
	switch {
	case !there || t.Deleted:
		return nil, fault.New(fault.NotFound, "no such endpoint")
	case t.Status != subscriptions.Enabled:
		return nil, fault.New(fault.Conflict, "the endpoint is %s: what waits for it is held until it is enabled", t.Status)
	case t.Err != nil:
		return nil, fault.Wrap(fault.Unavailable, fmt.Errorf("use endpoint %s: %w", id.Endpoint.Format(endpoint), t.Err),
			"the endpoint's secret cannot be read just now")
	}
	return &t, nil
}
