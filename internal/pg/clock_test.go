package pg

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
)

// farClock is a database whose clock is ahead of ours, and whose answers take these round trips, more of it on the way back.
type farClock struct {
	Querier
	ahead time.Duration
	trips []time.Duration
}

func (f *farClock) QueryRow(context.Context, string, ...any) pgx.Row { return f }

func (f *farClock) Scan(dest ...any) error {
	trip := f.trips[0]
	f.trips = f.trips[1:]
	<-time.After(trip / 4)
	*dest[0].(*time.Time) = time.Now().Add(f.ahead)
	<-time.After(trip * 3 / 4)
	return nil
}

// In a bubble of synctest, so that a round trip takes exactly as long as it says.
func TestTheClockTakesTheFastestSample(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &Clock{}
		sync := func(ahead, want time.Duration, fails bool, trips ...time.Duration) {
			t.Helper()
			err := c.sync(t.Context(), &farClock{ahead: ahead, trips: trips})
			if got := time.Until(c.Now()); got != want || (err != nil) != fails {
				t.Errorf("%v: ahead by %v, %v; want %v", trips, got, err, want)
			}
		}
		const s, ms = time.Second, time.Millisecond
		sync(s, 0, false, 4*s, 4*s, 4*s) // the first counts, as bad as it is: a quarter of the trip too little
		sync(s, s-ms, false, 3*s, 4*ms, 8*ms)
		sync(9*s, s-ms, true, 3*s, 201*ms, 4*s)
		sync(9*s, 9*s-50*ms, false, 200*ms, 201*ms, 4*s)
	})
}
