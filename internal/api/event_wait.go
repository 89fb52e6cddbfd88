package api

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/intake"
)

const (
	// longestWait is how long a request may have an event be waited for.
	longestWait = 30 * time.Second
	// mostWaiting bounds how many requests of a process wait for an event at once, and so what their looking costs the database:
	// a query by keys a second each.
	mostWaiting = 256
	// The pauses between looks double from the first to the last of these.
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

type readEventIn struct {
	EventIn
	Wait string `query:"wait" example:"20s" doc:"How long to wait for the event to be finished, up to 30s. The answer is the same in the end, with Retry-After as long as it is not."`
}

type readEventOut struct {
	RetryAfter string `header:"Retry-After" doc:"In seconds: the event is not finished."`
	Body       wholeEventView
}

func (s *server) readEvent(ctx context.Context, in *readEventIn) (*readEventOut, error) {
	var faults fault.Fields
	var wait time.Duration
	spanWithin(&faults, "?wait", in.Wait, 0, longestWait, &wait)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	e, err := s.finishedEvent(ctx, wait, func() (intake.Stored, error) {
		return s.d.Intake.Event(ctx, tenantOf(ctx).ID, in.Event)
	})
	if err != nil {
		return nil, err
	}
	whole, err := s.wholeEvent(ctx, e)
	if err != nil {
		return nil, err
	}
	out := &readEventOut{Body: whole.Body}
	if !e.Finished() {
		out.RetryAfter = "1"
	}
	return out, nil
}

// finishedEvent looks at once, and again until the event is finished, the time is over, whoever asked has gone or the server
// stops. Between two looks it holds nothing but its own place among those that wait; if there is none left, it does not wait.
func (s *server) finishedEvent(ctx context.Context, wait time.Duration, look func() (intake.Stored, error)) (intake.Stored, error) {
	e, err := look()
	if err != nil || e.Finished() || wait <= 0 {
		return e, err
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return e, nil
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		next := time.NewTimer(pause)
		select {
		case <-next.C:
		case <-over.C:
			next.Stop()
			return look() // what there was at the end of the time, and not before it
		case <-s.d.Stopping:
			next.Stop()
			return e, nil
		case <-ctx.Done():
			next.Stop()
			return e, ctx.Err()
		}
		if e, err = look(); err != nil || e.Finished() {
			return e, err
		}
	}
}
