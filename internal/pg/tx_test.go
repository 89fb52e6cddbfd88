package pg_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
)

// other is a second pool on the test's database, from which things are done to the first.
func other(t *testing.T) *pgxpool.Pool {
	t.Helper()
	db, err := pg.Open(t.Context(), pgtest.URL(t), 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func must(t *testing.T, db pg.Querier, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(context.WithoutCancel(t.Context()), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// counter is a table with one row, which says how often something was committed.
func counter(t *testing.T, db *pgxpool.Pool) (count func() int) {
	t.Helper()
	must(t, db, `CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL)`)
	must(t, db, `INSERT INTO counter VALUES (1, 0), (2, 0)`)
	return func() (n int) {
		t.Helper()
		if err := db.QueryRow(t.Context(), `SELECT sum(n) FROM counter`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}

const countSQL = `UPDATE counter SET n = n + 1 WHERE id = $1`

func count(ctx context.Context, tx pgx.Tx, row int) error {
	_, err := tx.Exec(ctx, countSQL, row)
	return err
}

// What PostgreSQL breaks off is run again, and counts once.
func TestATransactionIsRunAgain(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, tx pgx.Tx, others *pgxpool.Pool) error{
		"its connection ended by the server, 57P01": func(t *testing.T, tx pgx.Tx, others *pgxpool.Pool) error {
			t.Helper()
			terminate(t, others, tx.Conn().PgConn().PID())
			return count(t.Context(), tx, 1)
		},
		"its connection ended by itself, 57P01": func(t *testing.T, tx pgx.Tx, _ *pgxpool.Pool) error {
			t.Helper()
			_, err := tx.Exec(t.Context(), `SELECT pg_terminate_backend(pg_backend_pid())`)
			return err
		},
		"its connection cut": func(t *testing.T, tx pgx.Tx, _ *pgxpool.Pool) error {
			t.Helper()
			_ = tx.Conn().PgConn().Conn().Close()
			return count(t.Context(), tx, 1)
		},
		"left alone for too long, 25P03": func(t *testing.T, tx pgx.Tx, others *pgxpool.Pool) error {
			t.Helper()
			must(t, tx, `SET idle_in_transaction_session_timeout = '1ms'`)
			awaitGone(t, others, tx.Conn().PgConn().PID())
			return count(t.Context(), tx, 1)
		},
		"no writes, 25006": func(t *testing.T, tx pgx.Tx, _ *pgxpool.Pool) error {
			t.Helper()
			must(t, tx, `SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY`) // the connection is spoilt for good
			must(t, tx, `SET TRANSACTION READ ONLY`)
			return count(t.Context(), tx, 1)
		},
		"a clash, 40001": func(t *testing.T, tx pgx.Tx, others *pgxpool.Pool) error {
			t.Helper()
			must(t, tx, `SET TRANSACTION ISOLATION LEVEL SERIALIZABLE`)
			must(t, tx, `SELECT * FROM counter`)
			must(t, others, `UPDATE counter SET n = n WHERE id = 1`)
			return count(t.Context(), tx, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, others, tries := pgtest.Pool(t), other(t), 0
			counted := counter(t, others)
			err := pg.InTx(t.Context(), db, func(tx pgx.Tx) error {
				if tries++; tries == 1 {
					err := spoil(t, tx, others)
					if err == nil {
						t.Error("nothing was spoilt")
					}
					return err
				}
				return count(t.Context(), tx, 1)
			})
			if n := counted(); err != nil || n != 1 || tries != 2 {
				t.Errorf("%d tries, counted %d: %v", tries, n, err)
			}
		})
	}
}

// Of two transactions that wait for each other both come through.
func TestADeadlockIsRunAgain(t *testing.T) {
	t.Parallel()
	db, tries := pgtest.Pool(t), make(chan int, 10)
	counted := counter(t, db)
	var first, done sync.WaitGroup
	first.Add(2)
	for who := range 2 {
		done.Go(func() {
			met := false
			err := pg.InTx(t.Context(), db, func(tx pgx.Tx) error {
				tries <- who
				if err := count(t.Context(), tx, 1+who); err != nil {
					return err
				}
				if !met {
					met = true
					first.Done()
					first.Wait()
				}
				return count(t.Context(), tx, 2-who)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	if n := counted(); n != 4 || len(tries) < 3 {
		t.Errorf("%d tries, counted %d", len(tries), n)
	}
}

// A transaction whose connection ends during the commit may have been committed. It is not run again, and the error says so.
func TestACommitInDoubtIsNotRunAgain(t *testing.T) {
	t.Parallel()
	db, tries := pgtest.Pool(t), 0
	counter(t, db)
	must(t, db, `CREATE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'`)
	must(t, db, `CREATE CONSTRAINT TRIGGER leave AFTER UPDATE ON counter DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION leave()`)
	err := pg.InTx(t.Context(), db, func(tx pgx.Tx) error { tries++; return count(t.Context(), tx, 1) })
	if tries != 1 || !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "during the commit") {
		t.Errorf("%d tries: %v", tries, err)
	}
}

func terminate(t *testing.T, db *pgxpool.Pool, pid uint32) {
	t.Helper()
	must(t, db, `SELECT pg_terminate_backend($1)`, pid)
	awaitGone(t, db, pid)
}

func awaitGone(t *testing.T, db *pgxpool.Pool, pid uint32) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for there := true; there; <-tick.C {
		if err := db.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`, pid).Scan(&there); err != nil {
			t.Fatal(err)
		}
	}
}
