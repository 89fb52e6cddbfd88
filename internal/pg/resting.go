package pg

import (
	"sync"
	"time"
)

// Resting gives what a count gave last for Factor times as long as that count took, so that counting takes no more than
// one in Factor of a core's time, however much there is. One that took less than cheapCount rests not at all.
type Resting[T any] struct {
	Factor int

	mu    sync.Mutex
	known T
	until time.Time // by this process's monotonic clock
}

const cheapCount = 20 * time.Millisecond

// Read counts, or rests. A count that failed has its error told once; it took its time too, so the rest after it is as
// long as after one that did not, with what was known before.
func (r *Resting[T]) Read(count func() (T, error)) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	start := time.Now()
	if start.Before(r.until) {
		return r.known, nil
	}
	counted, err := count()
	if took := time.Since(start); took > cheapCount {
		r.until = time.Now().Add(time.Duration(r.Factor) * took)
	}
	if err == nil {
		r.known = counted
	}
	return r.known, err
}
