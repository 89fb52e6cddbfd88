package pg_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
)

// offClock is that of a process which is making something up.
type offClock struct {
	at  time.Time
	off time.Duration
}

func (c offClock) Now() time.Time     { return c.at.Add(c.off) }
func (c offClock) Off() time.Duration { return c.off }

// A process that starts while the others make up a clock that was set shows what they do. What the dead have left says nothing.
func TestAClockJoinsTheOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		clock offClock
		want  time.Duration
	}{
		"others are ahead":          {offClock{time.Now(), 6 * time.Minute}, 6 * time.Minute},
		"others are behind":         {offClock{time.Now(), -6 * time.Minute}, -6 * time.Minute},
		"others are right":          {offClock{time.Now(), 0}, 0},
		"others are nearly right":   {offClock{time.Now(), 900 * time.Millisecond}, 0},
		"others are out of bounds":  {offClock{time.Now(), time.Hour}, 0},
		"others are dead":           {offClock{time.Now().Add(-6 * time.Minute), 5 * time.Minute}, 0},
		"others come from tomorrow": {offClock{time.Now().Add(24 * time.Hour), 5 * time.Minute}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Pool(t)
			node, err := pg.TakeNode(t.Context(), db, c.clock)
			if err != nil {
				t.Fatal(err)
			}
			for _, how := range []string{"taken", "renewed"} {
				own := &pg.Clock{}
				if err := own.Sync(t.Context(), db); err != nil {
					t.Fatal(err)
				}
				if err := own.Join(t.Context(), db); err != nil {
					t.Fatal(err)
				}
				if got := own.Off(); (got - c.want).Abs() > time.Second {
					t.Errorf("%s: off by %v, want %v", how, got, c.want)
				}
				if got := time.Until(own.Now()); (got - c.want).Abs() > time.Second {
					t.Errorf("%s: ahead by %v, want %v", how, got, c.want)
				}
				if err := node.Renew(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
