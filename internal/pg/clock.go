package pg

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Clock reads the database's time without asking it each time: this process's clock plus the offset measured last.
// Schedules, leases and ids run on it, so that processes whose own clocks disagree still agree with each other.
// Signatures do not: a receiver compares their timestamp with true time, so they use the process's clock.
type Clock struct {
	offset atomic.Int64 // nanoseconds, database minus process
}

// Now is the database's time, in UTC, to the microsecond that PostgreSQL keeps.
func (c *Clock) Now() time.Time {
	return time.Now().Add(time.Duration(c.offset.Load())).UTC().Truncate(time.Microsecond)
}

// Sync measures the offset anew. The answer's half way time is taken as the moment of reading, so it is right to
// within half a round trip.
func (c *Clock) Sync(ctx context.Context, db Querier) error {
	var there time.Time
	before := time.Now()
	if err := db.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&there); err != nil {
		return Fault(fmt.Errorf("read the database's clock: %w", err))
	}
	here := before.Add(time.Since(before) / 2)
	c.offset.Store(int64(there.Sub(here)))
	return nil
}
