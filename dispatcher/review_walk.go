package dispatcher

import (
	"time"

	"github.com/postrider/postrider/internal/id"
)

// walk goes back in time through a range of ids, window by window: from and to, both included, are the present one.
type walk struct {
	from, to int64
	end      int64 // the lowest id of all
	size     time.Duration
	first    time.Duration
	leap     time.Duration // after a window of this size, all that is left is tried at once; 0: never
	whole    bool          // the present window is all that is left
	leapt    bool          // and that was tried in vain
	atOnce   bool          // there is no other window: a few ids are looked up
	now      time.Time
}

const (
	firstWindow  = time.Second
	firstOfIndex = 24 * time.Hour
	maxGrowth    = 16 // 1s, 16s, 4m, 1h, …
	// leapAfter is a window so large that what it did not have enough of is rare.
	leapAfter = time.Minute
	// aheadOfClock is more than any id can be ahead of the database's clock.
	aheadOfClock = time.Hour
)

// walk begins with the newest. A page of everybody's deliveries is full after minutes, and one of what has an index of its
// own often after a day: then the partitions of other days are not opened. A delivery or an event is asked for at once.
func (s *search) walk(now time.Time, first time.Duration) *walk {
	w := &walk{from: s.from, to: s.to, end: s.from, first: first, size: first, now: now, leap: leapAfter}
	switch s.way {
	case byID:
		w.whole, w.atOnce = true, true
	case byPayload:
		w.leap = 0 // nothing helps to read all of them
		w.begin(first)
	case everyBucket, byType:
		w.begin(first)
	case byTenant, byEndpoint, byUnhappy:
		w.begin(max(firstOfIndex, first))
	}
	return w
}

// begin makes a first window.
func (w *walk) begin(size time.Duration) {
	w.whole, w.size = false, size
	w.to = min(w.to, id.Floor(w.now.Add(aheadOfClock)))
	w.reach(earlier(id.TimeOf(w.to), w.now))
}

// reach makes the window as long as it is to be, seen from a time.
func (w *walk) reach(top time.Time) {
	w.from = max(w.end, min(id.Floor(top.Add(-w.size)), w.to))
}

func (w *walk) more() bool { return w.to >= w.end && w.from <= w.to }

// next moves the window back after it has given so many, with so many still missing, to a size that should have them and
// should be read in the time that is left.
func (w *walk) next(given, missing int, took, left time.Duration) {
	w.to = w.from - 1
	if w.to < w.end {
		return
	}
	growth := float64(maxGrowth)
	if given > 0 {
		growth = min(2*float64(missing)/float64(given)+1, maxGrowth)
	}
	if given*maxGrowth < missing && w.leap > 0 && w.size >= w.leap && !w.leapt {
		w.whole, w.from = true, w.end
		return
	}
	if took > 0 {
		growth = min(growth, 0.7*float64(left)/float64(took))
	}
	w.size = max(time.Duration(growth*float64(w.size)), w.first)
	w.reach(id.TimeOf(w.to))
}

// canNarrow reports whether there is a smaller window than this one.
func (w *walk) canNarrow() bool { return !w.atOnce && (w.whole || w.size > w.first) }

// narrow makes the window smaller after it was too large, if it can.
func (w *walk) narrow() bool {
	switch {
	case w.atOnce:
		return false
	case w.whole && w.size == w.first: // it was the first
		w.leapt = true
		w.begin(w.first)
	case w.whole:
		w.leapt, w.whole = true, false
		w.reach(id.TimeOf(w.to))
	case w.size > w.first:
		w.size = max(w.size/maxGrowth, w.first)
		w.reach(id.TimeOf(w.to))
	default:
		return false
	}
	return true
}
