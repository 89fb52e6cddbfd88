package pg_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
)

// fill has the pool make all of its connections, and gives the servers' process numbers.
func fill(t *testing.T, db *pgxpool.Pool) (pids []uint32) {
	t.Helper()
	var all []*pgxpool.Conn
	for range db.Config().MaxConns {
		conn, err := db.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, conn)
		pids = append(pids, conn.Conn().PgConn().PID())
	}
	for _, conn := range all {
		conn.Release()
	}
	return pids
}

// A server that was restarted, or an operator, has ended all connections while nothing was to do. Whoever comes next does
// not notice, however short ago that was.
func TestConnectionsThatTheServerEndedAreNotLent(t *testing.T) {
	t.Parallel()
	db, others := pgtest.Pool(t), other(t)
	for _, pid := range fill(t, db) {
		terminate(t, others, pid)
	}
	for range 2 * db.Config().MaxConns {
		must(t, db, `SELECT 1`)
	}
}

// A server that takes no writes for a while, as one that was demoted: its connections are not kept for when it does again, or
// when another does.
func TestConnectionsWithoutWritesAreNotKept(t *testing.T) {
	t.Parallel()
	url, others := pgtest.URL(t), other(t)
	counter(t, others)
	must(t, others, `ALTER DATABASE `+others.Config().ConnConfig.Database+` SET default_transaction_read_only = on`)
	for kind, open := range map[string]func(context.Context, string, int) (*pgxpool.Pool, error){"pool": pg.Open, "queue": pg.OpenQueue} {
		db, err := open(t.Context(), url, 3)
		if err != nil {
			t.Fatal(err)
		}
		before := fill(t, db)
		if _, err := db.Exec(t.Context(), countSQL, 1); !fault.Is(pg.Fault(err), fault.Unavailable) {
			t.Errorf("%s: %v", kind, err)
		}
		for _, pid := range fill(t, db) {
			for _, was := range before {
				if pid == was {
					t.Errorf("%s: a connection is kept", kind)
				}
			}
		}
		db.Close()
	}
}

// A database may have another isolation level by default than the one that our transactions are made for.
func TestTheIsolationLevelIsOurs(t *testing.T) {
	t.Parallel()
	url, others := pgtest.URL(t), other(t)
	must(t, others, `ALTER DATABASE `+others.Config().ConnConfig.Database+` SET default_transaction_isolation = 'serializable'`)
	db, err := pg.Open(t.Context(), url, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var level string
	if err := db.QueryRow(t.Context(), `SHOW transaction_isolation`).Scan(&level); err != nil || level != "read committed" {
		t.Errorf("%s, %v", level, err)
	}
}
