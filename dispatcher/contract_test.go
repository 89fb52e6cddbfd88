package dispatcher

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/fault"
)

// CONTRACT §2 once more, stated apart from the code, for the property tests: what each answer means.

// told is what a receiver does with a request.
type told struct {
	status     int
	err        error
	retryAfter string        // "": no such header
	asks       time.Duration // of a number of seconds
	until      time.Time     // of a date
	command    string        // webhook-delivery
}

// tlsRefusal is a fault of the handshake, as whoever dials marks it.
type tlsRefusal struct{ error }

func (tlsRefusal) TLSHandshake() {}

// noAnswers are the ways in which no answer comes, each with its outcome.
var noAnswers = []struct {
	err     error
	outcome Outcome
}{
	{context.DeadlineExceeded, Timeout},
	{&net.DNSError{Err: "no such host", Name: "receiver.test", IsNotFound: true}, DNSError},
	{&net.OpError{Op: "dial", Err: errors.New("refused")}, ConnectError},
	{io.ErrUnexpectedEOF, ConnectError},
	{tlsRefusal{errors.New("bad certificate")}, TLSError},
	{errors.New("malformed HTTP status code"), ProtocolError},
	{fault.New(fault.Blocked, "the host is not allowed: loopback"), Blocked},
}

// outcome is the second column of the table.
func (a told) outcome() Outcome {
	for _, n := range noAnswers {
		if errors.Is(a.err, n.err) {
			return n.outcome
		}
	}
	switch s := a.status; {
	case s/100 == 2:
		return Succeeded
	case s == 401, s == 403:
		return Unauthorized
	case s == 410:
		return Gone
	case s == 408, s == 425, s == 429, s/100 == 5:
		return Retryable
	case s/100 == 3:
		return Redirected
	case s/100 == 4:
		return Rejected
	}
	return ProtocolError
}

func (a told) header() http.Header {
	h := http.Header{}
	if a.retryAfter != "" {
		h.Set("Retry-After", a.retryAfter)
	}
	if a.command != "" {
		h.Set("webhook-delivery", a.command)
	}
	return h
}

// meaning is the rest of the table: what becomes of the delivery and of its endpoint.
type meaning struct {
	state    State
	reason   Reason
	failed   bool          // it counts as a failed attempt
	soonest  time.Duration // of a pending one: when the next attempt is due
	latest   time.Duration
	endpoint EndpointChange
	pause    time.Duration // nothing goes to the endpoint before; 0: it did not ask
}

// asked is what Retry-After asks for at now: no more than a day, and nothing that is past.
func (a told) asked(now time.Time) time.Duration {
	asks := a.asks
	if !a.until.IsZero() {
		asks = a.until.Sub(now)
	}
	return min(max(asks, 0), 24*time.Hour)
}

// means says it of an attempt that ended now, with so many failed ones before it.
func (a told) means(now time.Time, failures int, schedule []time.Duration, jitter float64) meaning {
	m := meaning{state: StateSucceeded}
	switch outcome := a.outcome(); outcome {
	case Succeeded, Unknown:
	case Unauthorized:
		m = meaning{state: StateFailed, reason: ReasonUnauthorized, failed: true}
	case Gone:
		m = meaning{state: StateFailed, reason: ReasonGone, failed: true, endpoint: EndpointDead}
	case Blocked:
		m = meaning{state: StateFailed, reason: ReasonBlocked, failed: true}
	case Retryable, Redirected, Rejected, Timeout, DNSError, ConnectError, TLSError, ProtocolError:
		m = meaning{state: StateFailed, reason: ReasonExhausted, failed: true}
		if failures < len(schedule) {
			own := schedule[failures]
			m = meaning{state: Pending, failed: true, soonest: own, latest: own + time.Duration(float64(own)*jitter)}
			if outcome == Retryable {
				m.soonest, m.latest = max(m.soonest, a.asked(now)), max(m.latest, a.asked(now))
			}
		}
	}
	if a.status == 429 || a.status == 503 {
		m.pause = a.asked(now)
	}
	if a.status/100 == 2 || a.status/100 == 4 {
		if a.command == "abort-message" && (m.state == Pending || m.state == StateSucceeded) {
			m.state, m.reason, m.soonest, m.latest = StateFailed, ReasonAborted, 0, 0
		}
		if a.command == "disable" && m.endpoint == EndpointStays {
			m.endpoint = EndpointDisabled
		}
	}
	return m
}

// tolds draws answers: half of them good or a plain 500, the rest of all kinds.
func tolds(now time.Time) *rapid.Generator[told] {
	return rapid.Custom(func(t *rapid.T) told {
		switch evenly(t, 10, "kind") {
		case 0, 1, 2:
			return told{status: 200}
		case 3, 4:
			return told{status: 500}
		case 5:
			return told{err: noAnswers[evenly(t, len(noAnswers), "no answer")].err}
		}
		statuses := []int{204, 299, 301, 400, 401, 403, 404, 408, 410, 413, 425, 429, 429, 502, 503, 503, 599, rapid.IntRange(101, 699).Draw(t, "any")}
		a := told{status: statuses[evenly(t, len(statuses), "status")]}
		commands := []string{"", "", "", "abort-message", "disable", "stop"}
		a.command = commands[evenly(t, len(commands), "webhook-delivery")]
		switch evenly(t, 6, "Retry-After") {
		case 0:
			n := rapid.IntRange(1, 100_000).Draw(t, "seconds")
			a.retryAfter, a.asks = strconv.Itoa(n), time.Duration(n)*time.Second
		case 1:
			n := time.Duration(rapid.IntRange(-100, 100_000).Draw(t, "seconds to a date")) * time.Second
			a.until = now.Add(n)
			a.retryAfter = a.until.UTC().Format(http.TimeFormat)
		case 2:
			a.retryAfter = rapid.SampledFrom([]string{"soon", "-5", "1.5", "0", "Thu, 01 Jan 1970 00:00:00 GMT"}).Draw(t, "garbage")
		}
		return a
	})
}
