// Package stats is the figures behind the console and the statistics of endpoints: how many attempts there were by outcome,
// how many deliveries ended with one, and how long they took, over time.
//
// A Tally counts, in a dispatcher's process, the attempts that were recorded, and writes its counts down every second or so. A
// Reader reads what all of them have written, without a look at the attempts themselves. These are figures and no promises: a
// process that is killed takes with it what it had not written yet, and the attempts themselves are the truth. The package
// records no attempt, judges none, and holds up nobody who does.
package stats

import (
	"time"

	"github.com/postrider/postrider/dispatcher"
)

const (
	minute  = time.Minute
	quarter = 15 * time.Minute // how finely endpoints are told apart by time
	hour    = time.Hour

	// KeepFine is for how long the traffic of all is known by the minute and the quarter of an hour; before that, by the hour.
	KeepFine = 48 * time.Hour
)

// Counts are how many there are of each outcome.
type Counts [dispatcher.OutcomeCount]int64

// Of gives how many there are of one.
func (c Counts) Of(o dispatcher.Outcome) int64 { return c[o] }

// Sum gives how many there are of all.
func (c Counts) Sum() (n int64) {
	for _, of := range c {
		n += of
	}
	return n
}

// Latency says how long attempts took: half of them at most P50, and so on. It is good to a tenth or so of each, and at most off
// by a fifth. One of more than 46 s counts as that long.
type Latency struct {
	Measured      int64 // how many it is about: not those whose process died over them; 0: nothing is known
	P50, P95, P99 time.Duration
}

// Figures are what there was in a stretch of time. An attempt lies where it ended.
type Figures struct {
	Attempts Counts
	Finished Counts // deliveries that succeeded or failed, by the outcome of the attempt that ended them
	Latency  Latency
}

// SuccessRate gives the share of attempts that succeeded; there is none of no attempts.
func (f Figures) SuccessRate() (rate float64, known bool) {
	all := f.Attempts.Sum()
	if all == 0 {
		return 0, false
	}
	return float64(f.Attempts.Of(dispatcher.Succeeded)) / float64(all), true
}

// Series are figures over time.
type Series struct {
	Figures      // of the whole
	Since, Until time.Time
	Step         time.Duration
	Points       []Point // one for each step, oldest first; of the first and the last only a part may be in the figures
}

// Point is the figures of one step.
type Point struct {
	At time.Time // its start
	Figures
}
