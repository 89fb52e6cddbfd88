package pg

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// statementPatience bounds a statement whose caller does not, as one for a request: it would otherwise keep its connection for
// as long as a client waits.
const statementPatience = time.Minute

// pingPatience bounds the question whether it is there to a connection that nobody has used for a second. A host that is gone,
// or a server that stands still, says nothing.
const pingPatience = 5 * time.Second

// silence has all connections of a pool made anew when one of them has given no answer in the time that there was for it. Its
// host may be gone or its server stand still, or it is a primary that was replaced and waits for a standby that has left it.
// The others are to the same server: each would cost as much time, or go on showing what is no longer true.
//
// That a caller gave up says nothing about the server.
type silence struct{ guard *poolGuard }

// heed has a pool that is not made yet notice a silent server.
func (g *poolGuard) heed(cfg *pgxpool.Config) {
	if cfg.PingTimeout == 0 {
		cfg.PingTimeout = pingPatience
	}
	cfg.ConnConfig.Tracer = silence{g}
	cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		conn.PgConn().CustomData()[madeAt] = time.Now().UnixNano()
		return nil
	}
}

// madeAt is where a connection keeps when it was made. One that is older than the last round of new ones may well give no
// answer until after that: it says nothing about those.
const madeAt = "postrider.made_at"

type bounded struct{}

// bound gives a statement a deadline if it has none.
func bound(ctx context.Context) context.Context {
	if _, has := ctx.Deadline(); has {
		return ctx
	}
	ctx, cancel := context.WithTimeout(ctx, statementPatience)
	return context.WithValue(ctx, bounded{}, cancel)
}

// over looks at how a statement ended.
func (s silence) over(ctx context.Context, conn *pgx.Conn) {
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	if cancel, ours := ctx.Value(bounded{}).(context.CancelFunc); ours {
		cancel()
	}
	if !late || !conn.IsClosed() {
		return
	}
	if made, ok := conn.PgConn().CustomData()[madeAt].(int64); ok && made > s.guard.emptied.Load() {
		s.guard.empty()
	}
}

// TraceQueryStart is of pgx.QueryTracer.
func (silence) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return bound(ctx)
}

// TraceQueryEnd is of pgx.QueryTracer.
func (s silence) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryEndData) {
	s.over(ctx, conn)
}

// TraceBatchStart is of pgx.BatchTracer.
func (silence) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return bound(ctx)
}

// TraceBatchQuery is of pgx.BatchTracer.
func (silence) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd is of pgx.BatchTracer.
func (s silence) TraceBatchEnd(ctx context.Context, conn *pgx.Conn, _ pgx.TraceBatchEndData) {
	s.over(ctx, conn)
}
