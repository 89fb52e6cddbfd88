//go:build chaos

package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// FC-035: a receiver's Retry-After holds if it asks for more than the schedule does, up to a day; nonsense is none.
func TestChaosReceiversRetryAfter(t *testing.T) {
	t.Parallel()
	p := serve(t, settings{"DELIVERY_RETRY_SCHEDULE": "100ms"})
	tenant := p.tenant()
	const day, soon = 24 * time.Hour, 5 * time.Second
	type asked struct {
		value       string
		least, most time.Duration // from the first request to the second
		event       string
		r           *receiver
	}
	var all []*asked
	for _, status := range []int{429, 503} {
		for i, a := range []*asked{
			{value: "7", least: 7 * time.Second, most: 7*time.Second + soon},
			{value: time.Now().Add(9 * time.Second).UTC().Format(http.TimeFormat), least: 5 * time.Second, most: 9*time.Second + soon},
			{value: "abc", most: soon},
			{value: "-5", most: soon},
			{value: "99999999", least: day, most: day + soon},
		} {
			a.r = receive(t, func(n int, _ request) string {
				if n == 1 {
					return answer(status, "Retry-After: "+a.value)
				}
				return answer(http.StatusOK)
			})
			kind := fmt.Sprint("after-", status, "-", i)
			p.endpoint(tenant, a.r.url("/"), object{"event_types": []string{kind}})
			a.event = p.raw(tenant, kind, fieldPayloads(t, "FC-035")[0])
			all = append(all, a)
		}
	}
	for _, a := range all {
		if a.most > day {
			var next time.Time
			eventually(t, func() string {
				d := p.deliveries(a.event)[0]
				if d.number("attempts") == 0 || d.text("state") != "pending" {
					return "no first attempt: " + sprint(d)
				}
				next = d.stamp(t, "next_attempt_at")
				return ""
			})
			if wait := next.Sub(a.r.requests()[0].at); wait < a.least-time.Second || wait > a.most {
				t.Errorf("%s: the next attempt is to be after %v", a.value, wait)
			}
			continue
		}
		p.await(a.event, "succeeded")
		got := a.r.requests()
		if wait := got[len(got)-1].at.Sub(got[0].at); len(got) != 2 || wait < a.least || wait > a.most {
			t.Errorf("%s: %d requests, the second after %v", a.value, len(got), wait)
		}
	}
}

// FC-037: an endpoint that fails is tried as often as its schedule says, or once if it refuses our credentials, and costs
// the event's other endpoint nothing.
func TestChaosReceiversFailBesideAnother(t *testing.T) {
	t.Parallel()
	p := serve(t, settings{"DELIVERY_RETRY_SCHEDULE": "100ms,100ms"})
	for status, tries := range map[int]int{500: 3, 404: 3, 403: 1} {
		tenant := p.tenant()
		x, y := receive(t, always(status)), receive(t, always(http.StatusOK))
		failing := p.endpoint(tenant, x.url("/"), nil).text("id")
		p.endpoint(tenant, y.url("/"), nil)
		event := p.raw(tenant, "a", fieldPayloads(t, "FC-037")[0])
		eventually(t, func() string {
			for _, d := range p.deliveries(event) {
				want := "succeeded"
				if d.text("endpoint_id") == failing {
					want = "failed"
				}
				if d.text("state") != want {
					return sprint(d)
				}
			}
			return ""
		})
		for _, d := range p.deliveries(event) {
			want := 1
			if d.text("endpoint_id") == failing {
				want = tries
			}
			attempts := p.attempts(d)
			for i, a := range attempts {
				if total, _ := a.object("timings")["total_ms"].(float64); a.number("attempt") != want-i || total <= 0 || a.number("status") == 0 {
					t.Errorf("%d: %s", status, sprint(a))
				}
			}
			if len(attempts) != want {
				t.Errorf("%d: %d attempts, want %d", status, len(attempts), want)
			}
		}
		if x.count() != tries || y.count() != 1 {
			t.Errorf("%d: %d requests at the one that fails, %d at the other", status, x.count(), y.count())
		}
	}
}

// FC-040: a receiver that takes nearly as long as it may, with two dispatchers and the shortest lease there can be: no event
// is asked for twice.
func TestChaosReceiversJustInTime(t *testing.T) {
	t.Parallel()
	h := entertain(t, func(visit) verdict {
		<-time.After(allowed - 500*time.Millisecond) // the receiver's work
		return says(http.StatusOK)
	})
	env := settings{"DELIVERY_TIMEOUT": allowed.String(), "DELIVERY_LEASE": (2 * allowed).String()}
	s := ownDatabase(t, "receiver that takes nearly as long as it may", env)
	p := s.start(nil)
	s.start(nil)
	tenant := p.tenant()
	p.on(tenant, h, "/slow", nil)
	n := load(80)
	p.batch(tenant, many("slow", n))
	h.awaitServed(t, "/slow", n)
	s.calm()
	h.once(t, "/slow")
}
