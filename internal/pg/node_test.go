package pg_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// shows is a clock of the test's own.
type shows func() time.Time

func (s shows) Now() time.Time   { return s() }
func (shows) Off() time.Duration { return 0 }

func TestANodeIsOneProcessesAlone(t *testing.T) {
	t.Parallel()
	db, at := pgtest.Pool(t), noon
	take := func() *pg.Node {
		t.Helper()
		n, err := pg.TakeNode(t.Context(), db, shows(func() time.Time { return at }))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	taken := map[int]*pg.Node{}
	for range 512 {
		n := take()
		if taken[n.Number()] != nil || n.Number() < 0 || n.Number() > 511 {
			t.Fatalf("%d was given twice, or is no node", n.Number())
		}
		taken[n.Number()] = n
	}
	none := func(when string) {
		t.Helper()
		if n, err := pg.TakeNode(t.Context(), db, shows(func() time.Time { return at })); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v, %v", when, n, err)
		}
	}
	none("all are taken")
	if err := taken[7].GiveBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	none("just given back")
	at = at.Add(10 * time.Second)
	if n := take(); n.Number() != 7 {
		t.Errorf("got %d and not the one that was given back", n.Number())
	}
	if err := taken[7].GiveBack(t.Context()); err != nil { // it is another's by now
		t.Fatal(err)
	}
	at = at.Add(time.Minute)
	none("given back by who does not have it")
	at = noon.Add(5 * time.Minute) // all leases but the youngest are over
	for range 511 {
		if n := take(); n.Number() == 7 {
			t.Error("7 is leased still")
		}
	}
	none("all are taken over")
}

// register answers what Hold asks of the database, by the number of the renewal.
type register struct {
	pg.Querier
	renewals int
	answer   func(renewal int) (pgconn.CommandTag, error)
}

func (r *register) QueryRow(context.Context, string, ...any) pgx.Row { return r }

func (r *register) Scan(dest ...any) error { *dest[0].(*int) = 3; return nil }

func (r *register) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	r.renewals++
	return r.answer(r.renewals)
}

func TestHoldEndsBeforeTheLeaseDoes(t *testing.T) {
	t.Parallel()
	away, done := errors.New("away"), pgconn.NewCommandTag("UPDATE 1")
	for name, c := range map[string]struct {
		answer   func(renewal int) (pgconn.CommandTag, error)
		after    time.Duration // it ends
		failures int
		cause    error
	}{
		"never renewed":         {func(int) (pgconn.CommandTag, error) { return done, away }, 210 * time.Second, 6, away},
		"twice, and then never": {func(n int) (pgconn.CommandTag, error) { return done, map[bool]error{true: away}[n > 2] }, 270 * time.Second, 6, away},
		"taken by another":      {func(int) (pgconn.CommandTag, error) { return pgconn.NewCommandTag("UPDATE 0"), nil }, 30 * time.Second, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, err := pg.TakeNode(t.Context(), &register{answer: c.answer}, shows(time.Now))
				if err != nil {
					t.Fatal(err)
				}
				start, failures := time.Now(), 0
				err = n.Hold(t.Context(), func(error) { failures++ })
				if took := time.Since(start); err == nil || took != c.after || failures != c.failures || c.cause != nil && !errors.Is(err, c.cause) {
					t.Errorf("after %v and %d failures: %v", took, failures, err)
				}
			})
		})
	}
}

// Renewed again and again it is held for as long as it is wanted.
func TestHoldGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		r := &register{}
		r.answer = func(n int) (pgconn.CommandTag, error) {
			if n == 100 {
				stop()
			}
			return pgconn.NewCommandTag("UPDATE 1"), nil
		}
		n, err := pg.TakeNode(ctx, r, shows(time.Now))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := n.Hold(ctx, func(err error) { t.Error(err) }); err != nil || time.Since(start) != 50*time.Minute {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

func TestARenewalMovesTheLease(t *testing.T) {
	t.Parallel()
	db, at := pgtest.Pool(t), noon
	now := shows(func() time.Time { return at })
	n, err := pg.TakeNode(t.Context(), db, now)
	if err != nil {
		t.Fatal(err)
	}
	renew := func() time.Time {
		t.Helper()
		if err := n.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		var until time.Time
		if err := db.QueryRow(t.Context(), `SELECT leased_until FROM nodes WHERE node = $1`, n.Number()).Scan(&until); err != nil {
			t.Fatal(err)
		}
		return until
	}
	at = noon.Add(4 * time.Minute)
	if until := renew(); !until.Equal(noon.Add(9 * time.Minute)) {
		t.Errorf("leased until %v", until)
	}
	if _, err := db.Exec(t.Context(), `UPDATE nodes SET owner = owner + (1 << 24) WHERE node = $1`, n.Number()); err != nil {
		t.Fatal(err)
	}
	if err := n.Renew(t.Context()); err == nil {
		t.Error("another's lease is renewed")
	}
}
