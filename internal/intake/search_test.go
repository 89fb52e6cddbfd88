package intake_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
)

// However little a page may look at, paging gives what one list of all gives.
func TestSearchGivesPageByPageWhatAListGives(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	for n := range 60 {
		ev := order(n)
		ev.Type = []string{"often", "often", "sometimes"}[n%3]
		if n == 11 {
			ev.Type = "rare"
		}
		d.accept(t, ten, "", ev)
		d.pass(time.Minute)
	}
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	for name, f := range map[string]intake.Filter{
		"all":       {},
		"often":     {Type: "often"},
		"sometimes": {Type: "sometimes", Since: at(5), Until: at(50)},
		"rare":      {Type: "rare"},
		"none":      {Type: "none"},
		"succeeded": {Status: "succeeded"},
		"queued":    {Status: "queued"},
		"both":      {Status: "succeeded", Type: "rare"},
	} {
		want, err := d.Events(t.Context(), ten, f, 100, id.ID{})
		if err != nil || (len(want) == 0) != slices.Contains([]string{"none", "queued"}, name) {
			t.Fatalf("%s: the case tests nothing: %d, %v", name, len(want), err)
		}
		for _, look := range []int{1, 7, 60, 1000} {
			for _, budget := range []time.Duration{0, time.Hour} {
				for _, atOnce := range []time.Duration{0, time.Hour} {
					if got := d.searched(t, ten, f, look, budget, atOnce); !slices.Equal(got, eventIDs(want)) {
						t.Errorf("%s, %d at a time within %s, at once %s: got %v, want %v", name, look, budget, atOnce, got, eventIDs(want))
					}
				}
			}
		}
	}
}

func (d *desk) searched(t *testing.T, ten id.ID, f intake.Filter, look int, budget, atOnce time.Duration) (all []id.ID) {
	t.Helper()
	const limit = 5
	for before := (id.ID{}); ; {
		p, err := d.SearchWith(t.Context(), ten, f, limit, before, look, budget, atOnce)
		if err != nil || len(p.Events) > limit {
			t.Fatalf("%d, %v", len(p.Events), err)
		}
		all = append(all, eventIDs(p.Events)...)
		if p.Next.IsZero() != p.SearchedTo.IsZero() || !p.Next.IsZero() && !p.SearchedTo.Equal(p.Next.Time()) {
			t.Fatal(fmt.Sprint("goes on at ", p.Next, ", searched to ", p.SearchedTo))
		}
		if p.Next.IsZero() {
			return all
		}
		if !before.IsZero() && p.Next.N >= before.N {
			t.Fatalf("%v comes after %v", p.Next, before)
		}
		before = p.Next
	}
}

func eventIDs(events []intake.Stored) []id.ID {
	var ids []id.ID
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}
