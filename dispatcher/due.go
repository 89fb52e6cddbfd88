package dispatcher

import (
	"slices"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// What a round sees of the roads.

// dueRoad is a road that something is due on, as it was when due was asked.
type dueRoad struct {
	endpoint id.ID
	tenant   int64 // 0: not known yet
	inFlight int
	window   int // how many the endpoint's answers allow in flight; before its own cap
	slotAt   time.Time
	slotOf   subscriptions.RateLimit
	held     bool
	due      [laneCount]bool
	dueSince time.Time // of the oldest
	likely   int       // how many deliveries a claim may find
}

// begin gives where a round begins and how many roads there are: behind the one that the last round ended with, so that with
// more endpoints than room each gets its turn.
func (r *roads) begin() (first, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unsorted {
		slices.SortFunc(r.inOrder, func(a, b *road) int { return a.endpoint.Compare(b.endpoint) })
		r.unsorted = false
	}
	first, _ = slices.BinarySearchFunc(r.inOrder, r.turn, func(known *road, turn id.ID) int {
		if known.endpoint.Compare(turn) <= 0 {
			return -1
		}
		return 1
	})
	return first, len(r.inOrder)
}

// due gives up to most roads that something is due on at now, of n from the first-th on, in the circle that begin saw; and how
// many it has looked at. Between begin and the last due nothing else may sort or sweep, which only the claim loop does.
func (r *roads) due(now time.Time, first, n, of, most int) (out []dueRoad, looked int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out = make([]dueRoad, 0, most)
	for looked < n && len(out) < most {
		known := r.inOrder[(first+looked)%of]
		looked++
		if known.closedUntil.After(now) {
			continue
		}
		d := dueRoad{
			endpoint: known.endpoint, tenant: known.tenant, inFlight: known.inFlight, window: known.window(), slotAt: known.slotAt,
			slotOf: known.slotOf, held: known.held,
		}
		some := false
		for in := range known.lanes {
			if d.due[in] = known.lanes[in].due(now) && (lane(in) != laneSuspect || r.suspects == 0); d.due[in] {
				d.likely += known.lanes[in].likely()
				if at := known.lanes[in].dueAt; !some || at.Before(d.dueSince) {
					d.dueSince = at
				}
				some = true
			}
		}
		if some {
			out = append(out, d)
		}
	}
	return out, looked
}
