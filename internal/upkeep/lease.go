package upkeep

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
)

const (
	// leaseFor is how long a job is a process's that says nothing more: then another takes it, at its next look.
	leaseFor = 30 * time.Second
	// leaseEvery is how often a process renews what it has and looks for what nobody has.
	leaseEvery = 10 * time.Second
	// leasePatience bounds that statement.
	leasePatience = 5 * time.Second
)

// errLost is a job that is another process's by now.
var errLost = errors.New("the job is another process's by now")

// leases are the jobs that are this process's, by rows of job_leases: it is the one writer of that table. An advisory lock would
// hang on a session, which a pool lends and a pooler takes away.
type leases struct {
	db    *pgxpool.Pool
	now   func() time.Time
	owner int64

	mu   sync.Mutex
	held map[string]*lease
}

// lease is a job that is ours.
type lease struct {
	term  int64
	until time.Time
	end   context.CancelFunc // of the run that is under way; nil: none is
}

func newLeases(db *pgxpool.Pool, now func() time.Time) *leases {
	return &leases{db: db, now: now, owner: rand.Int64N(1<<62) + 1, held: map[string]*lease{}}
}

// Index job_leases_pkey; in one order, so that two processes cannot wait for each other. A job that a command asks for is let go,
// but not in the middle of a run.
const leaseSQL = `
INSERT INTO job_leases AS l (name, owner, term, leased_until)
SELECT n.name, @owner, 1, @until FROM unnest(@names::text[]) AS n (name) ORDER BY n.name
ON CONFLICT (name) DO UPDATE
   SET owner = excluded.owner, leased_until = excluded.leased_until,
       term = CASE WHEN l.owner = excluded.owner THEN l.term ELSE l.term + 1 END,
       wanted_by = CASE WHEN l.wanted_by <> excluded.owner AND l.wanted_until > @now THEN l.wanted_by END,
       wanted_until = CASE WHEN l.wanted_by <> excluded.owner AND l.wanted_until > @now THEN l.wanted_until END
 WHERE (l.owner = @owner OR l.leased_until <= @now)
   AND (l.wanted_by IS NULL OR l.wanted_by = @owner OR l.wanted_until <= @now
        OR l.owner = @owner AND l.name = ANY (@busy::text[]))
RETURNING l.name, l.term`

// renew keeps what is ours of these jobs, takes what is nobody's, and gives the names of what it took and of what it lost. An
// error keeps all for now, unless a lease could end before the next look.
func (l *leases) renew(ctx context.Context, names []string) (taken, lost []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, leasePatience)
	defer cancel()
	now := l.now()
	until := now.Add(leaseFor)
	rows, err := l.db.Query(ctx, leaseSQL, pgx.StrictNamedArgs{
		"owner": l.owner, "names": names, "busy": l.busy(), "now": now, "until": until,
	})
	ours := map[string]int64{}
	if err == nil {
		var name string
		var term int64
		_, err = pgx.ForEachRow(rows, []any{&name, &term}, func() error { ours[name] = term; return nil })
	}
	if err != nil {
		// Whatever the database has done with it: to have less than it says does no harm.
		return nil, l.loseBy(l.now().Add(leaseEvery + leasePatience)), pg.Fault(fmt.Errorf("renew leases: %w", err))
	}
	taken, lost = l.settle(names, ours, until)
	if len(lost) > 0 {
		err = l.free(ctx, lost) // those that a command asked for: it need not wait for their end
	}
	return taken, lost, err
}

// settle notes what is ours now.
func (l *leases) settle(names []string, ours map[string]int64, until time.Time) (taken, lost []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		term, is := ours[name]
		had := l.held[name]
		if had != nil && (!is || term != had.term) {
			l.lose(name)
			lost = append(lost, name)
			had = nil
		}
		switch {
		case !is:
		case had != nil:
			had.until = until
		default:
			l.held[name] = &lease{term: term, until: until}
			taken = append(taken, name)
		}
	}
	lost = slices.DeleteFunc(lost, func(name string) bool { return l.held[name] != nil })
	return taken, lost
}

