package dispatcher

import (
	"net/http"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// Every status and every kind of error, from the outcome to the decision: CONTRACT §2's table.
func TestEachOutcomesDecision(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		outcome  Outcome
		state    State
		reason   Reason
		endpoint EndpointChange
	}{
		{Succeeded, StateSucceeded, "", EndpointStays},
		{Unauthorized, StateFailed, ReasonUnauthorized, EndpointStays},
		{Gone, StateFailed, ReasonGone, EndpointDead},
		{Blocked, StateFailed, ReasonBlocked, EndpointStays},
		{Retryable, Pending, "", EndpointStays},
		{Redirected, Pending, "", EndpointStays},
		{Rejected, Pending, "", EndpointStays},
		{Timeout, Pending, "", EndpointStays},
		{DNSError, Pending, "", EndpointStays},
		{ConnectError, Pending, "", EndpointStays},
		{TLSError, Pending, "", EndpointStays},
		{ProtocolError, Pending, "", EndpointStays},
		{Unknown, Pending, "", EndpointStays},
	} {
		d := Decide(Facts{Outcome: c.outcome, Schedule: DefaultSchedule, Now: noon})
		if d.State != c.state || d.Reason != c.reason || d.Endpoint != c.endpoint {
			t.Errorf("%v: %v %q endpoint %v; want %v %q %v", c.outcome, d.State, d.Reason, d.Endpoint, c.state, c.reason, c.endpoint)
		}
		if d.State.Finished() != d.NextAt.IsZero() {
			t.Errorf("%v: state %v with next at %v", c.outcome, d.State, d.NextAt)
		}
	}
}

func TestScheduleHasFiveDelaysCountedFromTheAttemptsEnd(t *testing.T) {
	t.Parallel()
	want := []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour}
	for failures, delay := range want {
		for _, jitter := range []float64{0, 0.05, 0.1} {
			d := Decide(Facts{Outcome: Retryable, Status: 500, Failures: failures, Schedule: DefaultSchedule, Now: noon, Jitter: jitter})
			if got := d.NextAt.Sub(noon); got != delay+time.Duration(float64(delay)*jitter) || d.Failures != failures+1 {
				t.Errorf("failure %d, jitter %v: next in %v with %d failures", failures+1, jitter, got, d.Failures)
			}
		}
	}
	d := Decide(Facts{Outcome: Retryable, Status: 500, Failures: len(want), Schedule: DefaultSchedule, Now: noon})
	if d.State != StateFailed || d.Reason != ReasonExhausted || d.Failures != 6 {
		t.Errorf("after the last retry: %+v", d)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"7": time.Minute, "90": 90 * time.Second, " 90 ": 90 * time.Second, "86400": 24 * time.Hour,
		"99999999": 24 * time.Hour, "99999999999999999999999": 24 * time.Hour, "-5": time.Minute, "abc": time.Minute,
		"": time.Minute, "1.5": time.Minute, "0x10": time.Minute, "+120": time.Minute,
		noon.Add(9 * time.Minute).Format(http.TimeFormat):    9 * time.Minute,
		noon.Add(-9 * time.Minute).Format(http.TimeFormat):   time.Minute,
		noon.Add(1000 * time.Hour).Format(http.TimeFormat):   24 * time.Hour,
		noon.Add(9 * time.Minute).Format(time.RFC850):        9 * time.Minute,
		noon.Add(9 * time.Minute).UTC().Format(time.ANSIC):   9 * time.Minute,
		noon.Add(9 * time.Minute).UTC().Format(time.RFC3339): time.Minute,
	} {
		d := Decide(Facts{
			Outcome: Retryable, Status: 503, Header: header("Retry-After", value), Schedule: DefaultSchedule, Now: noon,
		})
		if got := d.NextAt.Sub(noon); got != want {
			t.Errorf("Retry-After %q: next in %v, want %v", value, got, want)
		}
	}
}

func TestRetryAfterCountsOnRetryableStatusesOnly(t *testing.T) {
	t.Parallel()
	d := Decide(Facts{Outcome: Rejected, Status: 404, Header: header("Retry-After", "3600"), Schedule: DefaultSchedule, Now: noon})
	if got := d.NextAt.Sub(noon); got != time.Minute {
		t.Errorf("next in %v", got)
	}
}

func TestWhatReceiversAskFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status  int
		outcome Outcome
		header  http.Header
		state   State
		reason  Reason
		change  EndpointChange
		why     string
	}{
		"abort in a 2xx":     {200, Succeeded, header("webhook-delivery", "abort-message"), StateFailed, ReasonAborted, EndpointStays, ""},
		"abort in a 4xx":     {404, Rejected, header("webhook-delivery", "abort-message"), StateFailed, ReasonAborted, EndpointStays, ""},
		"abort in a 429":     {429, Retryable, header("Webhook-Delivery", " Abort-Message "), StateFailed, ReasonAborted, EndpointStays, ""},
		"abort in a 401":     {401, Unauthorized, header("webhook-delivery", "abort-message"), StateFailed, ReasonUnauthorized, EndpointStays, ""},
		"abort in a 500":     {500, Retryable, header("webhook-delivery", "abort-message"), Pending, "", EndpointStays, ""},
		"abort in a 302":     {302, Redirected, header("webhook-delivery", "abort-message"), Pending, "", EndpointStays, ""},
		"disable in a 2xx":   {204, Succeeded, header("webhook-delivery", "disable"), StateSucceeded, "", EndpointDisabled, disabledByReceiver},
		"disable in a 4xx":   {400, Rejected, header("webhook-delivery", "disable"), Pending, "", EndpointDisabled, disabledByReceiver},
		"disable in a 410":   {410, Gone, header("webhook-delivery", "disable"), StateFailed, ReasonGone, EndpointDead, deadGone},
		"disable in a 503":   {503, Retryable, header("webhook-delivery", "disable"), Pending, "", EndpointStays, ""},
		"something else":     {200, Succeeded, header("webhook-delivery", "please"), StateSucceeded, "", EndpointStays, ""},
		"no header":          {200, Succeeded, nil, StateSucceeded, "", EndpointStays, ""},
		"no answer to speak": {0, Timeout, nil, Pending, "", EndpointStays, ""},
	} {
		d := Decide(Facts{Outcome: c.outcome, Status: c.status, Header: c.header, Schedule: DefaultSchedule, Now: noon})
		if d.State != c.state || d.Reason != c.reason || d.Endpoint != c.change || d.EndpointReason != c.why {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestEndpointThatOnlyFailsIsDisabled(t *testing.T) {
	t.Parallel()
	since := noon.Add(-5 * 24 * time.Hour)
	f := Facts{
		Outcome: Retryable, Status: 500, Schedule: DefaultSchedule, Now: noon,
		FailingSince: &since, DisableAfter: 5 * 24 * time.Hour,
	}
	if d := Decide(f); d.Endpoint != EndpointDisabled || d.EndpointReason != disabledFailing || d.State != Pending {
		t.Errorf("after five days: %+v", d)
	}
	for name, change := range map[string]func(*Facts){
		"a moment sooner": func(f *Facts) { f.Now = noon.Add(-time.Second) },
		"never":           func(f *Facts) { f.DisableAfter = 0 },
		"no failure yet":  func(f *Facts) { f.FailingSince = nil },
		"a success":       func(f *Facts) { f.Outcome, f.Status = Succeeded, 200 },
	} {
		g := f
		change(&g)
		if d := Decide(g); d.Endpoint != EndpointStays {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestLostAttemptsCostNothingUntilTheyLookLikeTheCause(t *testing.T) {
	t.Parallel()
	for rescues := range maxRescues {
		d := Decide(Facts{Outcome: Unknown, Now: noon, Failures: 3, Rescues: rescues})
		if d.Failures != 3 || d.Rescues != rescues+1 {
			t.Errorf("rescue %d: %+v", rescues+1, d)
		}
		if last := rescues == maxRescues-1; last != (d.State == StateFailed && d.Reason == ReasonPoisoned) || !last && !d.NextAt.Equal(noon) {
			t.Errorf("rescue %d: %+v", rescues+1, d)
		}
	}
}
