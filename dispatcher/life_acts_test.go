package dispatcher

import (
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// acts are what may happen, those that move deliveries on more often than the rest.
var acts = []struct {
	name string
	do   func(*play)
}{
	{"nothing", func(*play) {}},
	{"deliver", deliver},
	{"deliver", deliver},
	{"deliver", deliver},
	{"deliver", deliver},
	{"deliver", deliver},
	{"deliver", deliver},
	{"time passes", wait},
	{"time passes", wait},
	{"time passes", wait},
	{"time passes", wait},
	{"time passes", wait},
	{"enqueue", enqueue},
	{"enqueue", enqueue},
	{"enqueue", enqueue},
	{"enqueue", enqueue},
	{"the clock is put back", putBackClock},
	{"a process gets stuck", getStuck},
	{"a process gets stuck", getStuck},
	{"a stuck process goes on", goOn},
	{"a stuck process goes on", goOn},
	{"a stuck process is stopped", stopStuck},
	{"processes die", die},
	{"rescue", rescue},
	{"rescue", rescue},
	{"retry", retry},
	{"retry", retry},
	{"cancel", cancelOne},
	{"cancel an event", cancelEvent},
	{"disable", disable},
	{"enable", enable},
	{"enable", enable},
	{"enable", enable},
	{"rotate", rotate},
	{"delete", remove},
}

// remove deletes a tenant or an endpoint, and mostly nothing: it leaves little to do.
func remove(p *play) {
	switch evenly(p.T, 10, "which") {
	case 8:
		deleteEndpoint(p)
	case 9:
		deleteTenant(p)
	}
}

func deliver(p *play) {
	w := one(p, p.workers, "worker")
	p.settle(w, p.claim(w, p.drawAnswers()))
}

func wait(p *play) {
	p.w.advance(time.Duration(rapid.OneOf(
		rapid.IntRange(0, 70), rapid.IntRange(60, 2000), rapid.IntRange(3600, 3*3600), rapid.IntRange(24*3600, 30*3600),
	).Draw(p.T, "seconds")) * time.Second)
}

func putBackClock(p *play) {
	p.w.advance(-time.Duration(rapid.IntRange(1, 1200).Draw(p.T, "seconds")) * time.Second)
}

// getStuck has a process claim, whose receivers do not answer yet.
func getStuck(p *play) {
	w := p.newWorker(0)
	w.holds = true
	if w.flying = p.claim(w, p.drawAnswers()); len(w.flying) > 0 {
		p.stuck = append(p.stuck, w)
	}
}

// takeStuck gives one of the stuck processes.
func (p *play) takeStuck() *worker {
	if len(p.stuck) == 0 {
		return nil
	}
	at := evenly(p.T, len(p.stuck), "stuck")
	w := p.stuck[at]
	p.stuck = append(p.stuck[:at:at], p.stuck[at+1:]...)
	return w
}

// goOn has its receivers answer: in time, or long after its leases have ended.
func goOn(p *play) {
	if w := p.takeStuck(); w != nil {
		p.answer(w)
	}
}

func (p *play) answer(w *worker) {
	for _, f := range w.flying {
		f.receiver <- f.answer
	}
	p.settle(w, w.flying)
	w.stop()
}

func stopStuck(p *play) {
	if w := p.takeStuck(); w != nil {
		w.stop()
		p.settle(w, w.flying)
	}
}

// die has processes claim and vanish, one after the other; each time the lease ends and somebody finds what they had.
func die(p *play) {
	for range rapid.IntRange(1, 6).Draw(p.T, "times") {
		w := p.newWorker(0)
		w.holds = true
		p.claim(w, []told{{status: 200}})
		w.stop()
		w.senders.Wait()
		for len(w.results) > 0 { // it never came to record them
			<-w.results
		}
		p.w.advance(lifeLease + time.Second)
		rescue(p)
	}
}

func rescue(p *play) {
	w := one(p, p.workers, "worker")
	var lost int
	for _, l := range p.lives {
		if l.state == InFlight && l.leasedTo.Before(p.w.clock()) {
			lost++
		}
	}
	found, err := w.rescue(p.ctx)
	p.must(nil, err)
	if found != lost {
		p.Fatalf("%d attempts were found lost, want %d", found, lost)
	}
	p.settle(w, nil)
}

// refused holds an act's error against what the model says.
func (p *play) refused(err error, want bool, code fault.Code, what string) {
	if (err != nil) != want || want && !fault.Is(err, code) {
		p.Fatalf("%s: %v, want an error: %v", what, err, want)
	}
}

func retry(p *play) {
	if len(p.lives) == 0 {
		return
	}
	l := one(p, p.lives, "delivery")
	_, err := p.w.d.deps.Desk.Retry(p.ctx, l.id)
	no := l.state == InFlight || l.endpoint.isOver()
	p.refused(err, no, fault.Conflict, "retry")
	if !no {
		l.state, l.reason, l.failures, l.rescues, l.due, l.latest = Pending, "", 0, 0, p.w.clock(), p.w.clock()
	}
}

func cancelOne(p *play) {
	if len(p.lives) == 0 {
		return
	}
	l := one(p, p.lives, "delivery")
	_, err := p.w.d.deps.Desk.Cancel(p.ctx, l.id, ReasonCancelledByUser)
	p.refused(err, !l.waits(), fault.Conflict, "cancel")
	if l.waits() {
		l.state, l.reason = StateCancelled, ReasonCancelledByUser
	}
}

func cancelEvent(p *play) {
	if len(p.lives) == 0 {
		return
	}
	event := one(p, p.lives, "delivery").event
	cancelled, marked, err := p.w.d.deps.Desk.CancelEvent(p.ctx, event)
	p.must(nil, err)
	for _, l := range p.lives {
		switch {
		case l.event != event:
		case l.waits():
			l.state, l.reason = StateCancelled, ReasonCancelledByEvent
			cancelled--
		case l.state == InFlight:
			l.mark = ReasonCancelledByEvent
			marked--
		}
	}
	if cancelled != 0 || marked != 0 {
		p.Fatalf("%d too many were cancelled, %d too many marked", cancelled, marked)
	}
}

func disable(p *play) { setStatus(p, subscriptions.Disabled) }
func enable(p *play)  { setStatus(p, subscriptions.Enabled) }

func setStatus(p *play, to subscriptions.Status) {
	s := one(p, p.subject, "endpoint")
	_, err := p.w.store.UpdateEndpoint(p.ctx, s.tenant, id.Endpoint.Format(s.id), "", subscriptions.EndpointPatch{Status: &to})
	p.refused(err, s.deleted, fault.NotFound, "change the status")
	if s.deleted || s.status == to {
		return
	}
	s.status, s.reason = to, ""
	if to == subscriptions.Disabled {
		s.reason = "disabled_by_user"
		return
	}
	s.failures, s.since = 0, time.Time{}
}

func rotate(p *play) {
	s := one(p, p.subject, "endpoint")
	_, _, err := p.w.store.RotateSecret(p.ctx, s.tenant, id.Endpoint.Format(s.id), "", 0)
	p.refused(err, s.deleted, fault.NotFound, "rotate")
}

func deleteEndpoint(p *play) {
	s := one(p, p.subject, "endpoint")
	_, err := p.w.store.DeleteEndpoint(p.ctx, s.tenant, id.Endpoint.Format(s.id))
	p.refused(err, s.deleted, fault.NotFound, "delete")
	p.gone(s, ReasonEndpointDeleted)
}

func deleteTenant(p *play) {
	t := one(p, p.tenants, "tenant")
	_, endpoints, err := p.w.store.DeleteTenant(p.ctx, id.Tenant.Format(t.ID))
	if fault.Is(err, fault.NotFound) {
		for _, s := range p.subject {
			if s.tenant.ID == t.ID && !s.deleted {
				p.Fatal("the tenant of an endpoint is not there")
			}
		}
		return
	}
	p.must(nil, err)
	for _, s := range p.subject {
		if s.tenant.ID != t.ID || s.deleted {
			continue
		}
		endpoints = endpoints[1:]
		p.gone(s, ReasonTenantDeleted)
	}
	if len(endpoints) != 0 {
		p.Fatalf("%v were deleted too", endpoints)
	}
}

// gone is what whoever deletes an endpoint does next, as the API does.
func (p *play) gone(s *subject, why Reason) {
	if s.deleted {
		return
	}
	s.deleted = true
	_, err := p.w.d.deps.Desk.CancelUnfinished(p.ctx, s.id, why)
	p.must(nil, err)
	p.cancelAll(s, why)
}
