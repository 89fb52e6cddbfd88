package schedules_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/schedules"
	"github.com/postrider/postrider/subscriptions"
)

func TestAnOccurrenceMakesAnEvent(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tenant := s.tenant()
	want := terms("30 13 * * *")
	want.Timezone, want.GroupKey, want.Metadata = "Europe/Berlin", "reports", map[string]any{"by": `a "b" \ <c>`}
	sch := s.create(tenant, want)
	if at := sch.NextAt.UTC(); !at.Equal(noon.Add(30 * time.Minute)) {
		t.Fatalf("it is due at %s", at)
	}
	s.set(noon.Add(30*time.Minute - 1))
	if d := s.work(); d != (schedules.Done{}) {
		t.Fatalf("before its time it did %+v", d)
	}
	s.pass(1)
	if d := s.work(); d != (schedules.Done{Schedules: 1, Made: 1}) {
		t.Fatalf("at its time it did %+v", d)
	}
	got := s.get(sch)
	if !got.NextAt.Equal(noon.Add(30*time.Minute+24*time.Hour)) || !got.LastAt.Equal(noon.Add(30*time.Minute)) || got.LastError != "" {
		t.Errorf("it is %+v now", got)
	}
	ev, err := s.intake.Event(t.Context(), tenant, id.Event.Format(*got.LastEvent))
	if err != nil {
		t.Fatal(err)
	}
	if ev.Type != "report.due" || *ev.GroupKey != "reports" || ev.FanOut != 1 {
		t.Errorf("the event is %+v", ev)
	}
	about := map[string]any{"id": id.Schedule.Format(sch.ID), "at": "2026-11-30T12:30:00.000Z"}
	if fmt.Sprint(ev.Metadata) != fmt.Sprint(map[string]any{"by": `a "b" \ <c>`, "schedule": about}) {
		t.Errorf("its metadata is %v", ev.Metadata)
	}
	var payload []byte
	if err := s.db.QueryRow(t.Context(), `SELECT payload FROM events`).Scan(&payload); err != nil || string(payload) != `{ "n":1.0 }` {
		t.Errorf("its payload is %q (%v)", payload, err)
	}
	last, err := s.schedules.Occurrences(t.Context(), sch.ID, 10)
	if err != nil || len(last) != 1 || *last[0].Event != *got.LastEvent || !last[0].At.Equal(noon.Add(30*time.Minute)) {
		t.Errorf("its occurrences are %+v (%v)", last, err)
	}
}

// Several processes look at the same time, over and over, while the clock goes on in leaps.
func TestEachOccurrenceMakesOneEventWhoeverRuns(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tenant := s.tenant()
	var all []schedules.Schedule
	for range 7 {
		all = append(all, s.create(tenant, terms("* * * * *")))
	}
	for range 12 {
		s.pass(3 * time.Minute)
		var processes sync.WaitGroup
		for range 4 {
			processes.Go(func() {
				p := s.another(zerolog.Nop())
				for {
					d, err := p.RunOnce(s.Context())
					if err != nil {
						t.Error(err)
					}
					if err != nil || d.Schedules == 0 {
						return
					}
				}
			})
		}
		processes.Wait()
	}
	s.work() // what another was at when the last one looked
	var want []string
	for n := range 36 {
		want = append(want, noon.Add(time.Duration(n+1)*time.Minute).Format("2006-01-02T15:04:05.000Z"))
	}
	for _, sch := range all {
		if got := s.made(sch); !slices.Equal(got, want) {
			t.Errorf("it made %v, want %v", got, want)
		}
	}
}

// A transaction that is broken off, as by a process that is killed in it, leaves the occurrence as it was.
func TestWhatIsBrokenOffIsDoneOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sch := s.create(s.tenant(), terms("@hourly"))
	s.exec(`CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'killed' USING ERRCODE = '57P01'; END $$`)
	s.exec(`CREATE CONSTRAINT TRIGGER stop AFTER UPDATE ON schedules DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION stop()`)
	s.pass(time.Hour)
	if _, err := s.schedules.RunOnce(t.Context()); err == nil {
		t.Fatal("it says that it went well")
	}
	if got := s.made(sch); len(got) != 0 {
		t.Fatalf("it made %v", got)
	}
	s.exec(`DROP TRIGGER stop ON schedules`)
	s.work()
	s.work()
	if got := s.made(sch); len(got) != 1 {
		t.Errorf("it made %v", got)
	}
}

