package pg_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
)

// Through a pooler nothing lies in the session: what it has to have the role brings, or the start is refused with what to run.
func TestOpenPooledWantsTheRolesSettings(t *testing.T) {
	t.Parallel()
	db := pgtest.Pool(t)
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	database := strings.TrimPrefix(u.Path, "/")
	query := u.Query() // without, it is the schema of the role's name, which connections find by themselves
	query.Set("search_path", "elsewhere")
	u.RawQuery = query.Encode()
	alter := fmt.Sprintf(`ALTER ROLE "%s" IN DATABASE "%s" SET `, u.User.Username(), database)
	refusal := func() string {
		t.Helper()
		pool, err := pg.OpenPooled(t.Context(), u.String(), 1, nil)
		if err != nil {
			return err.Error()
		}
		pool.Close()
		return ""
	}
	for _, step := range []struct{ missing, set string }{
		{"search_path", `search_path = "elsewhere"`},
		{"default_transaction_isolation", `default_transaction_isolation = 'read committed'`},
	} {
		if step.missing == "default_transaction_isolation" {
			if _, err := db.Exec(t.Context(), alter+`default_transaction_isolation = 'serializable'`); err != nil {
				t.Fatal(err)
			}
		}
		if got := refusal(); !strings.Contains(got, "has to bring its "+step.missing) || !strings.Contains(got, alter+step.set) {
			t.Errorf("without %s: %q", step.missing, got)
		}
		if _, err := db.Exec(t.Context(), alter+step.set); err != nil {
			t.Fatal(err)
		}
	}
	if got := refusal(); got != "" {
		t.Errorf("with all of them: %s", got)
	}
}

// A statement of a pooled queue is planned by index and does not wait for the disk, and leaves nothing of that to the next client.
func TestAsQueueLastsAsLongAsItsBatch(t *testing.T) {
	t.Parallel()
	owner := pgtest.Pool(t)
	if _, err := owner.Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER ROLE %I IN DATABASE %I SET search_path = postrider', current_user, current_database()); END $$`); err != nil {
		t.Fatal(err)
	}
	pool, err := pg.OpenPooled(t.Context(), pgtest.URL(t), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	const show = `SELECT current_setting('enable_seqscan') || current_setting('synchronous_commit') || current_setting('plan_cache_mode')`
	var before, within, after string
	if err := pool.QueryRow(t.Context(), show).Scan(&before); err != nil {
		t.Fatal(err)
	}
	b := &pgx.Batch{}
	pg.AsQueue(b)
	b.Queue(show).QueryRow(func(row pgx.Row) error { return row.Scan(&within) })
	if err := pool.SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
	if err := pool.QueryRow(t.Context(), show).Scan(&after); err != nil {
		t.Fatal(err)
	}
	if within != "offoffforce_generic_plan" || before != after || before == within {
		t.Errorf("before %s, within %s, after %s", before, within, after)
	}
	var prepared int
	if err := pool.QueryRow(t.Context(), `SELECT count(*)::int FROM pg_prepared_statements`).Scan(&prepared); err != nil || prepared != 0 {
		t.Errorf("%d statements stay prepared (%v)", prepared, err)
	}
}

// What a pooler says that has lost its server, during a commit, leaves open whether it was done.
func TestAPoolerThatLosesItsServerDuringTheCommit(t *testing.T) {
	t.Parallel()
	lost := &pgconn.PgError{Severity: "FATAL", Code: "08P01", Message: "server conn crashed?"}
	if !pg.PoolerLost(lost) || pg.PoolerLost(&pgconn.PgError{Severity: "ERROR", Code: "08P01"}) || pg.PoolerLost(errors.New("no")) {
		t.Error("what a pooler says is not known, or taken for what PostgreSQL says of a broken protocol")
	}
	commits := 0
	err := pg.InTx(t.Context(), failing{pgtest.Pool(t), func() error { commits++; return lost }}, func(pgx.Tx) error { return nil })
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "may have been done, or not") || commits != 1 {
		t.Errorf("%d commits: %v", commits, err)
	}
}

// failing has transactions whose commit fails.
type failing struct {
	pg.Beginner
	commit func() error
}

func (f failing) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := f.Beginner.Begin(ctx)
	return failingTx{tx, f.commit}, err
}

type failingTx struct {
	pgx.Tx
	commit func() error
}

func (f failingTx) Commit(context.Context) error { return f.commit() }
