package alert

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// road is a way on which notices go: a channel of alerts.urls, mail to tenants, events to the operator's tenant.
type road interface {
	name() string // for people
	key() string  // in the outbox; it does not change as long as the road leads to the same place
	// tell tells stories, none of which the road has had, and says of each what became of it.
	tell(ctx context.Context, stories []story) []verdict
}

// verdict is what became of a story on a road. The zero one: it was told, or there was nothing to tell.
type verdict struct {
	err   error
	until time.Time // not yet: to be asked again then
}

// outcome is a claimed notice and how it stands with it.
type outcome struct {
	notice
	err string
}

func (o *outcome) through() bool { return len(o.Roads) == 0 }

// next is when some road is to be tried next. over: none is, since all that are left were given up.
func (o *outcome) next(now time.Time) (next time.Time, over bool) {
	over = true
	for _, p := range o.Roads {
		if p.Tries < maxTries && (over || p.Next.Before(next)) {
			next, over = p.Next, false
		}
	}
	if over {
		return now, true
	}
	return next, false
}

// round tells the roads, all at the same time, what they have not got of these notices, and writes down how far it came.
func (s *Sender) round(ctx context.Context, notices []notice) (sent int, err error) {
	on, cancel := lingering(ctx, stopGrace)
	defer cancel()
	slices.SortFunc(notices, func(a, b notice) int { return cmp.Compare(a.ID, b.ID) })
	outcomes := make(outcomes, len(notices))
	for _, n := range notices {
		outcomes.add(n, s.roads)
	}
	answers := make([]answer, len(s.roads))
	var all sync.WaitGroup
	now := s.now()
	for i, r := range s.roads {
		ready, later := ready(r.key(), notices, now)
		answers[i] = answer{road: r, told: ready}
		outcomes.postpone(r.key(), later)
		if len(ready) > 0 {
			all.Go(func() { answers[i].verdicts = r.tell(on, ready) })
		}
	}
	all.Wait()
	done := make([]*outcome, 0, len(outcomes))
	for _, a := range answers {
		s.apply(a, outcomes, on.Err() != nil)
	}
	for _, o := range outcomes {
		if o.through() {
			sent++
		}
		done = append(done, o)
	}
	s.deps.Count("sent", sent)
	// A notice that went out is written down even when the process is being stopped: otherwise it goes out twice.
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return sent, s.settle(finish, done)
}

// answer is what a road said of what it was told.
type answer struct {
	road     road
	told     []story
	verdicts []verdict
}

// outcomes are those of one round, by bucket and id.
type outcomes map[[2]int64]*outcome

func (os outcomes) of(n notice) *outcome { return os[[2]int64{int64(n.Shard), n.ID}] }

// add begins a notice's outcome. What it knows of roads that are configured no more is forgotten.
func (os outcomes) add(n notice, roads []road) {
	left := map[string]progress{}
	for _, r := range roads {
		if p, ok := n.Roads[r.key()]; ok {
			left[r.key()] = p
		}
	}
	n.Roads = left
	os[[2]int64{int64(n.Shard), n.ID}] = &outcome{notice: n}
}

// postpone has all notices of these stories wait as long as the one among them that waits longest: they go together.
func (os outcomes) postpone(key string, later []story) {
	for _, st := range later {
		var until time.Time
		for _, n := range st.notices {
			if p := n.Roads[key]; p.Next.After(until) {
				until = p.Next
			}
		}
		for _, n := range st.notices {
			o := os.of(n)
			p := o.Roads[key]
			p.Next = until
			o.Roads[key] = p
		}
	}
}

// ready gives the stories that a road can be told now: of each alert what it has not got, unless an earlier notice has to wait.
func ready(key string, notices []notice, now time.Time) (ready, later []story) {
	var left []notice
	for _, n := range notices {
		if p := n.Roads[key]; !slices.Contains(n.SentTo, key) && p.Tries < maxTries {
			left = append(left, n)
		}
	}
	for _, st := range stories(left) {
		if slices.ContainsFunc(st.notices, func(n notice) bool { return n.Roads[key].Next.After(now) }) {
			later = append(later, st)
			continue
		}
		ready = append(ready, st)
	}
	return ready, later
}

// apply notes a road's verdicts, and logs what failed: one line for each error, since many notices may have shared a message.
func (s *Sender) apply(a answer, os outcomes, interrupted bool) {
	now, key := s.now(), a.road.key()
	failed := map[string]*failure{}
	for i, v := range a.verdicts {
		for _, n := range a.told[i].notices {
			o := os.of(n)
			p := o.Roads[key]
			switch {
			case v.err != nil && interrupted: // by our own stop: nobody knows, and it is somebody else's now
				p.Next = now
			case v.err != nil:
				p.Tries++
				p.Next = now.Add(retryDelay(p.Tries))
				o.err = v.err.Error()
				f := failed[o.err]
				if f == nil {
					f = &failure{err: v.err, alert: a.told[i].alertID(), tries: p.Tries, next: p.Next}
					failed[o.err] = f
				}
				f.add(p.Tries >= maxTries)
			case !v.until.IsZero():
				p.Next = v.until
			default:
				delete(o.Roads, key)
				o.SentTo = append(o.SentTo, key)
				continue
			}
			o.Roads[key] = p
		}
	}
	for _, f := range failed {
		s.report(a.road, f)
	}
}

// failure is what a road said of one or many notices.
type failure struct {
	err             error
	alert           string
	tries           int
	next            time.Time
	failed, givenUp int
}

func (f *failure) add(over bool) {
	if over {
		f.givenUp++
		return
	}
	f.failed++
}

func (s *Sender) report(r road, f *failure) {
	if f.failed > 0 {
		s.deps.Count("failed", f.failed)
		s.log.Warn().Str("road", r.name()).Str("alert", f.alert).Int("notices", f.failed).Int("try", f.tries).Err(f.err).
			Time("next_try", f.next).Msg("alert.notice_failed")
	}
	if f.givenUp > 0 {
		s.deps.Count("given_up", f.givenUp)
		s.log.Warn().Str("road", r.name()).Str("alert", f.alert).Int("notices", f.givenUp).Int("try", f.tries).Err(f.err).
			Msg("alert.notice_given_up")
	}
}

// lingering is a context that ends a while after another one.
func lingering(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	on, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(grace, cancel)
		context.AfterFunc(on, func() { late.Stop() })
	})
	return on, func() { stop(); cancel() }
}
