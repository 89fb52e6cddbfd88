package pg

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Clock reads the database's time without asking it each time: this process's clock plus the offset measured last.
// Schedules, leases and ids run on it, so that processes whose own clocks disagree still agree with each other.
// Signatures do not: a receiver compares their timestamp with true time, so they use the process's clock.
type Clock struct {
	offset atomic.Int64 // nanoseconds, database minus process
	known  atomic.Bool  // it was measured
}

// Now is the database's time, in UTC, to the microsecond that PostgreSQL keeps.
func (c *Clock) Now() time.Time {
	return time.Now().Add(time.Duration(c.offset.Load())).UTC().Truncate(time.Microsecond)
}

// Acquirer lends connections: a pool.
type Acquirer interface {
	Acquire(ctx context.Context) (*pgxpool.Conn, error)
}

const (
	clockSamples = 3
	// staleSample is the longest round trip that says something: half of it is how wrong a sample may be.
	staleSample = 200 * time.Millisecond
)

// Sync measures the offset anew, on a connection that it waits for before it looks at a clock. The answer's half way time
// is taken as the moment of reading, so the offset is right to within half a round trip: that of the fastest of three. If
// all take too long to say anything the offset stays, with an error; only where there is none yet any is better than none.
func (c *Clock) Sync(ctx context.Context, db Acquirer) error {
	conn, err := db.Acquire(ctx)
	if err != nil {
		return Fault(fmt.Errorf("read the database's clock: %w", err))
	}
	defer conn.Release()
	return c.sync(ctx, conn)
}

func (c *Clock) sync(ctx context.Context, db Querier) error {
	var offset, best time.Duration
	for n := range clockSamples {
		var there time.Time
		before := time.Now()
		if err := db.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&there); err != nil {
			return Fault(fmt.Errorf("read the database's clock: %w", err))
		}
		trip := time.Since(before)
		if n == 0 || trip < best {
			best, offset = trip, there.Sub(before.Add(trip/2))
		}
	}
	if best > staleSample && c.known.Load() {
		return fmt.Errorf("read the database's clock: the fastest of %d answers took %s", clockSamples, best)
	}
	c.offset.Store(int64(offset))
	c.known.Store(true)
	return nil
}
