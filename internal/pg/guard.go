package pg

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// poolGuard keeps a pool from lending connections that are good for nothing: those that the server has ended, as when it was
// restarted while nothing was to do, and those to a server that takes no writes any more, as a primary that has become a
// standby.
type poolGuard struct {
	pool    atomic.Pointer[pgxpool.Pool] // set when it is made
	emptied atomic.Int64                 // when last; Unix nanoseconds
}

// guard makes the guard of a pool that is not made yet.
func guard(cfg *pgxpool.Config) *poolGuard {
	g := &poolGuard{}
	cfg.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) { return g.good(ctx, conn), nil }
	fatal := cfg.ConnConfig.OnPgError
	cfg.ConnConfig.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if err.Code == readOnlyServer {
			g.empty()
			return false // ends the connection
		}
		return fatal == nil || fatal(conn, err)
	}
	return g
}

// emptyEvery is the least time between two rounds of new connections: where no server takes writes, each statement would
// otherwise cost one.
const emptyEvery = time.Second

// empty has all connections made anew: what was a primary for them is none now, and a URL that names several hosts with
// target_session_attrs=read-write finds the new one. Those that are lent end when they come back.
func (g *poolGuard) empty() {
	now, last := time.Now().UnixNano(), g.emptied.Load()
	pool := g.pool.Load()
	if pool == nil || now-last < int64(emptyEvery) || !g.emptied.CompareAndSwap(last, now) {
		return
	}
	pool.Reset()
}

// good reports whether a connection that lay in the pool is one still. It costs a system call and no round trip, unless the
// server has said something meanwhile: that may be its goodbye.
func (*poolGuard) good(ctx context.Context, conn *pgx.Conn) bool {
	switch peek(conn.PgConn().Conn()) {
	case silent:
		return true
	case ended:
		return false
	case unclear:
	}
	return conn.Ping(ctx) == nil
}

type heard uint8

const (
	silent heard = iota
	ended
	unclear // there is something to read, or no way to look
)

// peek looks at what a connection has received and nobody has read, and leaves it there.
func peek(conn net.Conn) heard {
	if outer, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = outer.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return unclear
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return unclear
	}
	var n int
	var failed error
	// Not raw.Read: the driver may have left a read of its own behind, for which that would wait.
	err = raw.Control(func(fd uintptr) {
		n, _, failed = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	switch {
	case err != nil || n > 0:
		return unclear
	case errors.Is(failed, syscall.EAGAIN):
		return silent
	}
	return ended // the end of the stream, or a reset
}
