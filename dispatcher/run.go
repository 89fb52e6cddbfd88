package dispatcher

import (
	"context"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pulse"
)

const (
	pollEvery       = time.Second            // how soon the truth is looked at when no hint comes
	lookRest        = 10                     // a look at all of it takes no more than one in so many of the time
	retryAfterFault = 500 * time.Millisecond // how long a claim waits after the database failed one
	claimLimit      = 500                    // deliveries a claim takes at most; more gained nothing
)

// Still says for how long the loops of Run have stood still, the worst of them: one that claims or looks for what is due, or the
// one that records while there is something to record. Each of them goes round within dbPatience, some seconds at most when the
// database answers.
func (d *Dispatcher) Still() pulse.Still {
	return d.claiming.Still().And(d.looking.Still()).And(d.recording.Still())
}

// Run claims and delivers until ctx ends; then it claims nothing more, lets what is on its way finish for cfg.Grace,
// interrupts the rest, records everything and returns, always without an error.
func (d *Dispatcher) Run(ctx context.Context) error {
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	recorder, stopRecorder := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRecorder()

	var recording sync.WaitGroup
	recording.Go(func() { d.runRecorder(recorder) })

	var loops sync.WaitGroup
	var carrying sync.WaitGroup
	carrying.Go(func() { d.runCarriers(work) }) // to the end of what they carry
	loops.Go(func() { d.runRescue(ctx) })
	loops.Go(func() { d.runLook(ctx) })
	loops.Go(func() { d.runClaim(ctx, work) })
	loops.Wait()

	d.drain(stopWork)
	stopWork()
	carrying.Wait()
	close(d.results) // every sender has handed in its result: the recorder ends when it has written them all
	forced := time.AfterFunc(d.cfg.Grace, stopRecorder)
	defer forced.Stop()
	recording.Wait()
	d.stopBeside()
	d.tasks.Wait()
	return nil
}

// drain waits until nothing is in flight: as long as cfg.Grace by itself, and then as long as interrupting takes.
func (d *Dispatcher) drain(interrupt func()) {
	timer := time.AfterFunc(d.cfg.Grace, interrupt)
	defer timer.Stop()
	d.senders.Wait()
}

// runLook looks for what is due, in all buckets each second and in those that somebody hints at, and has the claim loop know.
// It is apart from that loop: with a backlog that some long transaction keeps from being vacuumed, a look can take longer
// than many claims.
func (d *Dispatcher) runLook(ctx context.Context) {
	defer d.looking.Rest()
	look := allShards
	for next := time.Now(); ; {
		begun := time.Now()
		d.looking.Begin()
		if err := d.discover(ctx, look); err == nil {
			d.looking.Rest()
		} else if d.looking.Turn(); ctx.Err() == nil {
			d.log.Error().Err(err).Msg("discover.failed")
		}
		took := time.Since(begun)
		d.nudge()
		if len(look) == id.Buckets {
			next = begun.Add(max(pollEvery, lookRest*took))
		}
		if !sleep(ctx, min(took, pollEvery)) { // no more than half of the time is spent on hints
			return
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			look = allShards
		case <-d.woken.signal:
			timer.Stop()
			look = d.woken.take()
		}
	}
}

// runClaim is the loop around round: again at once while there is more, else when something has become known or a slot
// free, or when the next delivery it knows of comes due.
func (d *Dispatcher) runClaim(ctx, work context.Context) {
	sweep := time.NewTicker(pollEvery)
	defer sweep.Stop()
	d.claiming.Begin()
	defer d.claiming.Rest()
	for ctx.Err() == nil {
		more, err := d.claimRound(ctx, work)
		if err != nil && ctx.Err() == nil {
			d.claiming.Turn()
			d.log.Error().Err(err).Msg("claim.failed")
			sleep(ctx, retryAfterFault)
			continue
		}
		d.claiming.Work()
		wait := pollEvery
		if more {
			wait = 0
		} else if next := d.roads.next(d.deps.Now()); !next.IsZero() {
			wait = min(wait, next.Sub(d.deps.Now()))
		}
		d.await(ctx, sweep.C, wait)
	}
}

func (d *Dispatcher) claimRound(ctx, work context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, dbPatience)
	defer cancel()
	_, more, err = d.round(ctx, work)
	return more, err
}

