package intake

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
)

// transaction is what a group of requests is written in.
type transaction interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	// batch is an empty batch. The first one that is sent begins the transaction.
	batch() *pgx.Batch
	// commitWith adds the commit to the last batch.
	commitWith(b *pgx.Batch)
	// sendLast sends the batch with the commit. No error means that it is committed.
	sendLast(ctx context.Context, b *pgx.Batch) error
}

// ride is a transaction that costs no round trips of its own: its BEGIN goes out with the first statements and its COMMIT
// with the last. When a statement fails, PostgreSQL skips what comes after it up to the end of the batch, the COMMIT
// too. It is a pgx.Tx as far as pg.InTx needs one; its other methods are not there.
type ride struct {
	pgx.Tx    // nil
	conn      *pgxpool.Conn
	asked     bool // the commit went out
	reached   bool // all before it was answered, and well
	committed bool
	over      bool // the connection is given back
}

// rides starts them.
type rides struct{ db *pgxpool.Pool }

// Begin only takes a connection.
func (r rides) Begin(ctx context.Context) (pgx.Tx, error) {
	conn, err := r.db.Acquire(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // pg.InTx says what it was
	}
	return &ride{conn: conn}, nil
}

const idle = 'I' // of a connection's transaction status: in none (PostgreSQL's manual, ReadyForQuery)

func (r *ride) batch() *pgx.Batch {
	b := &pgx.Batch{}
	if r.conn.Conn().PgConn().TxStatus() == idle {
		b.Queue("begin")
	}
	return b
}

func (r *ride) commitWith(b *pgx.Batch) {
	b.Queue("commit").Fn = func(results pgx.BatchResults) error {
		r.reached = true
		tag, err := results.Exec()
		switch {
		case err != nil:
			return err //nolint:wrapcheck // whoever sends the batch says what it was
		case tag.String() != "COMMIT":
			return pgx.ErrTxCommitRollback
		}
		r.committed = true
		return nil
	}
}

// sendLast takes the answer to the commit for what counts: a server that is being stopped ends the connection right behind it.
func (r *ride) sendLast(ctx context.Context, b *pgx.Batch) error {
	r.asked = true
	if err := r.SendBatch(ctx, b).Close(); err != nil && !r.committed {
		return err //nolint:wrapcheck // whoever calls it says what it was
	}
	return nil
}

// Undone is true before the commit went out, and when the server refused something before it, which has it skip the commit. A
// pooler that has lost the server speaks for itself.
func (r *ride) Undone(err error) bool {
	var pgErr *pgconn.PgError
	return !r.asked || !r.reached && errors.As(err, &pgErr) && !pg.PoolerLost(err)
}

func (r *ride) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return r.conn.SendBatch(ctx, b)
}

func (r *ride) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return r.conn.Exec(ctx, sql, args...) //nolint:wrapcheck // whoever calls it says what it was
}

// Commit ends a transaction whose last batch did not do that already.
func (r *ride) Commit(ctx context.Context) error {
	if !r.committed {
		b := &pgx.Batch{}
		r.commitWith(b)
		if err := r.sendLast(ctx, b); err != nil {
			return err
		}
	}
	r.giveBack()
	return nil
}

// Rollback is for a transaction that is not committed. A connection that is still in one is closed by the pool.
func (r *ride) Rollback(ctx context.Context) error {
	if r.over {
		return pgx.ErrTxClosed
	}
	defer r.giveBack()
	if r.conn.Conn().IsClosed() || r.conn.Conn().PgConn().TxStatus() == idle {
		return nil
	}
	_, err := r.conn.Exec(ctx, "rollback")
	return err //nolint:wrapcheck // pg.InTx says what it was
}

func (r *ride) giveBack() {
	r.over = true
	r.conn.Release()
}