func TestLateOccurrences(t *testing.T) {
	t.Parallel()
	at := func(minutes ...int) (texts []string) {
		for _, m := range minutes {
			texts = append(texts, noon.Add(time.Duration(m)*time.Minute).Format("2006-01-02T15:04:05.000Z"))
		}
		return texts
	}
	for _, c := range []struct {
		name    string
		cron    string
		late    schedules.Late
		stop    time.Duration
		want    []string
		skipped int64
	}{
		{"all of them, in order", "*/10 * * * *", schedules.All, 35 * time.Minute, at(10, 20, 30), 0},
		{"the last of them", "*/10 * * * *", schedules.Last, 35 * time.Minute, at(30), 2},
		{"none of them", "*/10 * * * *", schedules.None, 35 * time.Minute, nil, 3},
		{"a minute is not late", "*/10 * * * *", schedules.None, 11 * time.Minute, at(10), 0},
		{"more than a minute is", "*/10 * * * *", schedules.None, 11*time.Minute + 1, nil, 1},
		{"the last gives way to one in time", "* * * * *", schedules.Last, 5*time.Minute + 30*time.Second, at(5), 4},
		{"none, but the one in time", "* * * * *", schedules.None, 5*time.Minute + 30*time.Second, at(5), 4},
		{"a long stop", "* * * * *", schedules.Last, 10*24*time.Hour + 30*time.Second, at(14_400), 14_399},
		{"a long stop, of one that comes rarely", "@daily", schedules.Last, 10 * 24 * time.Hour, at(720 + 9*1440), 9},
		{"a long stop, all", "* * * * *", schedules.All, 5 * time.Hour, at(func() (m []int) {
			for n := range 300 {
				m = append(m, n+1)
			}
			return m
		}()...), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			n := terms(c.cron)
			n.Late = c.late
			sch := s.create(s.tenant(), n)
			s.pass(c.stop)
			s.work()
			if got := s.made(sch); !slices.Equal(got, c.want) {
				t.Errorf("it made %v, want %v", got, c.want)
			}
			got := s.get(sch)
			if got.Skipped != c.skipped || !got.NextAt.After(s.now()) {
				t.Errorf("it skipped %d, want %d, and goes on at %s", got.Skipped, c.skipped, got.NextAt)
			}
		})
	}
}

// The service stops over the night in which the clock is set.
func TestAStopOverADaylightChange(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.set(time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC))
	tenant := s.tenant()
	fixed, hourly := terms("30 2 * * *"), terms("0 * * * *")
	fixed.Timezone, hourly.Timezone = "Europe/Berlin", "Europe/Berlin"
	once, through := s.create(tenant, fixed), s.create(tenant, hourly)
	s.pass(10 * time.Hour)
	s.work()
	if got := s.made(once); !slices.Equal(got, []string{"2026-10-25T00:30:00.000Z"}) {
		t.Errorf("half past two made %v", got)
	}
	if got := s.made(through); len(got) != 10 {
		t.Errorf("ten hours made %v", got)
	}
}

