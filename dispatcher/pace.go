package dispatcher

import (
	"net/http"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// How fast an endpoint is sent to follows from its answers. Three things are kept apart:
//
//   - its window, how many may be in flight from this process: it grows while answers are quick and shrinks when there
//     are signs of overload, between 1 and max_in_flight, as TCP's congestion window does (RFC 5681);
//   - its breaker, shared by all processes: so many failures in a row open it, then one attempt at a time probes;
//   - a pause that it asked for itself (429 or 503 with Retry-After), shared as well.
//
// After a breaker or a pause the window begins at 1, so a backlog comes back at a growing pace.

const (
	// startWindow is what an endpoint's window begins with that nothing is known of.
	startWindow = 16
	// quickAnswer is the slowest answer that lets a window grow. Slower ones leave it as it is.
	quickAnswer = 2 * time.Second
)

// pace is what this process has learnt of how fast an endpoint may be sent to.
type pace struct {
	size   int                     // of the window; 0: nothing learnt yet
	cutAt  time.Time               // when the window was last cut: one answer of many in flight at that moment cuts, not each
	unwell int                     // failures in a row of the kinds that say the receiver is not well, a delivery's own in a row as one
	failed int64                   // the delivery that the last of them was of
	slotAt time.Time               // the next free slot of its rate limit, as far as this process knows
	slotOf subscriptions.RateLimit // the limit that slotAt is of
	held   bool                    // when last looked at, its breaker was not closed or it was paused
}

func (p *pace) window() int {
	if p.size == 0 {
		return startWindow
	}
	return p.size
}

// symptom is what an attempt says about its receiver's load.
type symptom uint8

const (
	steady     symptom = iota // nothing
	quick                     // it can take more
	overloaded                // it cannot take what it gets
)

// judge says what an attempt's outcome tells of the receiver's load, and whether it tells that the receiver is not well.
// A 500 may be one event's fault, so it shrinks no window; many in a row are the receiver's.
func judge(o Outcome, status int, took time.Duration) (s symptom, unwell bool) {
	switch o {
	case Timeout, ConnectError:
		return overloaded, true
	case DNSError, TLSError, ProtocolError:
		return steady, true
	case Retryable:
		switch status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return overloaded, true
		}
		return steady, status >= http.StatusInternalServerError
	case Succeeded, Unauthorized, Gone, Redirected, Rejected:
		if took <= quickAnswer {
			return quick, false
		}
	case Blocked, Unknown:
	}
	return steady, false
}

// judged is what the attempt tells of its receiver: nothing if none was made.
func (r result) judged() (s symptom, unwell bool) {
	if !r.made {
		return steady, false
	}
	return judge(r.outcome, r.answer.status, r.answer.timings.total)
}

// learn takes in an attempt of a delivery that began at begun and ended now.
func (p *pace) learn(delivery int64, s symptom, unwell bool, most int, begun, now time.Time) {
	size := min(p.window(), most)
	switch {
	case s == quick:
		p.size = min(size+1, most)
	case s == overloaded && !begun.Before(p.cutAt):
		p.size, p.cutAt = max(size/2, 1), now
	}
	switch {
	case !unwell:
		p.unwell, p.failed = 0, 0
	case delivery != p.failed:
		p.unwell, p.failed = p.unwell+1, delivery
	}
}

// resume begins the window anew, at its least, if the endpoint was held: its backlog comes back at a growing pace.
func (r *roads) resume(endpoint id.ID) (window int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.to(endpoint)
	if known.held {
		known.held, known.size, known.unwell = false, 1, 0
	}
	return known.window()
}

// hold leaves an endpoint alone until then, because of its breaker or a pause. It is looked at again sooner: somebody may
// have let it go.
func (r *roads) hold(endpoint id.ID, until, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.to(endpoint)
	known.held = true
	known.closedUntil = earlier(until, now.Add(targetsMaxAge))
}
