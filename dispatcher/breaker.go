package dispatcher

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

const (
	// breakerAfter is how many failures in a row, of the kinds that say the receiver is not well, open the breaker. The
	// failures of one delivery in a row count as one: no delivery alone does, however long its schedule is.
	breakerAfter = 10
	// The breaker stays open for firstCooldown before a probe, twice as long after each probe that fails, up to
	// maxCooldown. Where the endpoint's own schedule retries sooner, both are shorter in proportion: the first probe then is
	// just after the first retries have become due, since a retry makes the best probe.
	firstCooldown = 5 * time.Second
	maxCooldown   = time.Minute
	// longestHold is how long a breaker makes a delivery wait beyond its time at most: an outage stretches the schedule of
	// retries by a minute for each, and not by as many probes as there are deliveries.
	longestHold = time.Minute
	// probeSlack is added to an attempt's timeout: how long a probe's turn lasts when its process dies.
	probeSlack = 10 * time.Second
)

// paceChange says what an attempt changes about its endpoint's pace for all processes.
func (d *Dispatcher) paceChange(r result) subscriptions.PaceChange {
	c := subscriptions.PaceChange{
		Endpoint: r.claimed.EndpointID, Version: r.target.Version, PausedUntil: r.decision.PauseUntil,
	}
	_, unwell := r.judged()
	switch probes := !r.claimed.turn.IsZero(); {
	case probes && r.told() && unwell:
		c.Reopen, c.Until = true, r.endedAt.Add(cooldown(d.schedule(r.target), r.target.Trips))
	case probes && r.told():
		c.Close = true
	case r.claimed.past && r.told() && !unwell:
		c.Close = true
	case r.opens:
		c.Open, c.Until = true, r.endedAt.Add(cooldown(d.schedule(r.target), 0))
	}
	return c
}

// probe takes the turn to probe an endpoint's breaker, if it is to be had.
func (d *Dispatcher) probe(ctx context.Context, endpoint id.ID, t *subscriptions.Target, now time.Time) (pass, error) {
	turn := now.Add(d.timeout(t) + probeSlack).Truncate(time.Microsecond) // as the database keeps it
	won, err := d.deps.Store.TakeProbe(ctx, endpoint, turn)
	if err != nil {
		return pass{}, err //nolint:wrapcheck // says it all
	}
	d.targets.forget(endpoint)
	d.roads.hold(endpoint, now.Add(targetsMaxAge), now)
	if !won {
		return pass{}, nil
	}
	return pass{slots: 1, turn: turn}, nil
}

// told reports whether the receiver has had its say.
func (r result) told() bool { return r.made && r.outcome != Unknown }

// giveBack gives up turns to probe that were not used, beside the loops: another may be taken at once then, and not only
// when these have ended by themselves.
func (d *Dispatcher) giveBack(passes map[id.ID]pass) {
	for endpoint, p := range passes {
		if p.turn.IsZero() {
			continue
		}
		d.tasks.Go(func() {
			ctx, cancel := context.WithTimeout(d.beside, dbPatience)
			defer cancel()
			if err := d.deps.Store.GiveBackProbe(ctx, endpoint, p.turn); err != nil && d.beside.Err() == nil {
				d.log.Warn().Err(err).Msg("probe.failed")
			}
			d.targets.forget(endpoint)
		})
	}
}

// cooldown is how long a breaker stays open that has opened so many times in a row.
func cooldown(schedule []time.Duration, trips int) time.Duration {
	first := firstCooldown
	if len(schedule) > 0 {
		first = min(first, schedule[0]+schedule[0]/4)
	}
	most := time.Duration(int64(first) * int64(maxCooldown/firstCooldown))
	for range trips {
		first = min(2*first, most)
	}
	return first
}
