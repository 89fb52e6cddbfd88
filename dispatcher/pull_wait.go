package dispatcher

import (
	"sync"
	"sync/atomic"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

const (
	// maxWaiting is how many polls may wait in a process. Each looks into the database once a second.
	maxWaiting = 1000
	// maxWaitingEach is how many of them may be one endpoint's.
	maxWaitingEach = 25
)

// waiting are the polls of this process that have found nothing yet.
type waiting struct {
	n  atomic.Int64
	mu sync.Mutex
	by map[id.ID]map[chan struct{}]bool
}

func newWaiting() *waiting { return &waiting{by: map[id.ID]map[chan struct{}]bool{}} }

// waiter is one of them. Its signal holds one hint.
type waiter struct {
	endpoint id.ID
	signal   chan struct{}
}

// enter has a poll hear of what becomes due to its endpoint, if not too many do already.
func (w *waiting) enter(endpoint id.ID) (waiter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if int(w.n.Load()) >= maxWaiting || len(w.by[endpoint]) >= maxWaitingEach {
		return waiter{}, fault.New(fault.Unavailable, "nothing is due, and too many polls are waiting already")
	}
	one := waiter{endpoint, make(chan struct{}, 1)}
	if w.by[endpoint] == nil {
		w.by[endpoint] = map[chan struct{}]bool{}
	}
	w.by[endpoint][one.signal] = true
	w.n.Add(1)
	return one, nil
}

func (w *waiting) leave(one waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.by[one.endpoint], one.signal)
	if len(w.by[one.endpoint]) == 0 {
		delete(w.by, one.endpoint)
	}
	w.n.Add(-1)
}

func (w *waiting) none() bool { return w.n.Load() == 0 }

// wake has the polls of those endpoints look again.
func (w *waiting) wake(of func(endpoint id.ID) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for endpoint, signals := range w.by {
		if !of(endpoint) {
			continue
		}
		for signal := range signals {
			select {
			case signal <- struct{}{}:
			default:
			}
		}
	}
}
