package dispatcher

import (
	"slices"
	"sync"
	"time"
)

// laneKey names one endpoint's queue.
type laneKey struct {
	shard    int16
	endpoint int64
}

// lanes is what this process believes about endpoints' queues: which have deliveries due when, and how many of each are
// in flight from here. It is a hint and a cap, never the truth: that is in the database, and discovery brings it in.
type lanes struct {
	mu    sync.Mutex
	byKey map[laneKey]*lane
	turn  laneKey // where the last round of wishes ended: the next begins behind it
}

type lane struct {
	dueAt    time.Time // the first delivery's time; zero: none known
	inFlight int
}

func newLanes() *lanes { return &lanes{byKey: map[laneKey]*lane{}} }

// note remembers that the endpoint has a delivery due at that time.
func (l *lanes) note(key laneKey, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.byKey[key]
	if known == nil {
		known = &lane{}
		l.byKey[key] = known
	}
	if known.dueAt.IsZero() || due.Before(known.dueAt) {
		known.dueAt = due
	}
}

// due gives the endpoints that have something due at now and a free slot, in turn: those first that follow where the
// last round ended, so that with more endpoints than slots each gets its turn. Those saturated are left out, whatever
// waits there.
func (l *lanes) due(now time.Time, slots func(laneKey) int) []dueLane {
	l.mu.Lock()
	defer l.mu.Unlock()
	var before, behind []dueLane
	for key, known := range l.byKey {
		if known.dueAt.IsZero() || known.dueAt.After(now) {
			continue
		}
		free := slots(key) - known.inFlight
		if free <= 0 {
			continue
		}
		if compareKeys(key, l.turn) > 0 {
			behind = append(behind, dueLane{key, free})
		} else {
			before = append(before, dueLane{key, free})
		}
	}
	byKey := func(a, b dueLane) int { return compareKeys(a.key, b.key) }
	slices.SortFunc(behind, byKey)
	slices.SortFunc(before, byKey)
	return append(behind, before...)
}

// dueLane is an endpoint whose turn has come, with how many more it may have in flight.
type dueLane struct {
	key  laneKey
	free int
}

func compareKeys(a, b laneKey) int {
	if a.shard != b.shard {
		return int(a.shard) - int(b.shard)
	}
	switch {
	case a.endpoint < b.endpoint:
		return -1
	case a.endpoint > b.endpoint:
		return 1
	}
	return 0
}

// claimed takes in what a claim made at now brought: slots are used, and an endpoint that gave less than was asked for
// has nothing more due as far as this process knows. What was noted meanwhile for a later time stays.
func (l *lanes) claimed(now time.Time, asked map[int16][]wish, got []claimed) {
	counts := make(map[laneKey]int, len(got))
	for _, c := range got {
		counts[laneKey{c.Shard, c.EndpointID}]++
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for shard, wishes := range asked {
		for _, w := range wishes {
			key := laneKey{shard, w.endpoint}
			known := l.byKey[key]
			if known == nil {
				continue
			}
			n := counts[key]
			known.inFlight += n
			if n < w.slots && !known.dueAt.After(now) {
				known.dueAt = time.Time{}
			}
			l.turn = key
			l.dropIfIdle(key, known)
		}
	}
}

// sent frees a slot.
func (l *lanes) sent(key laneKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byKey[key]; known != nil {
		known.inFlight--
		l.dropIfIdle(key, known)
	}
}

// forget drops what is known to be due of an endpoint that may not be sent to.
func (l *lanes) forget(key laneKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byKey[key]; known != nil {
		known.dueAt = time.Time{}
		l.dropIfIdle(key, known)
	}
}

// next gives when the next delivery that is not due yet comes due; zero when none is known.
func (l *lanes) next(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	var next time.Time
	for _, known := range l.byKey {
		if known.dueAt.After(now) && (next.IsZero() || known.dueAt.Before(next)) {
			next = known.dueAt
		}
	}
	return next
}

func (l *lanes) dropIfIdle(key laneKey, known *lane) {
	if known.inFlight <= 0 && known.dueAt.IsZero() {
		delete(l.byKey, key)
	}
}
