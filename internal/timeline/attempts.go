package timeline

import (
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/web"
)

// Attempt is an attempt with its waterfall, for the template "attempt".
type Attempt struct {
	dispatcher.Attempt
	Body      web.Body
	Waterfall Waterfall
	Waited    *time.Duration // since the attempt before it ended, or since the delivery was made; nil: unknown
	Open      bool
}

// Attempts draws attempts, the newest first. more: there are older ones, before the last of these.
func Attempts(attempts []dispatcher.Attempt, made time.Time, more bool) []Attempt {
	out := make([]Attempt, 0, len(attempts))
	for i, a := range attempts {
		view := Attempt{Attempt: a, Body: web.NewBody(a.ResponseBody, a.Truncated), Open: i == 0}
		switch {
		case i+1 < len(attempts):
			if before := attempts[i+1]; before.Timings.Total != nil {
				waited := a.StartedAt.Sub(before.StartedAt.Add(*before.Timings.Total))
				view.Waited = &waited
			}
		case !more:
			waited := a.StartedAt.Sub(made)
			view.Waited = &waited
		}
		view.Waterfall = Draw(view.Waited, a.Timings)
		out = append(out, view)
	}
	return out
}
