package pg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/fault"
)

// Beginner starts transactions: a pool, a connection or a transaction.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Querier runs statements: a pool, a connection or a transaction.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// txTries bounds how often a transaction is run; the waits between are 5 to 80 ms, with jitter.
const txTries = 5

// InTx runs act in a transaction and commits it. It is run again from the start, so act must do nothing that a rollback does
// not undo, when PostgreSQL breaks it off only because another one was in the way (40001, 40P01), when it went to a server
// that takes no writes any more (25006), and when its connection ended before the commit was asked for: a restart,
// pg_terminate_backend, a failover, a cable. One whose connection ended during the commit is not: it may have been
// committed, and the fault says so.
func InTx(ctx context.Context, db Beginner, act func(tx pgx.Tx) error) error {
	for try := 1; ; try++ {
		undone, err := inTx(ctx, db, act)
		switch {
		case err == nil:
			return nil
		case clash(err), undone && parted(err):
		case !undone && parted(err):
			return fault.Wrap(fault.Unavailable, err, "the connection to the database broke off during the commit: this may have been done, or not")
		default:
			return Fault(err)
		}
		if try == txTries {
			return Fault(err)
		}
		wait := time.Duration(5<<try) * time.Millisecond / 2
		wait += rand.N(wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return Fault(errors.Join(ctx.Err(), err))
		}
	}
}

// Rider is a transaction whose commit may go out within the act.
type Rider interface {
	// Undone reports whether nothing of it can have been committed, as far as an error of the act tells.
	Undone(err error) bool
}

// inTx is one try. undone says of an error that nothing can have been committed.
func inTx(ctx context.Context, db Beginner, act func(tx pgx.Tx) error) (undone bool, err error) {
	tx, err := db.Begin(ctx)
	if err != nil {
		return true, fmt.Errorf("begin: %w", err)
	}
	defer func() {
		// After a commit this finds the transaction closed. A caller's context may be over: roll back without it.
		rollback, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if rerr := tx.Rollback(rollback); rerr != nil && !errors.Is(rerr, pgx.ErrTxClosed) && err == nil {
			err = fmt.Errorf("roll back: %w", rerr)
		}
	}()
	if err := act(tx); err != nil {
		r, rides := tx.(Rider)
		return !rides || r.Undone(err), err
	}
	if err := tx.Commit(ctx); err != nil {
		return false, fmt.Errorf("commit: %w", err)
	}
	return false, nil
}

// SQLSTATEs: PostgreSQL's manual, appendix A.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	readOnlyServer       = "25006" // read_only_sql_transaction: none of ours is one by itself
)

// clash reports whether PostgreSQL gave the transaction up, and running it again may do better.
func clash(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && slices.Contains([]string{serializationFailure, deadlockDetected, readOnlyServer}, pgErr.Code)
}

// parted reports whether the connection that a transaction had is gone: the server said goodbye, or nothing. A server that
// cannot be connected to is something else: its callers decide how long to wait.
func parted(err error) bool {
	var connectErr *pgconn.ConnectError
	if errors.As(err, &connectErr) {
		return false
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return goodbye(pgErr.Code) || PoolerLost(err)
	}
	return lostConnection(err)
}

// goodbye reports whether a SQLSTATE is what a server ends a session with: a shutdown or pg_terminate_backend, a crash, a
// session or a transaction in which nothing was said for too long.
func goodbye(sqlstate string) bool {
	return slices.Contains([]string{"57P01", "57P02", "57P05", "25P03"}, sqlstate)
}
