package watch

import (
	"time"

	"github.com/postrider/postrider/internal/alert"
)

const (
	// looksToRaise is how many looks in a row have to find something: one may have come in the midst of a restart.
	looksToRaise = 2
	// looksToCalm is for how many looks nobody may have found it, until it is over.
	looksToCalm = 4
)

// patience is what a watcher remembers from look to look. It is pure: times come in.
type patience struct {
	every  time.Duration // between two looks
	settle time.Duration // how long a watcher looks before what it finds counts
	since  time.Time     // when it began to look, without a gap since
	last   time.Time     // its last look
	found  map[alert.Kind]int
}

// verdict is what comes of a look.
type verdict struct {
	raise []alert.ServiceFinding
	calm  []alert.Kind // not found: over, if nobody else finds it either
}

// look takes in what a look has found. A watcher that has just begun, or that could not look for a while because the database was away
// or the process stood still, waits first: the others have to say again that they live before anybody counts them.
func (p *patience) look(found []alert.ServiceFinding, now time.Time) verdict {
	if p.last.IsZero() || now.Sub(p.last) > 3*p.every || now.Before(p.last) {
		p.since, p.found = now, nil
	}
	p.last = now
	in := map[alert.Kind]int{}
	var v verdict
	for _, f := range found {
		in[f.Kind] = min(p.found[f.Kind]+1, looksToRaise)
		if in[f.Kind] >= looksToRaise && now.Sub(p.since) >= p.settle {
			v.raise = append(v.raise, f)
		}
	}
	p.found = in
	for _, kind := range alert.ServiceKinds() {
		if in[kind] == 0 {
			v.calm = append(v.calm, kind)
		}
	}
	return v
}
