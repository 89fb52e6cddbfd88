package watch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/pg"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *time.Time { at := noon.Add(-d); return &at }

// one is a process that was seen, and whose loops went round, so long ago.
func one(roles string, seen, worked time.Duration) Process {
	p := Process(pg.Process{About: pg.About{Roles: strings.Split(roles, ","), Host: "a", PID: 7}, SeenAt: *ago(seen)})
	if p.Has(Dispatcher) {
		p.DispatcherWorkedAt = ago(worked)
	}
	if p.Has(Scheduler) {
		p.SchedulerWorkedAt = ago(worked)
	}
	return p
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	usual := Bounds{MaxDueAge: 2 * time.Minute, MinDispatchers: 1, DeadAfter: 30 * time.Second, CanaryEvery: time.Minute}
	well := one("api,dispatcher,scheduler", time.Second, time.Second)
	scheduler := one("scheduler", time.Second, time.Second)
	const (
		late, canary           = "service.deliveries_late", "service.canary_failed"
		noScheduler, noSending = "service.no_scheduler", "service.no_dispatcher"
	)
	for name, c := range map[string]struct {
		facts  Facts
		bounds func(*Bounds)
		want   []string
		says   string // in the last one's detail
	}{
		"well": {facts: Facts{Processes: []Process{well}}},
		"nobody": {
			facts: Facts{}, want: []string{noScheduler, noSending}, says: "No process with the role dispatcher is at work.",
		},
		"a dispatcher that died": {
			facts: Facts{Processes: []Process{scheduler, one("dispatcher", 31*time.Second, 31*time.Second)}}, want: []string{noSending},
			says: "process 7 on a was last heard of 31s ago",
		},
		"one that hangs": {
			facts: Facts{Processes: []Process{scheduler, one("dispatcher", time.Second, 31*time.Second)}}, want: []string{noSending},
			says: "process 7 on a does not get on",
		},
		"one of two died":  {facts: Facts{Processes: []Process{well, one("dispatcher", time.Hour, time.Hour)}}},
		"at the bound":     {facts: Facts{Processes: []Process{one("dispatcher,scheduler", 30*time.Second, 30*time.Second)}}},
		"fewer than asked": {facts: Facts{Processes: []Process{well}}, bounds: func(b *Bounds) { b.MinDispatchers = 2 }, want: []string{noSending}, says: "1 with the role dispatcher are at work, fewer than 2"},
		"none is needed":   {facts: Facts{Processes: []Process{scheduler}}, bounds: func(b *Bounds) { b.MinDispatchers = 0 }},
		"a scheduler that hangs": {
			facts: Facts{Processes: []Process{one("dispatcher", time.Second, 0), one("scheduler", time.Second, time.Minute)}}, want: []string{noScheduler},
		},
		"another may be of an older version": {facts: Facts{Unknown: 1}},
		"late": {
			facts: Facts{Processes: []Process{well}, LateSince: ago(121 * time.Second), LateEndpoint: "ep_1"}, want: []string{late},
			says: "A delivery to ep_1 could have been sent for 2m1s and is not; watch.max_due_age is 2m.",
		},
		"late, also beside an older version": {facts: Facts{Unknown: 1, LateSince: ago(3 * time.Hour)}, want: []string{late}},
		"not late yet":                       {facts: Facts{Processes: []Process{well}, LateSince: ago(2 * time.Minute)}},
		"lateness does not matter":           {facts: Facts{Processes: []Process{well}, LateSince: ago(time.Hour)}, bounds: func(b *Bounds) { b.MaxDueAge = 0 }},
		"the canary came":                    {facts: Facts{Processes: []Process{well}, Canary: Canary{Since: *ago(3 * time.Minute), Problem: "late"}}},
		"it did not": {
			facts: Facts{Processes: []Process{well}, Canary: Canary{Since: *ago(181 * time.Second), Problem: "it was not accepted: no."}}, want: []string{canary},
			says: "No canary has come through for 3m1s: it was not accepted: no.",
		},
		"nobody sends it": {
			facts: Facts{Processes: []Process{well}, Canary: Canary{Since: *ago(time.Hour)}}, want: []string{canary},
			says: "no process with the role api sends them",
		},
		"there is none": {
			facts: Facts{Processes: []Process{well}, Canary: Canary{Since: *ago(time.Hour)}}, bounds: func(b *Bounds) { b.CanaryEvery = 0 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := usual
			if c.bounds != nil {
				c.bounds(&b)
			}
			var got []string
			detail := ""
			for _, f := range Evaluate(c.facts, b, noon) {
				got, detail = append(got, f.Kind.String()), f.Detail
			}
			if !slices.Equal(got, c.want) || !strings.Contains(detail, c.says) {
				t.Errorf("got %v: %s\nwant %v: %s", got, detail, c.want, c.says)
			}
		})
	}
}

// A finding counts when it is found twice, by who has looked for a while; it is over when it is not found.
func TestPatience(t *testing.T) {
	t.Parallel()
	const every = 10 * time.Second
	bad := []alert.ServiceFinding{{Kind: alert.ServiceNoDispatcher}}
	at := noon
	p := patience{every: every, settle: time.Minute}
	look := func(found []alert.ServiceFinding, wantRaised, wantCalm bool) {
		t.Helper()
		v := p.look(found, at)
		if calm := slices.Contains(v.calm, alert.ServiceNoDispatcher); (len(v.raise) == 1) != wantRaised || calm != wantCalm {
			t.Errorf("at %v: raised %v, calm %v", at.Sub(noon), v.raise, calm)
		}
		at = at.Add(every)
	}
	for range 6 {
		look(bad, false, false) // it has just begun
	}
	look(bad, true, false)
	look(nil, false, true)
	look(bad, false, false) // once
	look(bad, true, false)
	at = at.Add(3 * every) // the database was away, or the process stood still
	for range 6 {
		look(bad, false, false)
	}
	look(bad, true, false)
	at = at.Add(-time.Hour) // the clock was set
	look(bad, false, false)
}

func TestOverallIsTheWorst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p    Process
		want State
	}{
		"at work":                  {one("api,dispatcher", 0, time.Second), Working},
		"an api":                   {one("api", time.Second, 0), Working},
		"hangs":                    {one("api,dispatcher,scheduler", 0, time.Minute), Stuck},
		"dead":                     {one("api,dispatcher", time.Minute, 0), Dead},
		"says nothing of its loop": {Process(pg.Process{About: pg.About{Roles: []string{Dispatcher}}, SeenAt: noon}), Stuck},
	} {
		if got := c.p.Overall(30*time.Second, noon); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
