package dispatcher

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// decisionsEach is how many decisions a check makes: rapid runs a hundred checks.
const decisionsEach = 50

// Whatever comes back, and whatever was before, Decide says what CONTRACT §2 says.
func TestDecideIsTheContract(t *testing.T) {
	t.Parallel()
	holds(t, func(t *rapid.T) {
		for range decisionsEach {
			decideOnce(t)
		}
	})
}

func decideOnce(t *rapid.T) {
	spans := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(30*24*time.Hour)).Draw(t, "ns"))
	})
	now := noon.Add(rapid.SampledFrom([]time.Duration{0, time.Hour, -30 * 24 * time.Hour}).Draw(t, "now"))
	a := tolds(now).Draw(t, "answer")
	f := Facts{
		Outcome: Classify(a.status, a.err), Status: a.status, Header: a.header(), Now: now,
		Failures: rapid.IntRange(0, 8).Draw(t, "failures"), Rescues: rapid.IntRange(0, 4).Draw(t, "rescues"),
		Schedule: rapid.SliceOfN(spans, 0, 6).Draw(t, "schedule"),
		Jitter:   rapid.Float64Range(0, 1).Draw(t, "jitter"),
	}
	if f.Outcome != a.outcome() {
		t.Fatalf("%+v is %v, want %v", a, f.Outcome, a.outcome())
	}
	m := a.means(now, f.Failures, f.Schedule, f.Jitter)
	failingLong := false
	if rapid.Bool().Draw(t, "disables") {
		f.DisableAfter = spans.Draw(t, "disable after") + 1
		if rapid.Bool().Draw(t, "is failing") {
			failing := spans.Draw(t, "failing for")
			since := now.Add(-failing)
			f.FailingSince, failingLong = &since, failing >= f.DisableAfter
		}
	}
	reason := map[EndpointChange]string{EndpointDead: "gone", EndpointDisabled: "receiver_asked"}[m.endpoint]
	if m.endpoint == EndpointStays && failingLong && f.Outcome != Succeeded {
		m.endpoint, reason = EndpointDisabled, "failing"
	}
	d := Decide(f)
	failures := f.Failures
	if m.failed {
		failures++
	}
	if d.State != m.state || d.Reason != m.reason || d.Failures != failures || d.Rescues != 0 {
		t.Fatalf("%+v: %+v, want %+v", f, d, m)
	}
	if d.Endpoint != m.endpoint || d.EndpointReason != reason {
		t.Fatalf("%+v: the endpoint %v %q, want %v %q", f, d.Endpoint, d.EndpointReason, m.endpoint, reason)
	}
	if (m.state == Pending) == d.NextAt.IsZero() || m.state == Pending && d.NextAt.Sub(now) != m.latest {
		t.Fatalf("%+v: next at %v, want %v after", f, d.NextAt, m.latest)
	}
	if (m.pause == 0) != d.PauseUntil.IsZero() || m.pause > 0 && d.PauseUntil.Sub(now) != m.pause {
		t.Fatalf("%+v: paused until %v, want for %v", f, d.PauseUntil, m.pause)
	}
}

// A lost attempt moves nothing along, is due at once, and the fifth one parks the delivery.
func TestDecideOfLostAttempts(t *testing.T) {
	t.Parallel()
	holds(t, func(t *rapid.T) {
		f := Facts{Outcome: Unknown, Now: noon, Failures: rapid.IntRange(0, 9).Draw(t, "failures"), Rescues: rapid.IntRange(0, 9).Draw(t, "rescues")}
		want := Decision{State: Pending, NextAt: noon, Failures: f.Failures, Rescues: f.Rescues + 1}
		if want.Rescues >= 5 {
			want.State, want.Reason, want.NextAt = StateFailed, ReasonPoisoned, time.Time{}
		}
		if d := Decide(f); d != want {
			t.Fatalf("%+v: %+v, want %+v", f, d, want)
		}
	})
}
