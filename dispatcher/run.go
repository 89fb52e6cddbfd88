package dispatcher

import (
	"context"
	"sync"
	"time"
)

const (
	pollEvery       = time.Second            // how soon the truth is looked at when no hint comes
	retryAfterFault = 500 * time.Millisecond // how long a claim waits after the database failed one
	claimLimit      = 500                    // deliveries a claim takes at most; more gained nothing
)

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
	loops.Go(func() { d.runRescue(ctx) })
	loops.Go(func() { d.runClaim(ctx, work) })
	loops.Wait()

	d.drain(stopWork)
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

// runClaim is the loop around claimOnce: again at once while there is more, else when somebody wakes it, when the next
// delivery it knows of comes due, or when it is time to look at the truth.
func (d *Dispatcher) runClaim(ctx, work context.Context) {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	look := allShards
	for ctx.Err() == nil {
		n, err := d.claimOnce(ctx, work, look)
		wait := pollEvery
		switch {
		case err != nil && ctx.Err() == nil:
			d.log.Error().Err(err).Msg("claim.failed")
			look = allShards
			sleep(ctx, retryAfterFault)
			continue
		case n > 0:
			wait = 0
		default:
			if next := d.lanes.next(d.deps.Now()); !next.IsZero() {
				wait = min(wait, next.Sub(d.deps.Now()))
			}
		}
		look = d.await(ctx, poll.C, wait)
	}
}

// await waits for the next reason to claim, and gives the buckets to look through first.
func (d *Dispatcher) await(ctx context.Context, poll <-chan time.Time, wait time.Duration) []int16 {
	if wait <= 0 {
		select {
		case <-poll:
			d.targets.sweep()
			return allShards
		default:
			return d.woken.take()
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-d.woken.signal:
	case <-timer.C:
	case <-poll:
		d.targets.sweep()
		return allShards
	}
	return d.woken.take()
}

// dbPatience bounds each round trip of the loops. A connection that was lost without a word would otherwise stop them until
// TCP gives up on it, a quarter of an hour later.
const dbPatience = 20 * time.Second

// claimOnce looks through the given buckets, claims what may be claimed now and sends it on its way. It gives how many: 0
// only if no endpoint that may be sent to has anything due, as far as this process knows.
func (d *Dispatcher) claimOnce(ctx, work context.Context, look []int16) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, dbPatience)
	defer cancel()
	if len(look) > 0 {
		if err := d.discover(ctx, look); err != nil {
			return 0, err
		}
	}
	for {
		n, asked, err := d.round(ctx, work)
		if n > 0 || !asked || err != nil {
			return n, err
		}
		// Those that were asked had nothing after all, which is known now. There may be others.
	}
}

// round claims for the endpoints whose turn it is. asked says that there were any.
func (d *Dispatcher) round(ctx, work context.Context) (n int, asked bool, err error) {
	room := d.acquire(claimLimit)
	if room == 0 {
		return 0, false, nil // a record will nudge the loop
	}
	wishes, known, err := d.wishes(ctx, room)
	if err != nil || len(wishes) == 0 {
		d.release(room)
		return 0, false, err
	}
	now, begun := d.deps.Now(), time.Now()
	got, err := d.claim(work, wishes) // not ctx: a stop must not lose sight of what it has just leased
	if err != nil {
		d.release(room)
		return 0, true, err
	}
	d.lanes.claimed(now, wishes, got)
	d.release(room - len(got))
	d.deps.Metrics.InFlight(len(got))
	for _, c := range got {
		c.leaseEnds = begun.Add(d.cfg.Lease)
		d.senders.Add(1)
		go func() {
			defer d.senders.Done()
			d.deliver(work, c, known[c.endpoint()], begun)
		}()
	}
	return len(got), true, nil
}

// acquire takes as many of d.slots as are free, at most limit.
func (d *Dispatcher) acquire(limit int) int {
	for n := limit; n > 0; n /= 2 {
		if d.slots.TryAcquire(int64(n)) {
			return n
		}
	}
	return 0
}

func (d *Dispatcher) release(n int) {
	if n > 0 {
		d.slots.Release(int64(n))
	}
}

func (d *Dispatcher) runRescue(ctx context.Context) {
	for {
		if n, err := d.rescue(ctx); err != nil && ctx.Err() == nil {
			d.log.Error().Err(err).Msg("rescue.failed")
		} else if n > 0 {
			d.log.Warn().Int("attempts", n).Msg("rescue.found")
		}
		if !sleep(ctx, rescueEvery) {
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
