package dispatcher

import (
	"slices"
	"time"

	"github.com/postrider/postrider/subscriptions"
)

// settle has a worker record what has come back, and the model do the same in the order in which it came.
func (p *play) settle(w *worker, flown []*flight) {
	w.senders.Wait()
	var results []result
	for len(w.results) > 0 {
		results = append(results, <-w.results)
	}
	if len(results) == 0 {
		return
	}
	w.flush(p.ctx, results)
	w.tasks.Wait()
	b := batch{play: p, recovered: map[*subject]bool{}, closing: map[*subject]closing{}}
	for _, r := range results {
		l, err := p.find(r.claimed.delivery())
		p.must(nil, err)
		at := slices.IndexFunc(flown, func(f *flight) bool { return f.life == l && f.attempt == r.claimed.Attempts && f.owner == r.owner })
		switch {
		case at < 0:
			b.lost(l, r.owner, r.claimed.Attempts)
		case r.outcome == Unknown:
			b.interrupted(flown[at])
		default:
			b.answered(flown[at])
		}
	}
	b.close()
}

// batch is what the results of one record do to the model.
type batch struct {
	*play
	recovered map[*subject]bool
	closing   map[*subject]closing
	over      []*subject // somebody has said 410
}

// closing is what a batch's results ask for an endpoint's status.
type closing struct {
	status  subscriptions.Status
	reason  string
	version int
	since   time.Time // disabled for failing since then; zero: for another reason
}

// ours reports whether a lease is still the one that an attempt ran under.
func ours(l *life, owner int64, attempt int) bool {
	return l.state == InFlight && l.owner == owner && l.attempts == attempt
}

// back is what a delivery becomes that is to go on waiting: unless it was cancelled while it was in flight.
func (l *life) back(due, latest time.Time) {
	l.state, l.due, l.latest = Pending, due, latest
	if l.mark != "" {
		l.state, l.reason = StateCancelled, l.mark
	}
	l.mark = ""
}

func (b *batch) lost(l *life, owner int64, attempt int) {
	if !ours(l, owner, attempt) {
		b.Fatalf("an attempt of %v was found lost that was not", l.id)
	}
	now := b.w.clock()
	if !l.leasedTo.Before(now) {
		b.Fatalf("%v was found lost %v before its lease ends", l.id, l.leasedTo.Sub(now))
	}
	b.met["attempt: lost"]++
	l.lost++
	if l.rescues++; l.rescues >= 5 {
		l.state, l.reason, l.mark = StateFailed, ReasonPoisoned, ""
		return
	}
	l.back(now, now)
}

func (b *batch) interrupted(f *flight) {
	b.met["attempt: interrupted"]++
	f.lost++
	if ours(f.life, f.owner, f.attempt) {
		f.back(b.w.clock(), b.w.clock())
	}
}

func (b *batch) answered(f *flight) {
	f.seen++
	if !ours(f.life, f.owner, f.attempt) {
		b.met["attempt: too late"]++
		return // it came too late: the request was made, and nothing follows
	}
	b.met["attempt: "+f.answer.outcome().String()]++
	now, s := b.w.clock(), f.endpoint
	m := f.answer.means(now, f.failures, lifeSchedule, lifeJitter)
	f.rescues = 0
	if m.failed {
		f.failures++
	}
	if m.state == Pending {
		f.back(now.Add(m.soonest), now.Add(m.latest))
	} else {
		f.state, f.reason, f.mark = m.state, m.reason, ""
	}
	if m.endpoint == EndpointDead {
		b.over = append(b.over, s)
	}
	if s.deleted {
		return
	}
	succeeded := f.answer.outcome() == Succeeded
	switch {
	case succeeded:
		s.failures, s.since = 0, time.Time{}
		b.recovered[s] = true
	default:
		if s.failures == 0 {
			s.since = now
		}
		s.failures++
	}
	switch c := b.closing[s]; {
	case m.endpoint == EndpointDead:
		b.closing[s] = closing{status: subscriptions.Dead, reason: "gone", version: f.version}
	case c.status == subscriptions.Dead:
	case m.endpoint == EndpointDisabled:
		b.closing[s] = closing{status: subscriptions.Disabled, reason: "receiver_asked", version: f.version}
	case !succeeded && !f.since.IsZero() && now.Sub(f.since) >= lifeDisable:
		b.closing[s] = closing{status: subscriptions.Disabled, reason: "failing", version: f.version, since: f.since}
	}
}

// close does what the batch asks of endpoints: a status only follows if they are still what they were when it was tried.
func (b *batch) close() {
	for s, c := range b.closing {
		stale := c.version != s.version
		well := !c.since.IsZero() && (b.recovered[s] || !s.since.Equal(c.since))
		goes := c.status == subscriptions.Dead && s.status != subscriptions.Dead || s.status == subscriptions.Enabled
		if !stale && !well && goes {
			s.status, s.reason = c.status, c.reason
		}
	}
	for _, s := range b.over {
		b.cancelAll(s, ReasonEndpointDead)
	}
}

// cancelAll is what becomes of the unfinished deliveries of an endpoint that is over.
func (p *play) cancelAll(s *subject, why Reason) {
	for _, l := range p.lives {
		switch {
		case l.endpoint != s || !s.isOver():
		case l.waits():
			l.state, l.reason = StateCancelled, why
		case l.state == InFlight:
			l.mark = why
		}
	}
}
