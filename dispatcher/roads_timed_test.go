package dispatcher

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/internal/id"
)

// What has a time of its own may have others behind it that nothing hints at: when the lane is dry, its bucket is looked at.
func TestATimeOfItsOwnHasTheNextLookedFor(t *testing.T) {
	t.Parallel()
	key := id.ID{Shard: 1, N: 7}
	made := func(ago time.Duration) int64 { return id.Floor(noon.Add(-ago)) + 1 }
	for name, c := range map[string]struct {
		got   claimed
		slots int
		later bool // something is known to come
		look  bool
	}{
		"put off":                     {claimed{Attempts: 1, ID: made(time.Hour)}, 5, false, true},
		"due when it was made":        {claimed{Attempts: 1, ID: made(0)}, 5, false, false},
		"tried again by hand":         {claimed{Attempts: 2, ID: made(time.Hour)}, 5, false, false},
		"there may be more due":       {claimed{Attempts: 1, ID: made(time.Hour)}, 1, false, false},
		"the next is known":           {claimed{Attempts: 1, ID: made(time.Hour)}, 5, true, false},
		"in a group":                  {claimed{Attempts: 1, ID: made(time.Hour), Group: 9}, 5, false, true},
		"in a group, due when it was": {claimed{Attempts: 1, ID: made(0), Group: 9}, 5, false, false},
	} {
		r := newRoads()
		c.got.Shard, c.got.EndpointID, c.got.DueAt = key.Shard, key.N, noon
		in := c.got.lane()
		r.note(key, in, noon)
		if c.later {
			r.note(key, in, noon.Add(time.Minute))
		}
		look := r.claimed(noon, map[int16][]wish{1: {{endpoint: 7, lane: in, slots: c.slots}}}, []claimed{c.got})
		if in == laneOrdered {
			r.walked(noon, key, 1, 9, true)               // one that found some
			if r.walked(noon, key, 0, firstGroup, true) { // one that found none
				look = append(look, key.Shard)
			}
		}
		if got := slices.Equal(look, []int16{1}); got != c.look {
			t.Errorf("%s: looked at are %v", name, look)
		}
		if more := r.claimed(noon, map[int16][]wish{1: {{endpoint: 7, lane: in, slots: 5}}}, nil); c.slots > 1 && len(more) > 0 {
			t.Errorf("%s: and once more %v", name, more)
		}
	}
}

func TestHintsWithoutHasteComeTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWakes()
		w.addSoon()
		w.addSoon(3)
		w.addSoon(4, 3)
		if got := w.take(); len(got) != 0 {
			t.Errorf("at once there are %v", got)
		}
		<-w.signal
		got := w.take()
		slices.Sort(got)
		if !slices.Equal(got, []int16{3, 4}) {
			t.Errorf("then there are %v", got)
		}
	})
}