// loseBy gives up what could end before a moment.
func (l *leases) loseBy(moment time.Time) (lost []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, h := range l.held {
		if h.until.Before(moment) {
			l.lose(name)
			lost = append(lost, name)
		}
	}
	return lost
}

// lose forgets a lease and ends the run under it. The caller has the lock.
func (l *leases) lose(name string) {
	if h := l.held[name]; h != nil {
		if h.end != nil {
			h.end()
		}
		delete(l.held, name)
	}
}

func (l *leases) busy() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := []string{}
	for name, h := range l.held {
		if h.end != nil {
			names = append(names, name)
		}
	}
	return names
}

// enter begins a run of a job that is ours: its context ends when the job is no longer. exit ends the run.
func (l *leases) enter(ctx context.Context, name string) (_ context.Context, exit func(), ours bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.held[name]
	if h == nil || h.end != nil || !h.until.After(l.now()) {
		return ctx, nil, false
	}
	ctx, end := context.WithCancel(context.WithValue(ctx, gripKey{}, grip{name, l.owner, h.term}))
	h.end = end
	return ctx, func() {
		end()
		l.mu.Lock()
		defer l.mu.Unlock()
		h.end = nil
	}, true
}

const freeSQL = `
UPDATE job_leases SET owner = NULL, leased_until = @now WHERE owner = @owner AND name = ANY (@names::text[])`

// free gives jobs back before their time.
func (l *leases) free(ctx context.Context, names []string) error {
	_, err := l.db.Exec(ctx, freeSQL, pgx.StrictNamedArgs{"now": l.now(), "owner": l.owner, "names": names})
	if err != nil {
		return pg.Fault(fmt.Errorf("give leases back: %w", err))
	}
	return nil
}

// giveBack gives all back, so that another process need not wait for their end.
func (l *leases) giveBack(ctx context.Context) error {
	l.mu.Lock()
	var names []string
	for name := range l.held {
		l.lose(name)
		names = append(names, name)
	}
	l.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leasePatience)
	defer cancel()
	return l.free(ctx, names)
}

const wantSQL = `
INSERT INTO job_leases AS l (name, owner, term, leased_until, wanted_by, wanted_until)
VALUES (@name, NULL, 0, @now, @owner, @until)
ON CONFLICT (name) DO UPDATE SET wanted_by = excluded.wanted_by, wanted_until = excluded.wanted_until
 WHERE l.wanted_by IS NULL OR l.wanted_by = excluded.wanted_by OR l.wanted_until <= @now`

// want asks whoever has a job to let it go. It holds for as long as a lease, and is asked again until it comes.
func (l *leases) want(ctx context.Context, name string) error {
	now := l.now()
	_, err := l.db.Exec(ctx, wantSQL, pgx.StrictNamedArgs{"name": name, "now": now, "owner": l.owner, "until": now.Add(leaseFor)})
	if err != nil {
		return pg.Fault(fmt.Errorf("ask for a lease: %w", err))
	}
	return nil
}

type gripKey struct{}

// grip is the lease that a run goes by.
type grip struct {
	name        string
	owner, term int64
}

const fenceSQL = `
SELECT EXISTS (SELECT FROM (SELECT FROM job_leases WHERE name = @name AND owner = @owner AND term = @term FOR SHARE) l)`

// fence makes sure, within a transaction, that the run is still the job's one: until the commit nobody else can take it. A process
// that stood still for longer than its lease does nothing then, whatever it believes. Without a lease, as in a process that makes the
// partitions it is about to need, there is nothing to make sure of.
func fence(ctx context.Context, tx pgx.Tx) error {
	g, led := ctx.Value(gripKey{}).(grip)
	if !led {
		return nil
	}
	var ours bool
	err := tx.QueryRow(ctx, fenceSQL, pgx.StrictNamedArgs{"name": g.name, "owner": g.owner, "term": g.term}).Scan(&ours)
	if err != nil {
		return fmt.Errorf("look at a lease: %w", err)
	}
	if !ours {
		return errLost
	}
	return nil
}
