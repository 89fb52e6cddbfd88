package dispatcher

import "maps"

const (
	// leastShare is how many deliveries an endpoint is given in a round if it has them and the slots: with many endpoints a
	// round then serves some of them well, neighbours in few buckets, instead of all of them a little: each endpoint in it
	// is read and looked up. The next round begins behind them, milliseconds later.
	leastShare = 16
	// tenantShare bounds how many slots one tenant has: so many times what is free. Alone it can have all but a ninth of
	// them, two have eight seventeenths each, and whoever comes new finds some free. (Dynamic thresholds, as switches
	// share their buffers: Choudhury and Hahne, 1998.)
	tenantShare = 8
	// retryPart is the part of a share that is kept for retries while first attempts wait too, and, from the other side,
	// the part of all slots that retries never take: one in so many.
	retryPart = 4
	// scarcePart: slots are scarce when fewer than one in so many is free.
	scarcePart = 4
)

// sharing hands out the slots of one round.
type sharing struct {
	room, free int
	scarce     bool          // few slots are free: who has less goes first
	fair       int           // how many slots each tenant would have if all had as many
	retryRoom  int           // how many retries may be put on their way
	suspects   int           // and how many that were lost again and again
	tenants    map[int64]int // in flight, with what is given in this round
	given      []given
}

// given is what one endpoint gets of a round.
type given struct {
	road   dueRoad
	tenant int64
	got    int
	rest   int // what it could have beside that
	pass   pass
}

// onlyRetries reports whether all that is due there are retries.
func (r dueRoad) onlyRetries() bool { return !r.due[laneFirst] && !r.due[laneOrdered] }

func newSharing(r *roads, room, free, most int) *sharing {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &sharing{room: room, free: free, retryRoom: max(most-most/retryPart, 1) - r.retries, suspects: 1 - r.suspects}
	s.tenants = maps.Clone(r.tenants)
	s.scarce, s.fair = free <= most/scarcePart, max(most/(len(s.tenants)+1), 1)
	return s
}

// laps says how often a round goes over the ring of endpoints, and of each lap whether only tenants have their turn that have less
// than their fair share in flight: where few slots are free, what becomes free is theirs, and not the next endpoint's in the ring.
func (s *sharing) laps() []bool {
	if s.scarce {
		return []bool{true, false}
	}
	return []bool{false}
}

func (s *sharing) hasItsShare(tenant int64) bool { return s.tenants[tenant] >= s.fair }

// give lets an endpoint have its share of what it may have.
func (s *sharing) give(r dueRoad, tenant int64, p pass) {
	n := s.take(r, tenant, min(p.slots, leastShare, r.likely))
	if n > 0 {
		s.given = append(s.given, given{road: r, tenant: tenant, got: n, rest: p.slots - n, pass: p})
	}
}

// could says how many of n slots an endpoint may take: at least one if its tenant is under its bound by any.
func (s *sharing) could(r dueRoad, tenant int64, n int) int {
	under := tenantShare*s.free - s.tenants[tenant]
	n = min(n, s.room, (under+tenantShare)/(tenantShare+1)) // each one taken brings the bound down by tenantShare
	if r.onlyRetries() {
		n = min(n, s.retryRoom)
	}
	return max(n, 0)
}

func (s *sharing) take(r dueRoad, tenant int64, n int) int {
	n = s.could(r, tenant, n)
	s.room, s.free, s.tenants[tenant] = s.room-n, s.free-n, s.tenants[tenant]+n
	if r.onlyRetries() {
		s.retryRoom -= n
	}
	return n
}

// giveRest hands out what is left when every endpoint has had its share.
func (s *sharing) giveRest() {
	for i := range s.given {
		g := &s.given[i]
		n := s.take(g.road, g.tenant, g.rest)
		g.got, g.rest = g.got+n, g.rest-n
	}
}

// wishes spells out what was given, lane by lane.
func (s *sharing) wishes(r *roads) (plain, ordered map[int16][]wish) {
	plain, ordered = map[int16][]wish{}, map[int16][]wish{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range s.given {
		known := r.to(g.road.endpoint)
		shard := known.endpoint.Shard
		for in, slots := range s.lanes(g, known) {
			if slots <= 0 {
				continue
			}
			hint := &known.lanes[in]
			w := wish{endpoint: known.endpoint.N, lane: lane(in), slots: slots, from: hint.from, until: g.pass.until, group: hint.group}
			if w.lane == laneOrdered {
				ordered[shard] = append(ordered[shard], w)
			} else {
				plain[shard] = append(plain[shard], w)
			}
		}
		r.turn = known.endpoint
	}
	return plain, ordered
}

// lanes divides an endpoint's slots among its lanes: first attempts and groups go ahead of retries, which are sure of a
// part of them all the same.
func (s *sharing) lanes(g given, known *road) [laneCount]int {
	var out [laneCount]int
	due, left := g.road.due, g.got
	if due[laneSuspect] && s.suspects > 0 {
		out[laneSuspect] = 1
		s.suspects--
		left--
	}
	if g.road.onlyRetries() || !g.pass.turn.IsZero() && due[laneRetry] {
		// Of those alone, take has seen to retryRoom. A retry is the better probe: it costs no delivery its first attempt.
		out[laneRetry] = left
		return out
	}
	known.turns++ // with few slots what comes second gets its part of them once in a while instead of never
	if due[laneRetry] {
		out[laneRetry] = max(min((left+known.turns%retryPart)/retryPart, s.retryRoom), 0)
		s.retryRoom -= out[laneRetry]
		left -= out[laneRetry]
	}
	switch {
	case due[laneFirst] && due[laneOrdered]:
		out[laneOrdered] = (left + known.turns%2) / 2
		out[laneFirst] = left - out[laneOrdered]
	case due[laneOrdered]:
		out[laneOrdered] = left
	case due[laneFirst]:
		out[laneFirst] = left
	}
	return out
}
