package alert

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// mailGather is how long what happened to a tenant's endpoint waits for what happens to the others.
	mailGather = 10 * time.Second
	// mailsAtOnce and mailers bound a round: 24 mails of 15 s each, four side by side, are within its lease.
	mailsAtOnce = 24
	mailers     = 4
)

// mailRoad is mail to tenants' contact_email about their own endpoints.
type mailRoad struct {
	*Sender
	mailer *mailer
}

func (mailRoad) name() string { return "mail" }

func (mailRoad) key() string { return "mail" }

// tell sends each tenant one mail about all of its endpoints, if it is time for one.
func (r mailRoad) tell(ctx context.Context, told []story) []verdict {
	vs := make([]verdict, len(told))
	now := r.now()
	var turn [][]int // the stories of one tenant
	places := map[[2]int64]int{}
	for i, st := range told {
		if !st.forOwner() {
			continue
		}
		until, ok := st.damped(now)
		if ready := st.OpenedAt.Add(mailGather); ok && st.opens() && now.Before(ready) {
			until, ok = ready, false
		}
		if !ok {
			vs[i].until = until
			continue
		}
		key := [2]int64{int64(st.shard), st.Tenant}
		n, known := places[key]
		if !known {
			n = len(turn)
			places[key] = n
			turn = append(turn, nil)
		}
		turn[n] = append(turn[n], i)
	}
	var down problem
	var side errgroup.Group
	side.SetLimit(mailers)
	for n, which := range turn {
		if n >= mailsAtOnce {
			for _, i := range which {
				vs[i].until = now.Add(lookEvery)
			}
			continue
		}
		side.Go(func() error {
			v := r.tenant(ctx, now, told, which, &down)
			for _, i := range which {
				vs[i] = v
			}
			return nil
		})
	}
	_ = side.Wait() // nothing fails in there
	return vs
}

// tenant sends one tenant its mail.
func (r mailRoad) tenant(ctx context.Context, now time.Time, told []story, which []int, down *problem) verdict {
	if err := down.get(); err != nil {
		return verdict{err: err}
	}
	of := make([]story, len(which))
	urgent := false
	for n, i := range which {
		of[n] = told[i]
		k := of[n].kind()
		urgent = urgent || k == EndpointDead.String() || k == EndpointDisabled.String()
	}
	var wait time.Time
	var was pace
	err := r.spend(ctx, of[0].shard, of[0].Tenant, r.key(), now, func(p pace) pace {
		was = p
		p, wait = p.mail(now, urgent)
		return p
	})
	if err != nil || !wait.IsZero() {
		return verdict{err: err, until: wait}
	}
	subject, text := letter(r.config.MailName, of)
	err = r.mailer.send(ctx, *of[0].Contact, subject, text)
	if errors.Is(err, errUnreachable) {
		down.set(err)
	}
	if err != nil { // no mail went, so the next one need not wait for an hour
		err = errors.Join(err, r.spend(context.WithoutCancel(ctx), of[0].shard, of[0].Tenant, r.key(), now, func(pace) pace { return was }))
	}
	return verdict{err: err}
}

// forOwner reports whether it is news to the owner of the endpoint that can be mailed. What has passed before anybody was told is
// none, nor what a person closed.
func (s story) forOwner() bool {
	return s.Tenant != 0 && s.Contact != nil && s.news() != "" && s.news() != "passed" && (!s.over() || s.ResolvedBy == nil)
}

// problem is the first of many errors.
type problem struct {
	mu  sync.Mutex
	err error
}

func (p *problem) get() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *problem) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}
