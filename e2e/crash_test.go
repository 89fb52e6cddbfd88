package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// kill -9 in the middle of 2,000 events, while they are still coming in: what was accepted arrives, whatever arrives
// twice was in flight, with the same ids.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	const events, inFlight = 2000, 64
	half := make(chan struct{})
	var once sync.Once
	r := receive(t, func(n int, _ request) string {
		if n >= events/4 {
			once.Do(func() { close(half) })
		}
		return answer(200)
	})
	limits := settings{"DELIVERY_MAX_IN_FLIGHT": fmt.Sprint(inFlight)}
	p := start(t, limits)
	tenant := p.tenant()
	p.endpoint(tenant, r.url("/hook"), nil)

	accepted := make(chan string, events)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := next.Add(1); n <= events; n = next.Add(1) {
				got, err := p.try(http.MethodPost, "/v1/tenants/"+tenant+"/events/n", "text/plain", []byte(fmt.Sprint(n)))
				if err == nil && got.status == http.StatusAccepted {
					accepted <- got.object(t).text("id")
				}
			}
		})
	}
	<-half
	p.kill()
	wg.Wait()
	close(accepted)

	again := serve(t, limits)
	want := map[string]bool{}
	for event := range accepted {
		want[event] = true
	}
	if len(want) < events/4 {
		t.Fatalf("only %d events were accepted before the kill", len(want))
	}
	eventually(t, func() string {
		if left := again.unfinished(); left != "" {
			return left
		}
		return ""
	})
	times := map[string]int{}
	for _, req := range r.requests() {
		times[req.get("webhook-id")]++
	}
	twice, lost := 0, 0
	for event := range want {
		switch n := times[event]; {
		case n == 0:
			lost++
		case n > 1:
			twice += n - 1
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d accepted events did not arrive", lost, len(want))
	}
	if twice > inFlight {
		t.Errorf("%d arrived twice, %d can have been in flight", twice, inFlight)
	}
	t.Logf("%d accepted, %d of them arrived twice", len(want), twice)
}

// unfinished says what is still to do, "" being nothing.
func (p *process) unfinished() string {
	p.t.Helper()
	got := p.get("/v1/deliveries?state=pending,in_flight,scheduled&limit=1").list("data")
	if len(got) == 0 {
		return ""
	}
	return "still to do: " + sprint(got[0])
}

// FC-039: a dispatcher killed while a receiver holds its request: asked again when the lease ends, and the attempt that nobody
// saw the end of shows as unknown.
func TestKilledDuringTheRequest(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 1)
	r := receive(t, func(n int, _ request) string {
		if n == 1 {
			arrived <- struct{}{}
			<-time.After(time.Second)
		}
		return answer(200)
	})
	p := start(t, nil)
	tenant := p.tenant()
	p.endpoint(tenant, r.url("/hook"), nil)
	event := p.send(tenant, "a", object{})
	<-arrived
	p.kill()
	again := serve(t, nil)
	d := again.await(event, "succeeded")
	if d.number("attempts") != 2 || r.count() != 2 {
		t.Errorf("%d requests: %s", r.count(), sprint(d))
	}
	if attempts := again.attempts(d); len(attempts) != 2 || attempts[1].text("outcome") != "unknown" {
		t.Errorf("attempts: %s", sprint(attempts))
	}
}

// SIGTERM under load: the process drains and ends with 0, nothing is lost, and nothing is counted that was not made.
func TestStoppedUnderLoad(t *testing.T) {
	t.Parallel()
	const events = 300
	r := receive(t, always(200))
	p := start(t, nil)
	tenant := p.tenant()
	p.endpoint(tenant, r.url("/hook"), nil)
	for range events / 100 {
		batch := make([]object, 100)
		for i := range batch {
			batch[i] = object{"type": "a", "payload": i}
		}
		p.want(http.StatusAccepted, http.MethodPost, "/v1/tenants/"+tenant+"/events:batch", object{"events": batch})
	}
	p.stop()
	again := serve(t, nil)
	eventually(t, again.unfinished)
	if n := r.count(); n != events {
		t.Errorf("%d requests for %d events", n, events)
	}
}