func TestASchemaThatBreaksAnOccurrence(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sch := s.create(s.tenant(), terms("@hourly"))
	put := func(schema string) {
		t.Helper()
		if _, _, err := s.store.PutEventType(t.Context(), "report.due", subscriptions.EventTypeSettings{Schema: []byte(schema)}); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"required":["total"]}`)
	for range 3 {
		s.pass(time.Hour)
		if d := s.work(); d != (schedules.Done{Schedules: 1, Failed: 1}) {
			t.Fatalf("it did %+v", d)
		}
	}
	got := s.get(sch)
	if got.Status() != schedules.Failing || !strings.Contains(got.LastError, "total") || !got.NextAt.Equal(noon.Add(4*time.Hour)) {
		t.Errorf("it is %s: %q, and goes on at %s", got.Status(), got.LastError, got.NextAt)
	}
	if n := strings.Count(s.log.String(), "schedule.failed"); n != 1 {
		t.Errorf("the log tells of it %d times:\n%s", n, s.log)
	}
	put(`{}`)
	s.pass(time.Hour)
	s.work()
	if got := s.get(sch); got.Status() != schedules.Active || got.LastEvent == nil || len(s.made(sch)) != 1 {
		t.Errorf("when all is well again, it is %+v", got)
	}
}

// One whose events cannot be stored, and one that cannot be read, cost themselves alone.
func TestABadScheduleCostsItselfAlone(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tenant := s.tenant()
	var good []schedules.Schedule
	var bad schedules.Schedule
	for n := range 9 {
		if n == 4 {
			poison := terms("@hourly")
			poison.Type = "poison"
			bad = s.create(tenant, poison)
		}
		good = append(good, s.create(tenant, terms("@hourly")))
	}
	unread := s.create(tenant, terms("@hourly"))
	s.exec(`UPDATE schedules SET timezone = 'Mars/Olympus' WHERE id = $1`, unread.ID.N)
	s.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '22023'; END $$`)
	s.exec(`CREATE TRIGGER refuse BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.type = 'poison') EXECUTE FUNCTION refuse()`)
	s.pass(time.Hour)
	if d := s.work(); d.Made != 9 || d.Failed != 1 {
		t.Fatalf("it did %+v", d)
	}
	for _, sch := range good {
		if got := s.made(sch); len(got) != 1 {
			t.Errorf("a good one made %v", got)
		}
	}
	if got := s.get(bad); got.Status() != schedules.Failing || !got.NextAt.Equal(noon.Add(2*time.Hour)) {
		t.Errorf("the bad one is %+v", got)
	}
	if got := s.get(unread); got.Status() != schedules.Paused || !strings.Contains(got.LastError, "Mars/Olympus") {
		t.Errorf("the one that cannot be read is %+v", got)
	}
}

func TestADeletedTenantsSchedulesEnd(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tenant := s.tenant()
	s.create(tenant, terms("@hourly"))
	quiet := terms("@daily")
	quiet.Paused = true
	s.create(tenant, quiet)
	kept := s.create(s.tenant(), terms("@daily"))
	if _, _, err := s.store.DeleteTenant(t.Context(), id.Tenant.Format(tenant)); err != nil {
		t.Fatal(err)
	}
	s.pass(time.Hour)
	if d := s.work(); d.Made != 0 || d.Failed != 0 {
		t.Errorf("it did %+v", d)
	}
	if left, err := s.schedules.List(t.Context(), tenant, 10, id.ID{}); err != nil || len(left) != 1 {
		t.Errorf("after its time there are %d left (%v)", len(left), err)
	}
	if n, err := s.schedules.DropOrphans(t.Context()); err != nil || n != 1 {
		t.Errorf("dropped %d (%v)", n, err)
	}
	s.get(kept)
	_, err := s.schedules.Create(t.Context(), tenant, terms("@daily"))
	wantFault(t, err, fault.NotFound)
}

// Run waits for the very time of the next, and sees what is made here at once.
func TestRunMakesEventsInTime(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tenant := s.tenant()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.schedules.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer stop()
	s.set(noon.Add(59*time.Minute + 59*time.Second + 900*time.Millisecond))
	sch := s.create(tenant, terms("@hourly"))
	s.pass(100 * time.Millisecond)
	for len(s.made(sch)) == 0 { // a second at most
		if err := s.db.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOnlyTheLastOccurrencesAreKept(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sch := s.create(s.tenant(), terms("* * * * *"))
	s.pass(250 * time.Minute)
	s.work()
	got, err := s.schedules.Occurrences(t.Context(), sch.ID, 1000)
	if err != nil || len(got) != schedules.KeptOccurrences || !got[0].At.Equal(noon.Add(250*time.Minute)) {
		t.Errorf("kept are %d (%v)", len(got), err)
	}
}
