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
	// probeSlack is added to an attempt's timeout: how long a probe's turn lasts when its process dies.
	probeSlack = 10 * time.Second
)

// paceChange says what an attempt changes about its endpoint's pace for all processes.
func (d *Dispatcher) paceChange(r result) subscriptions.PaceChange {
	c := subscriptions.PaceChange{
		Endpoint: r.claimed.EndpointID, Version: r.target.Version, PausedUntil: r.decision.PauseUntil,
	}
	_, unwell := judge(r.outcome, r.answer.status, r.answer.timings.total)
	switch probes := !r.claimed.turn.IsZero(); {
	case probes && r.told() && unwell:
		c.Reopen, c.Until = true, r.endedAt.Add(cooldown(d.schedule(r.target), r.target.Trips))
	case probes && r.told():
		c.Close = true
	case r.opens:
		c.Open, c.Until = true, r.endedAt.Add(cooldown(d.schedule(r.target), 0))
	}
	return c
}

// told reports whether the receiver has had its say.
func (r result) told() bool { return r.made && r.outcome != Unknown }

// giveBack gives up turns to probe that were not used, beside the loops: another may be taken at once then, and not only
// when these have ended by themselves.
func (d *Dispatcher) giveBack(turns map[id.ID]time.Time) {
	for endpoint, turn := range turns {
		d.tasks.Go(func() {
			ctx, cancel := context.WithTimeout(d.beside, dbPatience)
			defer cancel()
			if err := d.deps.Store.GiveBackProbe(ctx, endpoint, turn); err != nil && d.beside.Err() == nil {
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
