package dispatcher

import (
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/id"
)

// roads is what this process believes about endpoints' queues: which have deliveries due when, how many of each are in
// flight from here, and how fast each may be sent to. It is a hint and a cap, never the truth: that is in the database, and
// discovery brings it in.
type roads struct {
	mu         sync.Mutex
	byEndpoint map[id.ID]*road
	inOrder    []*road // by endpoint, unless unsorted
	unsorted   bool
	turn       id.ID         // the endpoint that a round of wishes ended with: the next round begins behind it
	tenants    map[int64]int // how many are in flight, by tenant
	retries    int           // how many retries are in flight
	suspects   int           // and how many that were lost again and again: one at most
}

// road leads to one endpoint.
type road struct {
	endpoint    id.ID
	tenant      int64 // 0: not known yet
	lanes       [laneCount]laneHint
	inFlight    int
	closedUntil time.Time // not looked at before: paused, broken, or out of slots
	usedAt      time.Time
	turns       int // rounds in which more than one of its lanes had something due
	pace
}

// laneHint is what is known of one of an endpoint's lanes.
type laneHint struct {
	dueAt   time.Time // the first delivery's time; zero: none known
	laterAt time.Time // the earliest known after that; zero: none known
	// from is what a claim need not look before: all that was due earlier has been claimed. Without it each claim would
	// read past every row that is gone but that some long transaction elsewhere keeps in the index.
	from time.Time
	// How many are known to wait. many: there may be any number beside them.
	waiting int
	many    bool
	got     int // within claimed: how many a claim brought
	// timed: something with a time of its own has been claimed. Others may be behind it that nothing hints at: see dry.
	timed bool
	// Of the lane of groups: the group that the last claim ended with, and whether this walk over them has found any.
	group int64
	found bool
}

var unknownLanes = [laneCount]laneHint{laneOrdered: {group: firstGroup}}

// late is how much later than its time a delivery may show: as long as a transaction that enqueues may take to commit.
// One that takes longer is found by discovery, which knows no from.
const late = time.Second

func newRoads() *roads { return &roads{byEndpoint: map[id.ID]*road{}, tenants: map[int64]int{}} }

// to gives the road to an endpoint. The caller holds mu.
func (r *roads) to(endpoint id.ID) *road {
	known := r.byEndpoint[endpoint]
	if known == nil {
		known = &road{endpoint: endpoint, lanes: unknownLanes}
		r.byEndpoint[endpoint] = known
		r.unsorted = r.unsorted || len(r.inOrder) > 0 && endpoint.Compare(r.inOrder[len(r.inOrder)-1].endpoint) < 0
		r.inOrder = append(r.inOrder, known)
	}
	return known
}

// note remembers that the endpoint has a delivery in a lane, due at that time.
func (r *roads) note(endpoint id.ID, in lane, due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hint := &r.to(endpoint).lanes[in]
	hint.note(due)
	hint.waiting++
}

// found remembers that the first delivery in a lane is due at that time, so that a claim need not look further back, and that
// there may be more behind it.
func (r *roads) found(endpoint id.ID, in lane, due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hint := &r.to(endpoint).lanes[in]
	hint.note(due)
	hint.from = later(hint.from, earlier(due, hint.dueAt).Add(-late)) // somebody may just have noted an earlier one
	hint.many = true
}

func (l *laneHint) note(due time.Time) {
	switch {
	case l.dueAt.IsZero():
		l.dueAt = due
	case due.Before(l.dueAt):
		l.dueAt, l.laterAt = due, l.dueAt
	case due.After(l.dueAt) && (l.laterAt.IsZero() || due.Before(l.laterAt)):
		l.laterAt = due
	}
	if due.Before(l.from) {
		l.from = due
	}
}

// dry notes that nothing is due at now: what is known to come later stays. look says that more may come later of which nothing is
// known. Only two times are remembered, and a look finds only the first; until the next look at all buckets the one after it could
// be late by a second.
func (l *laneHint) dry(now time.Time) (look bool) {
	if !l.dueAt.After(now) {
		l.dueAt, l.laterAt = l.laterAt, time.Time{}
		l.waiting, l.many = 0, !l.dueAt.IsZero()
	}
	look = l.timed && l.dueAt.IsZero()
	l.timed = false
	return look
}

// likely is how many deliveries a claim may find.
func (l *laneHint) likely() int {
	if l.many {
		return unknown
	}
	return max(l.waiting, 1)
}

// unknown is more than any claim asks for.
const unknown = 1 << 20

func (l *laneHint) due(now time.Time) bool { return !l.dueAt.IsZero() && !l.dueAt.After(now) }

