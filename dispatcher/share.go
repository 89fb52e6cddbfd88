package dispatcher

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// wishes shares room out among the endpoints whose turn has come, that have a slot free and that may be sent to. What is
// due to others is forgotten here, and cancelled for closed ones. It looks at endpoints until there are as many as room.
func (d *Dispatcher) wishes(ctx context.Context, room int) (map[int16][]wish, map[id.ID]subscriptions.Target, error) {
	due := d.lanes.due(d.deps.Now())
	known := map[id.ID]subscriptions.Target{}
	var open []dueLane
	for len(due) > 0 && len(open) < room {
		window := due[:min(len(due), room)]
		due = due[len(window):]
		fresh, err := d.targets.fresh(ctx, endpointsOf(window))
		if err != nil {
			return nil, nil, err
		}
		for _, l := range window {
			target, there := fresh[l.endpoint]
			if d.mayReceive(l.endpoint, target, there) && l.inFlight < d.cap(target) && !d.sick(l.endpoint.Shard) {
				known[l.endpoint] = target
				open = append(open, l)
			}
		}
	}
	open = open[:min(len(open), room)]
	wishes := map[int16][]wish{}
	for i, l := range open {
		slots := min(max(room/(len(open)-i), leastShare), d.cap(known[l.endpoint])-l.inFlight, room)
		if slots == 0 {
			break
		}
		wishes[l.endpoint.Shard] = append(wishes[l.endpoint.Shard], wish{l.endpoint.N, slots})
		room -= slots
		d.lanes.ended(l.endpoint)
	}
	return wishes, known, nil
}

// leastShare is how many deliveries an endpoint is given in a round if it has them and the slots: with many endpoints a
// round then serves some of them, neighbours in few buckets, instead of all of them a little, in a statement for each bucket.
// The next round begins behind them, milliseconds later.
const leastShare = 16

func endpointsOf(lanes []dueLane) []id.ID {
	out := make([]id.ID, len(lanes))
	for i, l := range lanes {
		out[i] = l.endpoint
	}
	return out
}

// cap is how many deliveries of an endpoint may be in flight from this process.
func (d *Dispatcher) cap(t subscriptions.Target) int {
	if t.MaxInFlight > 0 {
		return t.MaxInFlight
	}
	return d.cfg.MaxInFlightPerEndpoint
}

// mayReceive reports whether an endpoint may be sent to now. A disabled one's deliveries are held: they stay where they
// are. A dead or deleted one's are cancelled. One whose secrets we cannot open waits for whoever set our keys.
func (d *Dispatcher) mayReceive(endpoint id.ID, target subscriptions.Target, there bool) bool {
	switch {
	case !there:
	case target.Deleted:
		d.cancelAll(endpoint, ReasonEndpointDeleted)
	case target.Status == subscriptions.Dead:
		d.cancelAll(endpoint, ReasonEndpointDead)
	case target.Status != subscriptions.Enabled:
	case target.Err != nil:
		d.complain(endpoint, target.Err)
	default:
		return true
	}
	d.lanes.forget(endpoint)
	return false
}

// complainEvery bounds how often the log says of an endpoint that nothing can be sent to it for our own fault.
const complainEvery = time.Minute

func (d *Dispatcher) complain(endpoint id.ID, why error) {
	now := time.Now()
	if last, said := d.complained.Load(endpoint); said {
		if at, ok := last.(time.Time); ok && now.Sub(at) < complainEvery {
			return
		}
	}
	d.complained.Store(endpoint, now)
	d.log.Error().Err(why).Str("endpoint", id.Endpoint.Format(endpoint)).Msg("endpoint.unreadable")
}

// sickFor is how long a bucket is left alone that the database refuses to work in, for a row that it cannot read, say: it
// must not hold up the others.
const sickFor = 10 * time.Second

func (d *Dispatcher) sick(shard int16) bool {
	return time.Now().Before(d.sickUntil[shard])
}

func (d *Dispatcher) sicken(shard int16, why error) {
	d.sickUntil[shard] = time.Now().Add(sickFor)
	d.log.Error().Err(why).Int16("bucket", shard).Msg("bucket.left_alone")
}

// cancelAll cancels, beside the loop, what a closed endpoint still has waiting.
func (d *Dispatcher) cancelAll(endpoint id.ID, why Reason) {
	if _, already := d.closing.LoadOrStore(endpoint, true); already {
		return
	}
	d.tasks.Go(func() {
		defer d.closing.Delete(endpoint)
		ctx, cancel := context.WithTimeout(d.beside, time.Minute)
		defer cancel()
		if _, err := d.deps.Desk.CancelUnfinished(ctx, endpoint, why); err != nil && d.beside.Err() == nil {
			d.log.Error().Err(err).Str("endpoint", id.Endpoint.Format(endpoint)).Msg("deliveries.cancel_failed")
		}
	})
}
