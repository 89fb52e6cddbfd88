package dispatcher

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// foundLife is a delivery as the database has it.
type foundLife struct {
	ID        int64
	Tables    int
	State     string
	Reason    *string
	Attempts  int
	Failures  int
	Rescues   int
	Due       *time.Time
	Owner     *int64
	LeasedTo  *time.Time
	Mark      *string
	Seen      int
	Lost      int
	LastKnown int // the highest number that an attempt has
}

const foundLives = `
SELECT x.id, count(*) OVER (PARTITION BY x.shard, x.id) AS tables, x.state, x.reason, x.attempts, x.failures, x.rescues, x.due, x.owner,
       x.leased_to, x.mark, coalesce(a.seen, 0) AS seen, coalesce(a.lost, 0) AS lost, coalesce(a.last, 0) AS last_known
  FROM (SELECT shard, id, state::text, NULL::text AS reason, attempts, failures, rescues, next_retry_at AS due, lease_owner AS owner,
               leased_until AS leased_to, cancel_reason AS mark FROM deliveries
        UNION ALL
        SELECT shard, id, state::text, reason, attempts, 0, 0, NULL, NULL, NULL, NULL FROM deliveries_finished) x
  LEFT JOIN (SELECT shard, delivery_id, count(*) FILTER (WHERE outcome <> 'unknown') AS seen, count(*) FILTER (WHERE outcome = 'unknown') AS lost,
                    max(attempt) AS last
               FROM attempts GROUP BY 1, 2) a ON a.shard = x.shard AND a.delivery_id = x.id`

type foundSubject struct {
	ID       int64
	Status   string
	Reason   *string
	Failures int
	Since    *time.Time
	Version  int
	Deleted  bool
	Paused   *time.Time
}

const foundSubjects = `
SELECT e.id, e.status::text, e.status_reason AS reason, e.consecutive_failures AS failures, e.failing_since AS since, e.version,
       e.deleted_at IS NOT NULL AS deleted, p.paused_until AS paused
  FROM endpoints e LEFT JOIN endpoint_pace p ON p.shard = e.shard AND p.endpoint_id = e.id`

func collected[T any](p *play, query string) []T {
	rows, err := p.w.db.Query(p.ctx, query)
	p.must(nil, err)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByName[T])
	p.must(nil, err)
	return out
}

// check holds the database against the model.
func (p *play) check() {
	found := collected[foundLife](p, foundLives)
	if len(found) != len(p.lives) {
		p.Fatalf("there are %d deliveries, want %d", len(found), len(p.lives))
	}
	for _, f := range found {
		var l *life
		for _, one := range p.lives {
			if one.id.N == f.ID {
				l = one
			}
		}
		switch {
		case l == nil || f.Tables != 1:
			p.Fatalf("%d is in %d tables: %+v", f.ID, f.Tables, l)
		default:
			p.same(l, f)
		}
	}
	subjects := collected[foundSubject](p, foundSubjects)
	if len(subjects) != len(p.subject) {
		p.Fatalf("there are %d endpoints, want %d", len(subjects), len(p.subject))
	}
	for _, f := range subjects {
		for _, s := range p.subject {
			if s.id.N == f.ID {
				p.sameSubject(s, f)
			}
		}
	}
}

func (p *play) same(l *life, f foundLife) {
	got := fmt.Sprintf("%s %q, %d attempts, %d known and %d lost, by %d, to be %q",
		f.State, value(f.Reason), f.Attempts, f.Seen, f.Lost, deref(f.Owner), value(f.Mark))
	owner := l.owner
	if l.state != InFlight {
		owner = 0
	}
	want := fmt.Sprintf("%s %q, %d attempts, %d known and %d lost, by %d, to be %q",
		l.state, l.reason, l.attempts, l.seen, l.lost, owner, l.mark)
	if got != want {
		p.Fatalf("%v is\n%s, want\n%s", l.id, got, want)
	}
	if f.LastKnown > l.attempts {
		p.Fatalf("%v has an attempt %d of %d", l.id, f.LastKnown, l.attempts)
	}
	if l.state.Finished() {
		return
	}
	if f.Failures != l.failures || f.Rescues != l.rescues {
		p.Fatalf("%v has failed %d times and was lost %d times, want %d and %d", l.id, f.Failures, f.Rescues, l.failures, l.rescues)
	}
	const us = time.Microsecond // as the database keeps times
	if l.waits() && (f.Due.Before(l.due.Add(-us)) || f.Due.After(l.latest.Add(us))) {
		p.Fatalf("%v is due at %v, want %v to %v", l.id, f.Due, l.due, l.latest)
	}
	if l.state == InFlight && !f.LeasedTo.Equal(l.leasedTo) {
		p.Fatalf("%v is leased until %v, want %v", l.id, f.LeasedTo, l.leasedTo)
	}
	if l.waits() {
		l.due, l.latest = *f.Due, *f.Due
	}
	p.shown(l)
}

// shown holds what people see against the model, with what it makes of the time and of the endpoint.
func (p *play) shown(l *life) {
	want := l.state
	switch {
	case l.waits() && l.endpoint.status == subscriptions.Disabled && !l.endpoint.deleted:
		want = Held
	case l.state == Scheduled && !l.due.After(p.w.clock()):
		want = Pending
	}
	got, err := p.w.d.deps.Desk.Get(p.ctx, l.id)
	p.must(nil, err)
	if got.State != want {
		p.Fatalf("%v is shown as %v, want %v", l.id, got.State, want)
	}
}

func (p *play) sameSubject(s *subject, f foundSubject) {
	got := fmt.Sprintf("%s %q, deleted %v", f.Status, value(f.Reason), f.Deleted)
	want := fmt.Sprintf("%s %q, deleted %v", s.status, s.reason, s.deleted)
	if got != want {
		p.Fatalf("the endpoint %s is %s, want %s", id.Endpoint.Format(s.id), got, want)
	}
	if !s.deleted && (f.Failures != s.failures || (f.Since == nil) != s.since.IsZero() || f.Since != nil && f.Since.Sub(s.since).Abs() > time.Microsecond) {
		p.Fatalf("the endpoint %s has failed %d times since %v, want %d since %v", id.Endpoint.Format(s.id), f.Failures, f.Since, s.failures, s.since)
	}
	s.version, s.paused = f.Version, time.Time{}
	if f.Since != nil {
		s.since = *f.Since
	}
	if f.Paused != nil {
		s.paused = *f.Paused
	}
}

func deref(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// finish lets time pass with good answers: what is not held ends.
func (p *play) finish() {
	for len(p.stuck) > 0 {
		w := p.stuck[0]
		p.stuck = p.stuck[1:]
		p.answer(w)
		p.check()
	}
	unfinished := func() (n int) {
		for _, l := range p.lives {
			if !l.state.Finished() && l.endpoint.status != subscriptions.Disabled {
				n++
			}
		}
		return n
	}
	for round := 0; unfinished() > 0; round++ {
		if round > 60 {
			p.Fatalf("%d deliveries do not end", unfinished())
		}
		w := p.workers[round%2]
		p.settle(w, p.claim(w, []told{{status: 200}}))
		p.check()
		p.w.advance([]time.Duration{0, 0, time.Minute, 25 * time.Hour}[round%4])
		rescue(p)
		p.check()
	}
}
