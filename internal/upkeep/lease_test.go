package upkeep

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
)

// hand is a clock that is set by hand.
type hand struct {
	mu sync.Mutex
	at time.Time
}

func (c *hand) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *hand) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

var twoJobs = []string{"one", "two"}

// looks has a process look after its leases, and wants to know what it takes and loses.
func looks(t *testing.T, who string, l *leases, taken, lost []string) {
	t.Helper()
	gotTaken, gotLost, err := l.renew(t.Context(), twoJobs)
	slices.Sort(gotTaken)
	slices.Sort(gotLost)
	if err != nil || !slices.Equal(gotTaken, taken) || !slices.Equal(gotLost, lost) {
		t.Errorf("%s takes %v and loses %v (%v), want %v and %v", who, gotTaken, gotLost, err, taken, lost)
	}
}

func pair(t *testing.T) (a, b *leases, clock *hand, db *pgxpool.Pool) {
	t.Helper()
	db, clock = pgtest.Pool(t), &hand{at: noon}
	return newLeases(db, clock.now), newLeases(db, clock.now), clock, db
}

// One process dies without a word: within a minute another does its jobs, and at no time do both.
func TestAnotherProcessTakesOverWithinAMinute(t *testing.T) {
	t.Parallel()
	a, b, clock, _ := pair(t)
	looks(t, "the first", a, twoJobs, nil)
	ctx, _, ours := a.enter(t.Context(), "one")
	if !ours {
		t.Fatal("what it has taken is not its")
	}
	looks(t, "the second", b, nil, nil)
	for range 5 { // it lives, and goes on having them
		clock.pass(leaseEvery)
		looks(t, "the first", a, nil, nil)
		looks(t, "the second", b, nil, nil)
	}
	// Now it is killed: it looks no more.
	gone := time.Duration(0)
	for ; gone < leaseFor-leaseEvery; gone += leaseEvery {
		clock.pass(leaseEvery)
		looks(t, "the second", b, nil, nil)
		if _, _, ours := b.enter(t.Context(), "two"); ours {
			t.Fatal("both have it")
		}
	}
	clock.pass(leaseEvery)
	if gone += leaseEvery; gone >= time.Minute {
		t.Errorf("that takes %v", gone)
	}
	if _, _, ours := a.enter(t.Context(), "two"); ours {
		t.Error("it is the first's beyond its lease")
	}
	looks(t, "the second", b, twoJobs, nil)
	if _, exit, ours := b.enter(t.Context(), "two"); !ours {
		t.Error("the second has it and may not run it")
	} else {
		exit()
	}
	// It had only stood still: the run that was under way ends, and what it would still write is refused.
	looks(t, "the first, back from the dead", a, nil, twoJobs)
	if ctx.Err() == nil {
		t.Error("its run goes on")
	}
	err := pg.InTx(t.Context(), a.db, func(tx pgx.Tx) error { return fence(context.WithoutCancel(ctx), tx) })
	if !errors.Is(err, errLost) {
		t.Errorf("it may still write: %v", err)
	}
}

func TestAStopGivesJobsBackAtOnce(t *testing.T) {
	t.Parallel()
	a, b, _, _ := pair(t)
	looks(t, "the first", a, twoJobs, nil)
	if err := a.giveBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	looks(t, "the second", b, twoJobs, nil)
}

// The transaction of a run holds its lease to the commit: nobody can take the job in between, whatever the clocks say.
func TestAFenceHoldsToTheCommit(t *testing.T) {
	t.Parallel()
	a, b, clock, db := pair(t)
	looks(t, "the first", a, twoJobs, nil)
	ctx, exit, _ := a.enter(t.Context(), "one")
	defer exit()
	took := make(chan struct{})
	err := pg.InTx(t.Context(), db, func(tx pgx.Tx) error {
		if err := fence(ctx, tx); err != nil {
			return err
		}
		clock.pass(leaseFor)
		go func() {
			defer close(took)
			looks(t, "the second", b, twoJobs, nil)
		}()
		for waiting := 0; waiting == 0; {
			if err := db.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN
				(SELECT pid FROM pg_stat_activity WHERE datname = current_database())`).Scan(&waiting); err != nil {
				return err
			}
		}
		select {
		case <-took:
			t.Error("it was taken in the middle")
		default:
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	<-took
}

// What somebody at a terminal asks for is let go between two runs, and comes back.
func TestACommandIsLentAJobBetweenTwoRuns(t *testing.T) {
	t.Parallel()
	server, command, clock, _ := pair(t)
	looks(t, "the server", server, twoJobs, nil)
	_, exit, _ := server.enter(t.Context(), "one")
	if err := command.want(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	looks(t, "the server in its run", server, nil, nil)
	exit()
	looks(t, "the server after it", server, nil, []string{"one"})
	taken, _, err := command.renew(t.Context(), []string{"one"})
	if err != nil || !slices.Equal(taken, []string{"one"}) {
		t.Fatalf("the command takes %v, %v", taken, err)
	}
	looks(t, "the server meanwhile", server, nil, nil)
	if err := command.giveBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	looks(t, "the server again", server, []string{"one"}, nil)
	// A command that is killed while it waits is waited for no longer than for a lease.
	if err := command.want(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	looks(t, "the server", server, nil, []string{"two"})
	clock.pass(leaseFor)
	looks(t, "the server", server, []string{"two"}, nil)
}

// A database that is away loses a process its jobs before anybody else can have them.
func TestLeasesThatCannotBeRenewedAreGivenUpInTime(t *testing.T) {
	t.Parallel()
	a, _, clock, db := pair(t)
	looks(t, "it", a, twoJobs, nil)
	exec(t, db, `ALTER TABLE job_leases RENAME TO elsewhere`)
	for passed := time.Duration(0); ; {
		clock.pass(leaseEvery)
		passed += leaseEvery
		_, lost, err := a.renew(t.Context(), twoJobs)
		if err == nil {
			t.Fatal("the database is there")
		}
		if len(lost) > 0 {
			if passed+leasePatience >= leaseFor {
				t.Errorf("after %v", passed)
			}
			break
		}
		if passed >= leaseFor {
			t.Fatal("never")
		}
	}
}
