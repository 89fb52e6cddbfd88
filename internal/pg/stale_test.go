package pg_test

import (
	"context"
	"net"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
)

// A server that says nothing in a statement's time is not asked again on the connections that there are.
func TestConnectionsToASilentServerAreReplaced(t *testing.T) {
	t.Parallel()
	for how, sleep := range map[string]func(ctx context.Context, conn *pgxpool.Conn) error{
		"statement": func(ctx context.Context, conn *pgxpool.Conn) error {
			_, err := conn.Exec(ctx, sleepSQL)
			return err
		},
		"rows": func(ctx context.Context, conn *pgxpool.Conn) error {
			rows, _ := conn.Query(ctx, sleepSQL)
			rows.Close()
			return rows.Err()
		},
		"batch": func(ctx context.Context, conn *pgxpool.Conn) error {
			b := &pgx.Batch{}
			b.Queue(`SELECT 1`)
			b.Queue(sleepSQL)
			return conn.SendBatch(ctx, b).Close()
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Pool(t)
			before := fill(t, db)
			silent, late := borrow(t, db), borrow(t, db)
			expire(t, func(ctx context.Context) error { return sleep(ctx, silent) })
			silent.Release()
			now := borrow(t, db)
			pid := now.Conn().PgConn().PID()
			if slices.Contains(before, pid) {
				t.Error("a connection is kept")
			}
			now.Release()
			// One of those from before, whose time is over after the others were replaced.
			expire(t, func(ctx context.Context) error { return sleep(ctx, late) })
			late.Release()
			if kept := fill(t, db); !slices.Contains(kept, pid) {
				t.Error("a new connection is not kept")
			}
		})
	}
}

// A caller that gives up costs its connection and no other.
func TestConnectionsStayWhenACallerGivesUp(t *testing.T) {
	t.Parallel()
	db := pgtest.Pool(t)
	before := fill(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	conn := borrow(t, db)
	pid := conn.Conn().PgConn().PID()
	done := make(chan error)
	go func() {
		_, err := conn.Exec(ctx, sleepSQL)
		done <- err
	}()
	awaitSleep(t, other(t), pid)
	cancel()
	if err := <-done; err == nil {
		t.Fatal("it slept to its end")
	}
	conn.Release()
	after := fill(t, db)
	if kept := slices.DeleteFunc(before, func(pid uint32) bool { return !slices.Contains(after, pid) }); len(kept) < len(after)-1 {
		t.Errorf("only %d connections are kept of %d", len(kept), len(after))
	}
}

// A host that takes connections and says nothing, as one whose server stands still, costs its connect_timeout, and the next is
// asked.
func TestASilentHostIsPassedOver(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	other := u.Host
	u.Host = silent.Addr().String() + "," + other
	q := u.Query()
	q.Set("connect_timeout", "1")
	q.Set("target_session_attrs", "read-write")
	u.RawQuery = q.Encode()
	db, err := pg.Open(t.Context(), u.String(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn := borrow(t, db)
	defer conn.Release()
	if at := conn.Conn().PgConn().Conn().RemoteAddr().String(); at != other {
		t.Errorf("connected to %s, want %s", at, other)
	}
}

const sleepSQL = `SELECT pg_sleep(60)`

// expire runs what takes longer than its deadline.
func expire(t *testing.T, act func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := act(ctx); err == nil {
		t.Fatal("there was an answer")
	}
}

func borrow(t *testing.T, db *pgxpool.Pool) *pgxpool.Conn {
	t.Helper()
	conn, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// awaitSleep waits until the server is at it.
func awaitSleep(t *testing.T, db *pgxpool.Pool, pid uint32) {
	t.Helper()
	const sleeps = `SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'`
	for n := 0; n == 0; {
		if err := db.QueryRow(t.Context(), sleeps, pid).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
}
