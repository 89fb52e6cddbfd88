package pg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

// InTx runs act in a transaction and commits it. When PostgreSQL breaks it off only because another one was in the way
// (40001, 40P01), it is run again from the start, so act must do nothing that a rollback does not undo.
func InTx(ctx context.Context, db Beginner, act func(tx pgx.Tx) error) error {
	for try := 1; ; try++ {
		err := inTx(ctx, db, act)
		if err == nil || try == txTries || !clash(err) {
			return err
		}
		wait := time.Duration(5<<try) * time.Millisecond / 2
		wait += rand.N(wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func inTx(ctx context.Context, db Beginner, act func(tx pgx.Tx) error) (err error) {
	tx, err := db.Begin(ctx)
	if err != nil {
		return Fault(fmt.Errorf("begin: %w", err))
	}
	defer func() {
		// After a commit this finds the transaction closed. A caller's context may be over: roll back without it.
		rollback, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if rerr := tx.Rollback(rollback); rerr != nil && !errors.Is(rerr, pgx.ErrTxClosed) && err == nil {
			err = Fault(fmt.Errorf("roll back: %w", rerr))
		}
	}()
	if err := act(tx); err != nil {
		return Fault(err)
	}
	if err := tx.Commit(ctx); err != nil {
		return Fault(fmt.Errorf("commit: %w", err))
	}
	return nil
}

// clash reports whether PostgreSQL gave the transaction up for another's sake.
func clash(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == "40001" || pgErr.Code == "40P01")
}