// await waits for the next reason to claim.
func (d *Dispatcher) await(ctx context.Context, sweep <-chan time.Time, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-sweep:
		d.sweep()
		return
	default:
	}
	select {
	case <-ctx.Done():
	case <-d.news:
	case <-timer.C:
	}
}

// sweep drops what memory need not keep.
func (d *Dispatcher) sweep() {
	d.targets.sweep()
	d.roads.sweep(d.deps.Now())
	d.complained.Range(func(endpoint, at any) bool {
		if said, ok := at.(time.Time); ok && time.Since(said) > complainEvery {
			d.complained.Delete(endpoint)
		}
		return true
	})
}

// nudge has the claim loop look again: something has become due, or a slot free.
func (d *Dispatcher) nudge() {
	select {
	case d.news <- struct{}{}:
	default:
	}
}

// dbPatience bounds each round trip of the loops. A connection that was lost without a word would otherwise stop them until
// TCP gives up on it, a quarter of an hour later.
const dbPatience = 20 * time.Second

// round claims for the endpoints whose turn it is, and sends what it gets on its way. more says that there were any: those
// that were asked may have more, or, if they had nothing after all, which is known now, there may be others.
func (d *Dispatcher) round(ctx, work context.Context) (n int, more bool, err error) {
	free := d.cfg.MaxInFlight - int(d.inFlight.Load())
	plan, err := d.plan(ctx, min(free, claimLimit), free)
	if err != nil || len(plan.wishes)+len(plan.ordered) == 0 {
		d.giveBack(plan.passes)
		return 0, false, err // with no slot free, a record will nudge the loop
	}
	// Not ctx: a stop must not lose sight of what has just been leased.
	if n, err = d.claimAndHand(work, plan, plan.wishes, d.claim); err == nil && len(plan.ordered) > 0 {
		var heads int
		heads, err = d.claimAndHand(work, plan, plan.ordered, d.claimOrdered)
		n += heads
	}
	d.giveBack(plan.passes) // nothing was to be had for these after all
	if err != nil && n > 0 {
		d.log.Error().Err(err).Msg("claim.failed")
		err = nil
	}
	return n, true, err
}

// claimAndHand claims some of what a round asks for and hands it to the carriers.
func (d *Dispatcher) claimAndHand(
	work context.Context, plan round, wishes map[int16][]wish, claim func(context.Context, map[int16][]wish) ([]claimed, error),
) (int, error) {
	now, begun := d.deps.Now(), time.Now()
	got, err := claim(work, wishes)
	d.deps.Metrics.Claimed(len(got), time.Since(begun))
	if err != nil && len(got) == 0 {
		return 0, err
	}
	d.woken.addSoon(d.roads.claimed(now, wishes, got)...)
	d.inFlight.Add(int64(len(got)))
	d.deps.Metrics.InFlight(len(got))
	free, limited := plan.limited(got)
	d.handAll(work, plan, free, begun)
	d.takeSlots(work, plan, limited, now)
	d.handAll(work, plan, limited, begun)
	return len(got), err
}

func (d *Dispatcher) handAll(work context.Context, plan round, got []claimed, begun time.Time) {
	for i := range got {
		c := got[i]
		c.leaseEnds = begun.Add(d.cfg.Lease)
		if p, held := plan.passes[c.endpoint()]; held {
			c.turn, c.past = p.turn, !p.until.IsZero()
			if !p.turn.IsZero() {
				delete(plan.passes, c.endpoint())
			}
		}
		d.hand(work, errand{c, plan.targets[c.endpoint()], begun})
	}
}

func (d *Dispatcher) runRescue(ctx context.Context) {
	for {
		begun := time.Now()
		if n, err := d.rescue(ctx); err != nil && ctx.Err() == nil {
			d.log.Error().Err(err).Msg("rescue.failed")
		} else if n > 0 {
			d.deps.Metrics.Rescued(n)
			d.log.Warn().Int("attempts", n).Msg("rescue.found")
		}
		if !sleep(ctx, min(max(rescueEvery, rescueRest*time.Since(begun)), d.cfg.Lease)) {
			return
		}
	}
}

// sleep waits, and reports whether the time passed without ctx ending.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
