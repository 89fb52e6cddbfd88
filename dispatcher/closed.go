package dispatcher

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// What keeps deliveries from being claimed at all.

// mayReceive reports whether an endpoint may be sent to now. A disabled one's deliveries are held: they stay where they
// are. A dead or deleted one's are cancelled. One whose secrets we cannot open waits for whoever set our keys.
func (d *Dispatcher) mayReceive(endpoint id.ID, target *subscriptions.Target) bool {
	switch {
	case target == nil:
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
	d.roads.forget(endpoint)
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
	return time.Now().UnixNano() < d.sickUntil[shard].Load()
}

func (d *Dispatcher) sicken(shard int16, why error) {
	d.sickUntil[shard].Store(time.Now().Add(sickFor).UnixNano())
	d.log.Error().Err(why).Int16("bucket", shard).Msg("bucket.left_alone")
}

// leaveAlone does so with one endpoint.
func (d *Dispatcher) leaveAlone(endpoint id.ID, why error) {
	d.roads.close(endpoint, d.deps.Now().Add(sickFor))
	d.log.Error().Err(why).Str("endpoint", id.Endpoint.Format(endpoint)).Msg("endpoint.left_alone")
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
