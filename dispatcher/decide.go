package dispatcher

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// DefaultSchedule is how long a delivery waits after each failed attempt, counted from that attempt's end, and beside
// it how long after the first attempt the next one comes when attempts take no time.
var DefaultSchedule = []time.Duration{
	1 * time.Minute,  // 1m
	5 * time.Minute,  // 6m
	30 * time.Minute, // 36m
	2 * time.Hour,    // 2h36m
	6 * time.Hour,    // 8h36m
}

// maxRetryAfter bounds what a receiver may ask for.
const maxRetryAfter = 24 * time.Hour

const (
	// maxRescues is how many times in a row a delivery may be lost with the process that tries it before it is taken for the cause.
	maxRescues = 5
	// suspectAfter is how many times in a row it may be lost before it is sent apart. All that is in flight with one that costs
	// its process its life is lost as well, and looks no better than it does. Of those that were lost so often a process has one
	// in flight: then the sound ones arrive, and the one that is not falls alone.
	suspectAfter = 3
)

// Command is what a receiver asks for in the webhook-delivery header of a 2xx or 4xx answer.
type Command uint8

// The commands of CONTRACT §1.
const (
	NoCommand Command = iota
	AbortMessage
	DisableEndpoint
)

// Facts is all that a decision depends on.
type Facts struct {
	Outcome      Outcome
	Status       int // 0: no answer
	Header       http.Header
	Failures     int // failed attempts before this one, since the schedule was last started
	Rescues      int // attempts lost with their process before this one
	Schedule     []time.Duration
	Now          time.Time     // the attempt's end
	Jitter       float64       // 0 up to delivery.retry_jitter, drawn for this decision
	FailingSince *time.Time    // the endpoint's first failure after its last success
	DisableAfter time.Duration // 0: never
}

// Decision is what becomes of a delivery, and of its endpoint, after an attempt.
type Decision struct {
	State          State  // Pending, or a finished one
	Reason         Reason // of a finished one that is no success
	NextAt         time.Time
	Failures       int
	Rescues        int
	Endpoint       EndpointChange
	EndpointReason string
	PauseUntil     time.Time // nothing is sent to the endpoint before; zero: it did not ask
}

// EndpointChange is what an attempt does to its endpoint's status.
type EndpointChange uint8

// The changes.
const (
	EndpointStays EndpointChange = iota
	EndpointDisabled
	EndpointDead
)

// Why an endpoint was switched off: the value of its status_reason.
const (
	disabledByReceiver = "receiver_asked" // webhook-delivery: disable
	disabledFailing    = "failing"        // every attempt failed for delivery.disable_after
	deadGone           = "gone"           // 410
)

// Decide says what becomes of a delivery after an attempt. It is pure: the clock and the dice come in.
func Decide(f Facts) Decision {
	if f.Outcome == Unknown {
		return decideLost(f)
	}
	d := Decision{State: StateSucceeded, Failures: f.Failures}
	if f.Outcome != Succeeded {
		d = decideFailed(f)
	}
	d.PauseUntil = f.pauseUntil()
	command := receiverCommand(f.Status, f.Header)
	if command == AbortMessage && (!d.State.Finished() || d.State == StateSucceeded) {
		d.State, d.Reason, d.NextAt = StateFailed, ReasonAborted, time.Time{}
	}
	switch {
	case f.Outcome == Gone:
		d.Endpoint, d.EndpointReason = EndpointDead, deadGone
	case command == DisableEndpoint:
		d.Endpoint, d.EndpointReason = EndpointDisabled, disabledByReceiver
	case f.Outcome != Succeeded && f.failingTooLong():
		d.Endpoint, d.EndpointReason = EndpointDisabled, disabledFailing
	}
	return d
}

func decideFailed(f Facts) Decision {
	d := Decision{State: StateFailed, Failures: f.Failures + 1}
	switch f.Outcome {
	case Unauthorized:
		d.Reason = ReasonUnauthorized
	case Gone:
		d.Reason = ReasonGone
	case Blocked:
		d.Reason = ReasonBlocked
	case Retryable, Redirected, Rejected, Timeout, DNSError, ConnectError, TLSError, ProtocolError:
		if f.Failures >= len(f.Schedule) {
			d.Reason = ReasonExhausted
			break
		}
		d.State = Pending
		d.NextAt = f.Now.Add(f.delay())
	case Unknown, Succeeded:
		panic("dispatcher: decideFailed asked about " + f.Outcome.String())
	}
	return d
}

// decideLost puts a delivery back whose attempt nobody saw the end of: at once, and without moving it along its
// schedule, for the receiver is not to blame. One that keeps costing its process is parked.
func decideLost(f Facts) Decision {
	d := Decision{State: Pending, NextAt: f.Now, Failures: f.Failures, Rescues: f.Rescues + 1}
	if d.Rescues >= maxRescues {
		d.State, d.Reason, d.NextAt = StateFailed, ReasonPoisoned, time.Time{}
	}
	return d
}

// delay is the schedule's next delay with its jitter, or what Retry-After asks for if that is longer.
func (f Facts) delay() time.Duration {
	base := f.Schedule[f.Failures]
	own := base + time.Duration(float64(base)*f.Jitter)
	if f.Outcome != Retryable {
		return own
	}
	return max(own, retryAfter(f.Header.Get("Retry-After"), f.Now))
}

// pauseUntil is until when a receiver wants to be left alone altogether: 429 and 503 with Retry-After are about the receiver
// and not about one delivery (RFC 6585 §4, RFC 9110 §15.6.4).
func (f Facts) pauseUntil() time.Time {
	if f.Status != http.StatusTooManyRequests && f.Status != http.StatusServiceUnavailable {
		return time.Time{}
	}
	wait := retryAfter(f.Header.Get("Retry-After"), f.Now)
	if wait == 0 {
		return time.Time{}
	}
	return f.Now.Add(wait)
}

func (f Facts) failingTooLong() bool {
	return f.DisableAfter > 0 && f.FailingSince != nil && f.Now.Sub(*f.FailingSince) >= f.DisableAfter
}

// retryAfter reads a Retry-After value (RFC 9110 §10.2.3: seconds, or an HTTP date) as a delay from now: 0 when it is
// garbage, negative or past, at most maxRetryAfter.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	if digitsOnly(value) {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter // more digits than a number holds is still a very long time
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

func digitsOnly(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// receiverCommand reads the webhook-delivery header, which counts in a 2xx or 4xx answer only.
func receiverCommand(status int, h http.Header) Command {
	if status/100 != 2 && status/100 != 4 {
		return NoCommand
	}
	switch strings.ToLower(strings.TrimSpace(h.Get("webhook-delivery"))) {
	case "abort-message":
		return AbortMessage
	case "disable":
		return DisableEndpoint
	}
	return NoCommand
}
