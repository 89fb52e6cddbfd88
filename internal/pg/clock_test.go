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
		sync(s+500*ms, s+450*ms, false, 200*ms, 201*ms, 4*s)
	})
}

// The database's clock is set by minutes, forwards or backwards. Ours does not jump: it gains or loses a twentieth until it
// is right again, and one that is made meanwhile joins it.
func TestTheClockMakesUpASetClock(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{7 * time.Minute, -7 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			c, far := &Clock{}, &farClock{}
			sync := func() {
				t.Helper()
				far.trips = []time.Duration{4 * time.Millisecond, 4 * time.Millisecond, 4 * time.Millisecond}
				if err := c.sync(t.Context(), far); err != nil {
					t.Fatal(err)
				}
			}
			near := func(what string, got, want, by time.Duration) {
				t.Helper()
				if (got - want).Abs() > by {
					t.Errorf("step of %v: %s is %v, want %v", step, what, got, want)
				}
			}
			sync()
			near("at first off", c.Off(), 0, 0)
			far.ahead = step
			sync()
			near("ahead of this process", time.Until(c.Now()), 0, 10*time.Millisecond)
			near("ahead of the database", c.Off(), -step, 10*time.Millisecond)
			made := time.Duration(0)
			last := c.Now()
			for ; c.Off() != 0 && made < 3*time.Hour; made += 5 * time.Second {
				<-time.After(5 * time.Second)
				if now := c.Now(); now.Sub(last) < 3500*time.Millisecond || now.Sub(last) > 6500*time.Millisecond {
					t.Fatalf("step of %v: in five seconds it went on by %v", step, now.Sub(last))
				} else {
					last = now
				}
				sync()
			}
			near("made up after", made, 140*time.Minute-step.Abs()/10, 3*time.Minute)
			near("in the end ahead of this process", time.Until(c.Now()), step, 10*time.Millisecond)
		})
	}
}

// Where this machine's clock is set with the database's, or it was asleep, there is nothing to make up.
func TestTheClockFollowsAtOnce(t *testing.T) {
	t.Parallel()
	start, day := time.Now(), 24*time.Hour
	r := (*reading)(nil).next(start, start, start)
	for name, n := range map[string]*reading{
		"asleep for a day": r.next(start, start.Add(day), start.Add(day)),
		"asleep for a bit": r.next(start, start.Add(time.Minute), start.Add(time.Minute)),
		"another date":     r.next(start, start, start.Add(day)),
		"a drift":          r.next(start, start, start.Add(900*time.Millisecond)),
	} {
		if n.rate != 0 || n.off != 0 {
			t.Errorf("%s: off by %v", name, n.off)
		}
	}
}
