package timeline

import (
	"strconv"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/web"
)

// Step is one try of the schedule.
type Step struct {
	Label       string
	Class, Word string // how it went; "": it did not come to that
}

// Schedule lays out the tries that a delivery gets by itself, and where it stands.
func Schedule(d dispatcher.Delivery, own, usual []time.Duration) []Step {
	delays := own
	if delays == nil {
		delays = usual
	}
	steps := []Step{{Label: "first try"}}
	for i, delay := range delays {
		steps = append(steps, Step{Label: "retry " + strconv.Itoa(i+1) + " after " + web.Span(delay)})
	}
	failed := d.Failures
	if d.State == dispatcher.StateSucceeded {
		failed--
	}
	failed = min(max(failed, 0), len(steps))
	for i := range steps[:failed] {
		steps[i].Class, steps[i].Word = "past", "failed"
	}
	switch {
	case failed == len(steps):
	case d.State == dispatcher.StateSucceeded:
		steps[failed].Class, steps[failed].Word = "done", "succeeded"
		failed++
	case d.State == dispatcher.InFlight:
		steps[failed].Class, steps[failed].Word = "now", "on its way"
	case !d.State.Finished():
		steps[failed].Class, steps[failed].Word = "now", "next"
	}
	if d.State.Finished() { // the tries that it did not come to would look as if they were still to be made
		return steps[:failed]
	}
	return steps
}
