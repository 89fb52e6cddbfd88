// Package pulse is of loops: Again goes round one, and a Pulse tells whether one goes round. It is a leaf: the loop notes what it does,
// somebody else looks and judges. To note costs a reading of the clock, and nobody waits for anybody.
package pulse

import (
	"sync/atomic"
	"time"
)

// Pulse is when a loop went round last. Its zero value is at rest. What is at rest, because it waits for work or has not begun or
// is over, does not stand still.
type Pulse struct {
	turned, worked atomic.Int64 // by this process's monotonic clock; 0: at rest
}

// Still is for how long a loop has stood still: since its last round, and since its last round that went well.
type Still struct{ Turned, Worked time.Duration }

var start = time.Now()

func now() int64 { return int64(time.Since(start)) + 1 }

// Begin ends a rest. A loop that has not rested since its last round goes on as it was.
func (p *Pulse) Begin() {
	at := now()
	p.turned.Store(at)
	p.worked.CompareAndSwap(0, at)
}

// Turn notes a round that did not go well, as when the database is away.
func (p *Pulse) Turn() { p.turned.Store(now()) }

// Work notes a round that went well.
func (p *Pulse) Work() {
	at := now()
	p.turned.Store(at)
	p.worked.Store(at)
}

// Rest notes that there is nothing to go round for.
func (p *Pulse) Rest() {
	p.turned.Store(0)
	p.worked.Store(0)
}

// Still says how long the loop has stood still; a loop at rest: not at all.
func (p *Pulse) Still() Still {
	at := now()
	since := func(then int64) time.Duration {
		if then == 0 {
			return 0
		}
		return max(time.Duration(at-then), 0)
	}
	return Still{Turned: since(p.turned.Load()), Worked: since(p.worked.Load())}
}

// And is how long the one of two loops has stood still that has for longer.
func (s Still) And(o Still) Still {
	return Still{Turned: max(s.Turned, o.Turned), Worked: max(s.Worked, o.Worked)}
}
