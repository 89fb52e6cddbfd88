package dispatcher

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/id"
)

const (
	flushEvery = 10 * time.Millisecond // how long a result waits for others at most
	flushLimit = 500                   // how many make a batch full
)

// runRecorder writes results down in batches until the channel is closed and empty. When ctx ends first (a stop that has
// waited long enough for a database that is away), what is left is given up to the rescue.
func (d *Dispatcher) runRecorder(ctx context.Context) {
	for {
		first, open := <-d.results
		if !open {
			return
		}
		d.recording.Begin()
		d.flush(ctx, d.gather(first))
		d.recording.Rest()
	}
}

// gather collects a batch: what is there, and what comes within flushEvery of the first.
func (d *Dispatcher) gather(first result) []result {
	batch := append(make([]result, 0, flushLimit), first)
	timer := time.NewTimer(flushEvery)
	defer timer.Stop()
	for len(batch) < flushLimit {
		select {
		case r, open := <-d.results:
			if !open {
				return batch
			}
			batch = append(batch, r)
		case <-timer.C:
			return batch
		}
	}
	return batch
}

// recorded does what follows a commit: memory learns, slots go back, the log has a line for each attempt. Those of the
// results that are not among the won came too late, or twice.
func (d *Dispatcher) recorded(results, won []result) {
	for i := range results {
		if r := &results[i]; r.made {
			d.deps.Metrics.Attempt(r.outcome.String(), r.answer.status, r.answer.timings.total)
		}
	}
	d.tally(results, won)
	d.logBreakers(won)
	for _, r := range won {
		endpoint := r.claimed.endpoint()
		if !r.made && !r.noAttempt {
			d.deps.Metrics.Attempt(r.outcome.String(), 0, 0)
		}
		switch {
		case r.claimed.Pull: // no road leads there
		case !r.decision.State.Finished():
			d.roads.note(endpoint, r.claimed.laneAfter(r.decision.Failures, r.decision.Rescues), r.decision.NextAt)
		case r.decision.State == StateSucceeded && r.claimed.Origin != replayed: // a replay comes when somebody wants it
			d.deps.Metrics.Delivered(d.deps.Now().Sub(id.TimeOf(r.claimed.EventID)))
		}
		if r.claimed.Group != 0 && r.decision.State.Finished() {
			d.roads.note(endpoint, laneOrdered, d.deps.Now()) // the next of its group may go
		}
		if r.decision.Endpoint != EndpointStays || r.opens || r.claimed.past || !r.claimed.turn.IsZero() || !r.decision.PauseUntil.IsZero() {
			d.targets.forget(endpoint)
			d.roads.reopen(endpoint)
		}
		if !r.claimed.turn.IsZero() && !r.told() {
			d.giveBack(map[id.ID]pass{endpoint: {turn: r.claimed.turn}})
		}
		if r.decision.Endpoint == EndpointDead {
			d.cancelAll(endpoint, ReasonEndpointDead)
		}
		d.logResult(r)
	}
	if lost := len(results) - len(won); lost > 0 {
		d.deps.Metrics.LeasesLost(lost)
		d.log.Warn().Int("attempts", lost).Msg("leases.lost")
	}
	d.freeSlots(results)
}

// tally has figures counted: an attempt that was made whether or not it came too late, and one that its process did not come
// back from if it is this record that says so.
func (d *Dispatcher) tally(results, won []result) {
	if d.deps.Tally == nil {
		return
	}
	for i := range results {
		if r := &results[i]; r.made {
			d.deps.Tally.Attempt(r.claimed.endpoint(), r.outcome, r.answer.timings.total, r.endedAt)
		}
	}
	for i := range won {
		r := &won[i]
		ended := r.endedAt
		if ended.IsZero() { // there was no attempt
			ended = d.deps.Now()
		}
		if !r.made && !r.noAttempt {
			d.deps.Tally.Attempt(r.claimed.endpoint(), r.outcome, 0, ended)
		}
		if s := r.decision.State; s == StateSucceeded || s == StateFailed {
			d.deps.Tally.Finished(r.claimed.endpoint(), r.outcome, ended)
		}
	}
}

// abandoned gives up results that could not be written down: their leases will run out and their deliveries be tried
// again, as after a crash.
func (d *Dispatcher) abandoned(results []result) { d.freeSlots(results) }

func (d *Dispatcher) freeSlots(results []result) {
	n := 0
	for _, r := range results {
		if r.ownSlot {
			n++
		}
	}
	d.deps.Metrics.InFlight(-n)
	d.inFlight.Add(-int64(n))
	d.nudge()
}

// logResult writes the one line that each attempt has.
func (d *Dispatcher) logResult(r result) {
	c := r.claimed
	e := d.log.Info()
	if r.noAttempt && r.decision.State == StateFailed { // our own fault, of which only the log has the cause
		e = d.log.Error()
	}
	if !e.Enabled() {
		return
	}
	e.Str("delivery", r.deliveryID()).Str("event", id.Event.Format(c.event())).
		Str("endpoint", id.Endpoint.Format(c.endpoint())).
		Str("tenant", id.Tenant.Format(id.ID{Shard: c.Shard, N: c.TenantID})).
		Int("attempt", c.Attempts).Str("state", r.decision.State.String())
	if r.noAttempt {
		e.Str("reason", string(r.decision.Reason)).AnErr("cause", r.answer.err).Msg("delivery.not_attempted")
		return
	}
	e.Str("attempt_id", id.Attempt.Format(id.ID{Shard: c.Shard, N: r.attemptID}))
	e.Str("outcome", r.outcome.String()).Dur("took", r.answer.timings.total)
	if r.answer.status != 0 {
		e.Int("status", r.answer.status)
	}
	if r.decision.Reason != "" {
		e.Str("reason", string(r.decision.Reason))
	}
	if !r.decision.NextAt.IsZero() {
		e.Time("next", r.decision.NextAt)
	}
	if trace := r.traced(); trace.Valid() {
		e.Str("trace", trace.TraceID())
	}
	e.Msg("delivery.attempted")
}
