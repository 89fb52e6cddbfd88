package pg_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
)

func TestProcessesSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	db, at := pgtest.Pool(t), noon
	take := func() *pg.Node {
		t.Helper()
		n, err := pg.TakeNode(t.Context(), db, shows(func() time.Time { return at }))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	there := func() (nodes []int, unknown int) {
		t.Helper()
		all, unknown, err := pg.Processes(t.Context(), db, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			nodes = append(nodes, p.Node)
		}
		return nodes, unknown
	}
	wants := func(when string, unknown int, nodes ...int) {
		t.Helper()
		if got, other := there(); other != unknown || !reflect.DeepEqual(got, nodes) {
			t.Errorf("%s: %v and %d of which nothing is known", when, got, other)
		}
	}
	command, old, first := take(), take(), take()
	wants("nobody has said anything", 0)
	// As the version before takes a number.
	if _, err := db.Exec(t.Context(), `UPDATE nodes SET owner = owner + (1 << 24) WHERE node = $1`, old.Number()); err != nil {
		t.Fatal(err)
	}
	wants("one is older", 1)
	worked := noon.Add(-time.Second)
	about := pg.About{
		Roles: []string{"api", "dispatcher"}, Version: "1.2.3", Host: "a", PID: 7, StartedAt: noon.Add(-time.Hour), DispatcherWorkedAt: &worked,
	}
	if err := first.Say(t.Context(), about); err != nil {
		t.Fatal(err)
	}
	wants("one has", 1, first.Number())
	all, _, err := pg.Processes(t.Context(), db, at)
	if err != nil {
		t.Fatal(err)
	}
	got := all[0]
	if !got.SeenAt.Equal(noon) || !got.StartedAt.Equal(about.StartedAt) || !got.DispatcherWorkedAt.Equal(worked) || got.SchedulerWorkedAt != nil ||
		!reflect.DeepEqual(got.Roles, about.Roles) || got.Version != "1.2.3" || got.Host != "a" || got.PID != 7 {
		t.Errorf("got %+v", got)
	}
	if err := old.Say(t.Context(), about); err != nil { // its number is another's
		t.Fatal(err)
	}
	wants("said by who has lost its number", 1, first.Number())
	at = noon.Add(4 * time.Minute)
	wants("dead, perhaps", 1, first.Number())
	at = noon.Add(5 * time.Minute)
	wants("their leases are over", 0)
	again := take()
	if again.Number() != command.Number() && again.Number() != first.Number() && again.Number() != old.Number() {
		wants("another number", 0)
	}
	if err := again.Say(t.Context(), about); err != nil {
		t.Fatal(err)
	}
	if err := again.GiveBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	wants("given back", 0)
}
