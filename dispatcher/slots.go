package dispatcher

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// An endpoint with a rate limit has slots, evenly spaced, that all processes take from one row. What was claimed for it
// takes as many as it is and waits for them.

// slotHorizon is how far ahead slots of a rate limit are taken: what is claimed waits for its slot no longer than this, if
// no other process takes slots meanwhile.
const slotHorizon = 100 * time.Millisecond

// slotsAhead is how many slots of its rate limit an endpoint has within slotHorizon.
func (d *Dispatcher) slotsAhead(r dueRoad, t *subscriptions.Target, now time.Time) int {
	next := later(t.NextSlotAt, now)
	if r.slotOf == t.RateLimit { // else another process has changed the limit, and with it the slots
		next = later(next, r.slotAt)
	}
	ahead := now.Add(slotHorizon).Sub(next)
	if ahead < 0 {
		d.roads.close(r.endpoint, earlier(next.Add(-slotHorizon), now.Add(targetsMaxAge)))
		return 0
	}
	return 1 + int(ahead/spacing(t.RateLimit))
}

// spacing is the time from one slot of a rate limit to the next: longer than the limit asks for, by so much that all slots of its
// period together are 25 ms over it, or by a hundredth, and by no more than a twentieth. What leaves here evenly does not
// arrive so, and a receiver that counts in windows of its own is not to count one too many.
func spacing(l subscriptions.RateLimit) time.Duration {
	const unevenness = 25 * time.Millisecond
	every := l.Per / time.Duration(l.Limit)
	return every + min(max(unevenness/time.Duration(l.Limit), every/100), every/20)
}

// limited tells those of what was claimed that need a slot from the others.
func (p round) limited(got []claimed) (free, limited []claimed) {
	needsSlot := func(c claimed) bool { return p.targets[c.endpoint()].RateLimit.Limit > 0 }
	if !slices.ContainsFunc(got, needsSlot) {
		return got, nil // nearly always: nothing is copied for those who have no limit
	}
	for _, c := range got {
		if needsSlot(c) {
			limited = append(limited, c)
		} else {
			free = append(free, c)
		}
	}
	return free, limited
}

// takeSlots gives each delivery of endpoints with a rate limit its slot, the oldest the first. What gets none is slotless.
func (d *Dispatcher) takeSlots(ctx context.Context, p round, limited []claimed, now time.Time) {
	if len(limited) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, dbPatience)
	defer cancel()
	of := map[id.ID][]*claimed{}
	for i := range limited {
		c := &limited[i]
		c.slotAt, c.slotless = time.Now().Add(time.Second), true
		of[c.endpoint()] = append(of[c.endpoint()], c)
	}
	wishes := make([]subscriptions.SlotWish, 0, len(of))
	for endpoint, list := range of {
		slices.SortFunc(list, func(a, b *claimed) int { return cmp.Compare(a.ID, b.ID) })
		wishes = append(wishes, subscriptions.SlotWish{
			Endpoint: endpoint, N: len(list), Every: spacing(p.targets[endpoint].RateLimit), Within: slotPatience,
		})
	}
	slots, err := d.deps.Store.ReserveSlots(ctx, wishes)
	if err != nil {
		d.log.Warn().Err(err).Msg("slots.failed") // a limit is kept: without slots they go back
		return
	}
	began := time.Now().Add(now.Sub(d.deps.Now())) // when the clock showed now
	for _, w := range wishes {
		got, there := slots[w.Endpoint]
		if !there {
			continue // deleted meanwhile
		}
		for i, c := range of[w.Endpoint] {
			c.slotAt, c.slotless = began.Add(got.Start.Add(time.Duration(i)*w.Every).Sub(now)), i >= got.N
		}
		d.roads.slotsTaken(w.Endpoint, p.targets[w.Endpoint].RateLimit, got.Start.Add(time.Duration(got.N)*w.Every))
	}
}

// slotsTaken notes when an endpoint's next slot is free, under the limit that it has.
func (r *roads) slotsTaken(endpoint id.ID, of subscriptions.RateLimit, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.to(endpoint)
	known.slotAt, known.slotOf = next, of
}

// slotPatience is how long a claim waits for its slot at most. What finds none so soon, because other processes were first,
// is put back.
const slotPatience = 2 * time.Second

// awaitSlot waits until a delivery may go out.
func (d *Dispatcher) awaitSlot(ctx context.Context, c claimed) error {
	wait := time.Until(c.slotAt)
	switch {
	case ctx.Err() != nil:
		return ctx.Err() //nolint:wrapcheck // the context's
	case c.slotAt.IsZero() || wait <= 0:
		return nil
	case c.slotless:
		return errNoSlot
	case !sleep(ctx, wait):
		return ctx.Err() //nolint:wrapcheck // the context's
	}
	return nil
}
