//go:build chaos

package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// regular is a good endpoint, and the times at which its events were accepted.
type regular struct {
	p      *process
	tenant string
	host   *receiver

	mu       sync.Mutex
	accepted map[string]time.Time
}

func (p *process) regular(tenant string) *regular {
	p.t.Helper()
	g := &regular{p: p, tenant: tenant, host: receive(p.t, always(http.StatusOK)), accepted: map[string]time.Time{}}
	p.endpoint(tenant, g.host.url("/good"), object{"event_types": []string{"good"}})
	return g
}

func (g *regular) send() {
	r, err := g.p.try(http.MethodPost, "/v1/tenants/"+g.tenant+"/events/good", "text/plain", []byte("good"))
	if err != nil || r.status != http.StatusAccepted {
		g.p.t.Errorf("enqueue: %v %d %s", err, r.status, r.body)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.accepted[r.object(g.p.t).text("id")] = time.Now()
}

func (g *regular) stream(n int, every time.Duration) {
	for range n {
		g.send()
		<-time.After(every)
	}
}

// keepOn sends until end is called.
func (g *regular) keepOn() (end func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			default:
				g.stream(1, 50*time.Millisecond)
			}
		}
	}()
	end = sync.OnceFunc(func() { close(over); <-done })
	g.p.t.Cleanup(end)
	return end
}

func (g *regular) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.accepted)
}

// check waits for all, which must have come once, and sooner than one that had waited for a hostile receiver's time-out.
func (g *regular) check() {
	t := g.p.t
	t.Helper()
	eventually(t, func() string {
		if got, want := g.host.count(), g.count(); got < want {
			return fmt.Sprintf("%d of the good endpoint's %d events have come", got, want)
		}
		return ""
	})
	var slowest time.Duration
	for _, r := range g.host.requests() {
		slowest = max(slowest, r.at.Sub(g.accepted[r.get("webhook-id")]))
	}
	if got, want := g.host.count(), g.count(); got != want || slowest > allowed {
		t.Errorf("%d requests of %d events at the good endpoint, the slowest after %v", got, want, slowest)
	}
	t.Logf("the good endpoint got %d events, the slowest after %v", g.count(), slowest)
}