// claimed takes in what a claim made at now brought: slots are used, and a lane that gave less than was asked for has
// nothing more due then. It gives the buckets that are to be looked at for what comes next.
func (r *roads) claimed(now time.Time, asked map[int16][]wish, got []claimed) (look []int16) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range got {
		c := &got[i]
		known := r.to(c.endpoint())
		known.inFlight++
		known.tenant = c.TenantID
		hint := &known.lanes[c.lane()]
		hint.got++
		hint.timed = hint.timed || c.timed()
		if from := c.DueAt.Add(-late); from.After(hint.from) {
			hint.from = from
		}
		r.tenants[c.TenantID]++
		r.count(c.lane(), 1)
	}
	for shard, wishes := range asked {
		for _, w := range wishes {
			known := r.to(id.ID{Shard: shard, N: w.endpoint})
			known.usedAt = now
			hint := &known.lanes[w.lane]
			if hint.got < w.slots && w.lane != laneOrdered { // see walked
				if hint.dry(now) {
					look = append(look, shard)
				}
			}
			if hint.waiting = max(hint.waiting-hint.got, 0); hint.waiting == 0 && !hint.dueAt.IsZero() {
				hint.many = true // it gave all that was asked for
			}
			hint.got = 0
		}
	}
	return look
}

// walked takes in how far a claim made at now has come over an endpoint's groups: to which, and whether that was the last.
// When a walk over all of them has found none that may go, nothing is due there; look is as of dry.
func (r *roads) walked(now time.Time, endpoint id.ID, got int, group int64, whole bool) (look bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hint := &r.to(endpoint).lanes[laneOrdered]
	hint.found = hint.found || got > 0
	if !whole {
		hint.group = group
		return false
	}
	if !hint.found {
		look = hint.dry(now)
	}
	hint.group, hint.found = firstGroup, false
	return look
}

// left takes in an attempt that has ended: its slot is free again, and the endpoint's pace learns from it. most is the
// endpoint's own cap. It gives how many of its attempts in a row say that the receiver is not well.
func (r *roads) left(c claimed, s symptom, unwell bool, most int, begun, now time.Time) (inARow int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.to(c.endpoint())
	known.inFlight--
	known.usedAt = now
	if !begun.IsZero() { // else nothing went out, which says nothing
		known.learn(c.ID, s, unwell, most, begun, now)
	}
	r.count(c.lane(), -1)
	if r.tenants[c.TenantID]--; r.tenants[c.TenantID] <= 0 {
		delete(r.tenants, c.TenantID)
	}
	inARow = known.unwell
	if inARow >= breakerAfter {
		known.unwell = 0 // it opens the breaker, if nobody else has, and counts anew when it is closed again
	}
	return inARow
}

// count keeps account of the lanes that may have only so many in flight from here.
func (r *roads) count(in lane, n int) {
	switch in {
	case laneRetry:
		r.retries += n
	case laneSuspect:
		r.suspects += n
	case laneFirst, laneOrdered, laneCount:
	}
}

// waits reports whether an endpoint has something due that waited for the slot that has just become free.
func (r *roads) waits(endpoint id.ID, most int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byEndpoint[endpoint]
	return known != nil && known.inFlight+1 >= min(known.window(), most) &&
		slices.ContainsFunc(known.lanes[:], func(l laneHint) bool { return l.due(now) })
}

// close leaves a road alone until then; an earlier reopen lets it be looked at again.
func (r *roads) close(endpoint id.ID, until time.Time) {
	r.mu.Lock()
	r.to(endpoint).closedUntil = until
	r.mu.Unlock()
}

// reopen has the road looked at again: its endpoint was changed.
func (r *roads) reopen(endpoint id.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.byEndpoint[endpoint]; known != nil {
		known.closedUntil, known.slotAt = time.Time{}, time.Time{}
	}
}

// forget drops what is known to be due of an endpoint that may not be sent to.
func (r *roads) forget(endpoint id.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.byEndpoint[endpoint]; known != nil {
		known.lanes = unknownLanes
	}
}

// next gives when a road that nothing can be done about now is to be looked at; zero when none is known.
func (r *roads) next(now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	var next time.Time
	for _, known := range r.inOrder {
		for n := range known.lanes {
			for _, at := range []time.Time{known.lanes[n].dueAt, known.lanes[n].laterAt} {
				if at.IsZero() {
					continue
				}
				if known.closedUntil.After(at) {
					at = known.closedUntil
				}
				if at.After(now) && (next.IsZero() || at.Before(next)) {
					next = at
				}
			}
		}
	}
	return next
}

// forgetAfter is how long a road that nothing goes on is remembered: what its endpoint's answers have taught goes with it.
const forgetAfter = 10 * time.Minute

// sweep drops the roads that are not used, so that memory follows the endpoints in use.
func (r *roads) sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inOrder = slices.DeleteFunc(r.inOrder, func(known *road) bool {
		idle := known.inFlight <= 0 && now.Sub(known.usedAt) > forgetAfter
		for n := range known.lanes {
			idle = idle && known.lanes[n].dueAt.IsZero()
		}
		if idle {
			delete(r.byEndpoint, known.endpoint)
		}
		return idle
	})
}
