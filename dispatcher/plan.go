package dispatcher

import (
	"context"
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
	probes  map[id.ID]time.Time // endpoints whose breaker this attempt is to probe, and when its turn ends
}

// plan shares room, of free slots, out among the endpoints whose turn has come, that have a slot free and that may be
// sent to. What is due to others is forgotten here, and cancelled for closed ones. With an error come the probes whose turns
// have been taken by then.
func (d *Dispatcher) plan(ctx context.Context, room, free int) (round, error) {
	now := d.deps.Now()
	s := newSharing(d.roads, room, free, d.cfg.MaxInFlight)
	p := round{targets: map[id.ID]*subscriptions.Target{}, probes: map[id.ID]time.Time{}}
	at, of := d.roads.begin()
	for left := of; left > 0 && s.room > 0; {
		window, looked := d.roads.due(now, at, left, of, lookAhead)
		at, left = at+looked, left-looked
		fresh, err := d.targets.fresh(ctx, endpointsOf(window))
		if err != nil {
			return p, err
		}
		for i, r := range window {
			if s.room == 0 {
				break
			}
			target := fresh[i]
			if !d.mayReceive(r.endpoint, target) || d.sick(r.endpoint.Shard) {
				continue
			}
			if s.could(r, target.Tenant.N, 1) == 0 {
				continue // a probe's turn is not to be taken for nothing
			}
			slots, turn, err := d.admit(ctx, r, target, now)
			if err != nil {
				return p, err
			}
			if slots <= 0 {
				continue
			}
			p.targets[r.endpoint] = target
			if !turn.IsZero() {
				p.probes[r.endpoint] = turn
			}
			s.give(r, target.Tenant.N, slots, !turn.IsZero())
		}
	}
	s.giveRest()
	p.wishes, p.ordered = s.wishes(d.roads)
	return p, nil
}

// admit says how many deliveries of an endpoint may be put on their way now, and, if the one is a probe of its breaker,
// when the turn to probe ends. 0: none, for a while.
func (d *Dispatcher) admit(ctx context.Context, r dueRoad, t *subscriptions.Target, now time.Time) (slots int, turn time.Time, err error) {
	switch {
	case t.PausedUntil.After(now):
		d.roads.hold(r.endpoint, t.PausedUntil, now)
		return 0, time.Time{}, nil
	case t.Breaker != subscriptions.BreakerClosed && t.BreakerUntil.After(now):
		d.roads.hold(r.endpoint, t.BreakerUntil, now)
		return 0, time.Time{}, nil
	case t.RateLimit.Limit > 0 && d.slotsAhead(r, t, now) == 0:
		return 0, time.Time{}, nil
	case t.Breaker != subscriptions.BreakerClosed:
		turn = now.Add(d.timeout(t) + probeSlack).Truncate(time.Microsecond) // as the database keeps it
		won, err := d.deps.Store.TakeProbe(ctx, r.endpoint, turn)
		if err != nil {
			return 0, time.Time{}, err //nolint:wrapcheck // says it all
		}
		d.targets.forget(r.endpoint)
		d.roads.hold(r.endpoint, now.Add(targetsMaxAge), now)
		if !won {
			return 0, time.Time{}, nil
		}
		return 1, turn, nil
	}
	window := r.window
	if r.held {
		window = d.roads.resume(r.endpoint)
	}
	slots = min(window, d.cap(t)) - r.inFlight
	if t.RateLimit.Limit > 0 {
		slots = min(slots, d.slotsAhead(r, t, now))
	}
	return slots, time.Time{}, nil
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
