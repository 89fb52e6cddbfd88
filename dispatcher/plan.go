package dispatcher

import (
	"context"
	"slices"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// lookAhead is how many endpoints are looked at together while a round fills.
const lookAhead = 128

// round is what a claim is to ask for.
type round struct {
	wishes  map[int16][]wish // of first attempts and retries
	ordered map[int16][]wish // of groups
	targets map[id.ID]*subscriptions.Target
	passes  map[id.ID]pass // of endpoints whose breaker is not closed
}

// pass is what an endpoint may have in a round.
type pass struct {
	slots int
	turn  time.Time // the one probes its breaker, and its turn to do so ends then; zero: it does not
	until time.Time // its breaker is open, and only what was due by then goes; zero: all that is due
}

// plan shares room, of free slots, out among the endpoints whose turn has come, that have a slot free and that may be
// sent to. What is due to others is forgotten here, and cancelled for closed ones. With an error come the passes that have
// been given by then.
func (d *Dispatcher) plan(ctx context.Context, room, free int) (round, error) {
	now := d.deps.Now()
	s := newSharing(d.roads, room, free, d.cfg.MaxInFlight)
	p := round{targets: map[id.ID]*subscriptions.Target{}, passes: map[id.ID]pass{}}
	for _, first := range s.laps() {
		at, of := d.roads.begin()
		for left := of; left > 0 && s.room > 0; {
			window, looked := d.roads.due(now, at, left, of, lookAhead)
			at, left = at+looked, left-looked
			window = slices.DeleteFunc(window, func(r dueRoad) bool {
				return p.targets[r.endpoint] != nil || first && s.hasItsShare(r.tenant)
			})
			if err := d.planSome(ctx, s, &p, window, now); err != nil {
				return p, err
			}
		}
	}
	s.giveRest()
	p.wishes, p.ordered = s.wishes(d.roads)
	return p, nil
}

// planSome gives some of the endpoints that something is due to their share.
func (d *Dispatcher) planSome(ctx context.Context, s *sharing, p *round, window []dueRoad, now time.Time) error {
	fresh, err := d.targets.fresh(ctx, endpointsOf(window))
	if err != nil {
		return err
	}
	for i, r := range window {
		if s.room == 0 {
			return nil
		}
		target := fresh[i]
		if !d.mayReceive(r.endpoint, target) || d.sick(r.endpoint.Shard) {
			continue
		}
		if s.could(r, target.Tenant.N, 1) == 0 {
			continue // a probe's turn is not to be taken for nothing
		}
		pass, err := d.admit(ctx, r, target, now)
		if err != nil {
			return err
		}
		if pass.slots <= 0 {
			continue
		}
		p.targets[r.endpoint] = target
		if !pass.turn.IsZero() || !pass.until.IsZero() {
			p.passes[r.endpoint] = pass
		}
		s.give(r, target.Tenant.N, pass)
	}
	return nil
}

// admit says what of an endpoint may be put on its way now. No slots: nothing, for a while.
func (d *Dispatcher) admit(ctx context.Context, r dueRoad, t *subscriptions.Target, now time.Time) (pass, error) {
	if t.PausedUntil.After(now) {
		d.roads.hold(r.endpoint, t.PausedUntil, now)
		return pass{}, nil
	}
	limit := d.cap(t) - r.inFlight
	if t.RateLimit.Limit > 0 {
		limit = min(limit, d.slotsAhead(r, t, now))
	}
	overdue := now.Add(-longestHold)
	switch {
	case limit <= 0:
		return pass{}, nil
	case t.Breaker == subscriptions.BreakerClosed:
		window := r.window
		if r.held {
			window = d.roads.resume(r.endpoint)
		}
		return pass{slots: min(window-r.inFlight, limit)}, nil
	case r.dueSince.Before(overdue):
		return pass{slots: min(r.window-r.inFlight, limit), until: overdue}, nil
	case t.BreakerUntil.After(now):
		d.roads.hold(r.endpoint, t.BreakerUntil, now)
		return pass{}, nil
	}
	return d.probe(ctx, r.endpoint, t, now)
}

func endpointsOf(due []dueRoad) []id.ID {
	out := make([]id.ID, len(due))
	for i, r := range due {
		out[i] = r.endpoint
	}
	return out
}

// cap is how many deliveries of an endpoint may be in flight from this process.
func (d *Dispatcher) cap(t *subscriptions.Target) int {
	if t.MaxInFlight > 0 {
		return t.MaxInFlight
	}
	return d.cfg.MaxInFlightPerEndpoint
}
