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
		if o != l && o.rescues >= suspectAfter && l.rescues >= suspectAfter && (slices.Contains(taken, o) || o.state == InFlight && o.owner == w.owner) {
			p.Fatalf("%v and %v are in flight from one process, and were both lost again and again", l.id, o.id)
		}
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
