package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/postrider/postrider/internal/fault"
)

// What ends a claim without a judged attempt.

var errNoEvent = errors.New("the event is not there any more")

// notNow is why a delivery is put back that nothing is wrong with.
type notNow string

func (n notNow) Error() string { return string(n) }

const (
	errNoSlot = notNow("the endpoint's rate limit leaves no slot yet")
	errLate   = notNow("the lease leaves no time for an attempt")
	errClosed = notNow("nothing may be sent to the endpoint any more")
)

// putBack returns a delivery that cannot be sent just now: the database is away, memory for its payload did not come free
// in time, its endpoint's rate limit leaves no slot yet, its endpoint was closed meanwhile, or we are stopping. The claim costs it
// nothing, unless the database is there and does not give away what is needed of it; only if the payload is gone can it never
// be sent.
func (d *Dispatcher) putBack(ctx context.Context, r result, err error) result {
	var delay notNow
	switch {
	case fault.Is(err, fault.NotFound):
		return unsendable(r, err)
	case refused(ctx, err) && !errors.As(err, &delay):
		return d.spoil(r, err)
	}
	wait := time.Second
	if ctx.Err() != nil {
		wait = 0
	}
	r.noAttempt = true
	r.decision = Decision{
		State: Pending, NextAt: d.deps.Now().Add(wait), Failures: r.claimed.Failures, Rescues: r.claimed.Rescues,
	}
	return r
}

// unsendable parks a delivery that no request can be made of: retrying would make the same nothing again.
func unsendable(r result, err error) result {
	r.noAttempt = true
	r.answer = answer{err: err}
	r.decision = Decision{
		State: StateFailed, Reason: ReasonUnsendable, Failures: r.claimed.Failures, Rescues: r.claimed.Rescues,
	}
	return r
}

// interrupted returns a delivery whose attempt was cut off by our own stop. It may have reached the receiver, so history
// has it and its number is used; but it moves nothing along the schedule and says nothing about the endpoint.
func interrupted(r result, now time.Time) result {
	r.made, r.outcome, r.endedAt = true, Unknown, now
	r.decision = Decision{State: Pending, NextAt: now, Failures: r.claimed.Failures, Rescues: r.claimed.Rescues}
	return r
}
