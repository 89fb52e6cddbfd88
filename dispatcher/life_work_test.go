package dispatcher

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// worker is a dispatcher of a sequence, with the receivers that it meets.
type worker struct {
	*Dispatcher
	off    time.Duration // of its process's clock from the database's
	stop   context.CancelFunc
	work   context.Context //nolint:containedctx // what its attempts run under
	holds  bool            // its receivers answer when they are told to
	flying []*flight       // what they have

	mu       sync.Mutex
	requests []*http.Request // since they were looked at last
	answers  map[string]told // by delivery: what is answered at once
	gates    map[string]chan told
}

func (p *play) newWorker(off int64) *worker {
	w := &worker{off: time.Duration(off) * time.Second, answers: map[string]told{}, gates: map[string]chan told{}}
	d := p.w.another(w.play)
	d.cfg.RetrySchedule, d.cfg.RetryJitter, d.cfg.DisableAfter = lifeSchedule, lifeJitter, lifeDisable
	d.cfg.Timeout, d.cfg.Lease = lifeTimeout, lifeLease
	d.deps.WallTime = func() time.Time { return p.w.clock().Add(w.off) }
	w.Dispatcher = d
	w.work, w.stop = context.WithCancel(p.ctx)
	return w
}

// play is every receiver.
func (w *worker) play(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	delivery := posted(r)
	w.requests = append(w.requests, r)
	answer, gate := w.answers[delivery], make(chan told, 1)
	w.gates[delivery] = gate
	w.mu.Unlock()
	if w.holds {
		select {
		case answer = <-gate:
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
	if answer.err != nil {
		return nil, answer.err
	}
	return reply(answer.status, answer.header(), "")
}

// begun gives the requests that came since it was asked last, by delivery and attempt.
func (w *worker) begun() []*http.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.requests
	w.requests = nil
	slices.SortFunc(out, func(a, b *http.Request) int { return strings.Compare(posted(a), posted(b)) })
	return out
}

// claim has a worker claim once in the buckets of the sequence. Each delivery that goes out has to be one that may.
func (p *play) claim(w *worker, answers []told) []*flight {
	for i, l := range p.lives {
		w.answers[id.Delivery.Format(l.id)] = answers[i%len(answers)]
	}
	p.forget()
	n, err := w.claimOnce(p.ctx, w.work, []int16{p.tenants[0].ID.Shard, p.tenants[1].ID.Shard})
	p.must(nil, err)
	if w.holds {
		p.await(func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.requests) == n
		})
	} else {
		w.senders.Wait()
	}
	requests := w.begun()
	if len(requests) != n {
		p.Fatalf("%d deliveries were claimed, and %d requests made", n, len(requests))
	}
	var out []*flight
	var taken []*life
	for _, r := range requests {
		out = append(out, p.mayFly(w, r, taken))
		taken = append(taken, out[len(out)-1].life)
	}
	for _, f := range out {
		f.state, f.owner, f.attempts = InFlight, w.owner, f.attempt
		f.life.owner, f.leasedTo, f.mark = w.owner, p.w.clock().Add(lifeLease), ""
	}
	return out
}

// await waits for what happens in another goroutine within a moment.
func (p *play) await(done func() bool) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !done() {
		select {
		case <-tick.C:
		case <-late:
			p.Fatal("a claimed delivery does not go out")
		}
	}
}

// mayFly holds a request against the model as it was when it was claimed, together with those that were taken before it.
func (p *play) mayFly(w *worker, r *http.Request, taken []*life) *flight {
	n, err := id.Delivery.Parse(posted(r))
	p.must(nil, err)
	l, err := p.find(n)
	p.must(nil, err)
	s, now := l.endpoint, p.w.clock()
	switch {
	case !l.waits() || slices.Contains(taken, l):
		p.Fatalf("%v is sent, and is %v", l.id, l.state)
	case l.due.After(now):
		p.Fatalf("%v is sent %v too soon", l.id, l.due.Sub(now))
	case !s.mayReceive():
		p.Fatalf("%v is sent to an endpoint that is %s, deleted %v", l.id, s.status, s.deleted)
	case s.paused.After(now):
		p.Fatalf("%v is sent to an endpoint that wants a pause of %v", l.id, s.paused.Sub(now))
	}
	for _, o := range p.lives {
		if l.group == 0 || o == l || o.endpoint != s || o.group != l.group || o.state.Finished() {
			continue
		}
		if o.state == InFlight || slices.Contains(taken, o) {
			p.Fatalf("%v and %v of one group are in flight", l.id, o.id)
		}
		if o.id.N < l.id.N && !(o.state == Scheduled && o.due.After(now)) {
			p.Fatalf("%v is sent before %v, which its group has first", l.id, o.id)
		}
	}
	header := func(name string) string { return strings.Join(r.Header[name], ",") }
	if got := header(signer.HeaderAttempt); got != strconv.Itoa(l.attempts+1) {
		p.Fatalf("attempt %s of %v, which had %d", got, l.id, l.attempts)
	}
	if got, want := header(signer.HeaderTimestamp), strconv.FormatInt(now.Add(w.off).Unix(), 10); got != want {
		p.Fatalf("signed at %s; the process's clock shows %s", got, want)
	}
	if header(signer.HeaderID) != id.Event.Format(l.event) {
		p.Fatalf("%v is sent as %s", l.id, header(signer.HeaderID))
	}
	return &flight{
		life: l, attempt: l.attempts + 1, owner: w.owner, version: s.version, since: s.since,
		answer: w.answers[posted(r)], receiver: w.gates[posted(r)],
	}
}

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

func (p *play) forget() {
	for _, w := range append(p.workers, p.stuck...) {
		for _, s := range p.subject {
			w.Forget(s.id)
		}
	}
}

func (p *play) drawAnswers() []told {
	return rapid.SliceOfN(tolds(p.w.clock()), 1, 4).Draw(p.T, "answers")
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
