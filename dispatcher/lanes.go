package dispatcher

import (
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/id"
)

// lanes is what this process believes about endpoints' queues: which have deliveries due when, and how many of each are
// in flight from here. It is a hint and a cap, never the truth: that is in the database, and discovery brings it in.
type lanes struct {
	mu         sync.Mutex
	byEndpoint map[id.ID]*lane
	turn       id.ID // the endpoint that a round of wishes ended with: the next round begins behind it
}

type lane struct {
	dueAt    time.Time // the first delivery's time; zero: none known
	laterAt  time.Time // the earliest known after that; zero: none known
	inFlight int
}

func newLanes() *lanes { return &lanes{byEndpoint: map[id.ID]*lane{}} }

// note remembers that the endpoint has a delivery due at that time.
func (l *lanes) note(endpoint id.ID, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.byEndpoint[endpoint]
	if known == nil {
		known = &lane{}
		l.byEndpoint[endpoint] = known
	}
	switch {
	case known.dueAt.IsZero():
		known.dueAt = due
	case due.Before(known.dueAt):
		known.dueAt, known.laterAt = due, known.dueAt
	case due.After(known.dueAt) && (known.laterAt.IsZero() || due.Before(known.laterAt)):
		known.laterAt = due
	}
}

// dueLane is an endpoint that has something due, with how many it has in flight.
type dueLane struct {
	endpoint id.ID
	inFlight int
}

// due gives the endpoints that have something due at now, in turn: those first that follow where the last round ended, so
// that with more endpoints than room each gets its turn.
func (l *lanes) due(now time.Time) []dueLane {
	l.mu.Lock()
	defer l.mu.Unlock()
	var behind, before []dueLane
	for endpoint, known := range l.byEndpoint {
		if known.dueAt.IsZero() || known.dueAt.After(now) {
			continue
		}
		if compare(endpoint, l.turn) > 0 {
			behind = append(behind, dueLane{endpoint, known.inFlight})
		} else {
			before = append(before, dueLane{endpoint, known.inFlight})
		}
	}
	byEndpoint := func(a, b dueLane) int { return compare(a.endpoint, b.endpoint) }
	slices.SortFunc(behind, byEndpoint)
	slices.SortFunc(before, byEndpoint)
	return append(behind, before...)
}

func compare(a, b id.ID) int {
	if a.Shard != b.Shard {
		return int(a.Shard) - int(b.Shard)
	}
	switch {
	case a.N < b.N:
		return -1
	case a.N > b.N:
		return 1
	}
	return 0
}

// ended notes which endpoint a round ended with.
func (l *lanes) ended(with id.ID) {
	l.mu.Lock()
	l.turn = with
	l.mu.Unlock()
}

// claimed takes in what a claim made at now brought: slots are used, and an endpoint that gave less than was asked for
// has nothing more due then. What is known to come later stays.
func (l *lanes) claimed(now time.Time, asked map[int16][]wish, got []claimed) {
	counts := make(map[id.ID]int, len(got))
	for _, c := range got {
		counts[c.endpoint()]++
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for shard, wishes := range asked {
		for _, w := range wishes {
			endpoint := id.ID{Shard: shard, N: w.endpoint}
			known := l.byEndpoint[endpoint]
			if known == nil {
				continue
			}
			n := counts[endpoint]
			known.inFlight += n
			if n < w.slots && !known.dueAt.After(now) {
				known.dueAt, known.laterAt = known.laterAt, time.Time{}
			}
			l.dropIfIdle(endpoint, known)
		}
	}
}

// sent frees a slot.
func (l *lanes) sent(endpoint id.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byEndpoint[endpoint]; known != nil {
		known.inFlight--
		l.dropIfIdle(endpoint, known)
	}
}

// forget drops what is known to be due of an endpoint that may not be sent to.
func (l *lanes) forget(endpoint id.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byEndpoint[endpoint]; known != nil {
		known.dueAt, known.laterAt = time.Time{}, time.Time{}
		l.dropIfIdle(endpoint, known)
	}
}

// next gives when the next delivery that is not due yet comes due; zero when none is known.
func (l *lanes) next(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	var next time.Time
	for _, known := range l.byEndpoint {
		for _, at := range []time.Time{known.dueAt, known.laterAt} {
			if at.After(now) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
	}
	return next
}

func (l *lanes) dropIfIdle(endpoint id.ID, known *lane) {
	if known.inFlight <= 0 && known.dueAt.IsZero() {
		delete(l.byEndpoint, endpoint)
	}
}
