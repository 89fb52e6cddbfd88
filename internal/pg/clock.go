package pg

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Clock reads the database's time without asking it each time: what it showed last plus the time that went by since, which
// is this process's monotonic time, so that nothing happens when this machine's clock is set. Schedules, leases and ids run
// on it, so that processes whose own clocks disagree still agree with each other. Signatures do not: a receiver compares
// their timestamp with true time, so they use the process's clock.
//
// When the database's clock is set, or the database becomes another machine whose clock is minutes off, what waits was
// written by the old time. To follow at once would send retries early or hold everything up, and end the leases of what is
// on its way. So the clock goes on from where it is, a little faster or slower, until it is right again, and so do those of
// all processes; one that starts meanwhile joins them (Join).
type Clock struct {
	shown atomic.Pointer[reading]
}

// reading is what a clock showed at a moment, and how it goes on from there.
type reading struct {
	at   time.Time // by this process
	time time.Time
	rate float64       // by how much faster than time goes by
	off  time.Duration // how far it was from the database's at that moment: positive, ahead
	wall time.Duration // the database's time less this machine's
}

func (r *reading) on(moment time.Time) time.Time {
	since := moment.Sub(r.at)
	return r.time.Add(since + time.Duration(r.rate*float64(since)))
}

// Now is the database's time, in UTC, to the microsecond that PostgreSQL keeps.
func (c *Clock) Now() time.Time {
	now := time.Now()
	if r := c.shown.Load(); r != nil {
		now = r.on(now)
	}
	return now.UTC().Truncate(time.Microsecond)
}

// Off is how far the clock is from the database's since that was set: positive when it is ahead.
func (c *Clock) Off() time.Duration {
	r := c.shown.Load()
	if r == nil || r.rate == 0 {
		return 0
	}
	return r.off + time.Duration(r.rate*float64(time.Since(r.at)))
}

// Acquirer lends connections: a pool.
type Acquirer interface {
	Acquire(ctx context.Context) (*pgxpool.Conn, error)
}

const (
	clockSamples = 3
	// staleSample is the longest round trip that says something: half of it is how wrong a sample may be.
	staleSample = 200 * time.Millisecond
	// clockStep is the least difference that is a clock that was set. One that drifts is followed at once.
	clockStep = time.Second
	// catchUp is how much faster or slower the clock goes then: a minute is made up in 20.
	catchUp = 0.05
	// farOff is a difference beyond making up, such as of a machine that woke up with another date.
	farOff = 15 * time.Minute
)

// Sync measures the database's time anew, on a connection that it waits for before it looks at a clock. The answer's half way
// time is taken as the moment of reading, so it is right to within half a round trip: that of the fastest of three. If all
// take too long to say anything the clock goes on, with an error; only where there is none yet any is better than none.
func (c *Clock) Sync(ctx context.Context, db Acquirer) error {
	conn, err := db.Acquire(ctx)
	if err != nil {
		return Fault(fmt.Errorf("read the database's clock: %w", err))
	}
	defer conn.Release()
	return c.sync(ctx, conn)
}

func (c *Clock) sync(ctx context.Context, db Querier) error {
	var best time.Duration
	var moment, there time.Time
	for n := range clockSamples {
		var says time.Time
		before := time.Now()
		if err := db.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&says); err != nil {
			return Fault(fmt.Errorf("read the database's clock: %w", err))
		}
		if trip := time.Since(before); n == 0 || trip < best {
			best, moment, there = trip, before.Add(trip/2), says
		}
	}
	last := c.shown.Load()
	if best > staleSample && last != nil {
		return fmt.Errorf("read the database's clock: the fastest of %d answers took %s", clockSamples, best)
	}
	c.shown.Store(last.next(moment, moment.Round(0), there))
	return nil
}

// next is the reading after this one, which may be nil: what this machine's clock and the database's show at a moment.
func (r *reading) next(moment, here, there time.Time) *reading {
	n := &reading{at: moment, time: there, wall: there.Sub(here)}
	if r == nil {
		return n
	}
	off := r.on(moment).Sub(there)
	// Both clocks went on and our monotonic time did not: this machine was asleep, or is the database's, and was set.
	together := r.rate == 0 && (n.wall-r.wall).Abs() < clockStep
	if off.Abs() < clockStep || off.Abs() > farOff || together {
		return n
	}
	n.makeUp(off)
	return n
}

// makeUp has the clock be off, and less from then on.
func (r *reading) makeUp(off time.Duration) {
	r.time, r.off, r.rate = r.time.Add(off), off, math.Copysign(catchUp, -float64(off))
}

// A process says in its row how far its clock is from the database's, see Node. One whose lease is over by its own clock is dead.
const fleetSQL = `
SELECT off FROM (SELECT leased_until, (((owner & 16777215) # 8388608) - 8388608) * 100 AS off FROM nodes WHERE owner IS NOT NULL) n
 WHERE leased_until BETWEEN clock_timestamp() + off * interval '1 ms'
       AND clock_timestamp() + off * interval '1 ms' + @lease::interval
 ORDER BY leased_until - off * interval '1 ms' DESC LIMIT 1`

// Join has the clock, just read for the first time, show what those of the other processes do: since the database's was set they
// may still be making it up.
func (c *Clock) Join(ctx context.Context, db Querier) error {
	var ms int64
	err := db.QueryRow(ctx, fleetSQL, pgx.StrictNamedArgs{"lease": nodeLease + nodeRenew}).Scan(&ms)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return Fault(fmt.Errorf("read other processes' clocks: %w", err))
	}
	off := time.Duration(ms) * time.Millisecond
	if r := c.shown.Load(); r != nil && off.Abs() >= clockStep && off.Abs() <= farOff {
		joined := *r
		joined.makeUp(off)
		c.shown.Store(&joined)
	}
	return nil
}
