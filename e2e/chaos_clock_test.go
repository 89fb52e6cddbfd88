//go:build chaos

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/pgcluster"
)

// otherClock is a server whose clock is off from this machine's by what set says, at once (libfaketime).
func otherClock(t *testing.T) (c *pgcluster.Cluster, set func(time.Duration)) {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(found) == 0 {
		t.Fatal("libfaketime is not there: scripts/deps chaos")
	}
	dir, err := os.MkdirTemp("", "postrider-clock-") //nolint:usetesting // that one is closed to PostgreSQL's user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "offset")
	set = func(off time.Duration) {
		t.Helper()
		next := file + ".new"
		if err := os.WriteFile(next, fmt.Appendf(nil, "%+d\n", int(off.Seconds())), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	set(0)
	c = durable(t, pgcluster.Options{Env: []string{
		"LD_PRELOAD=" + found[0], "FAKETIME_TIMESTAMP_FILE=" + file, "FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1",
	}})
	return c, set
}

// PostgreSQL's clock is minutes off from that of Postrider's machine, or is set while everything runs. Signatures carry the time
// of who sends; retries come when they should, by any clock; ids and their partitions go on; a process that starts after the
// step agrees with the others.
func TestChaosClocks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ first, then time.Duration }{
		"ahead by 7 minutes":                 {7 * time.Minute, 7 * time.Minute},
		"behind by 7 minutes":                {-7 * time.Minute, -7 * time.Minute},
		"set forwards by 7 minutes":          {0, 7 * time.Minute},
		"set backwards by 7 minutes":         {0, -7 * time.Minute},
		"set backwards from 7 minutes ahead": {7 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, set := otherClock(t)
			set(c.first)
			s := besiege(t, "PostgreSQL's clock "+name, cluster.URL(), settings{
				"DELIVERY_RETRY_SCHEDULE": "2s,2s,2s,2s,2s", "DELIVERY_RETRY_JITTER": "0",
			})
			p := s.start(nil)
			s.settle(p)
			s.failOnce()
			o := &ordered{siege: s, p: p}
			s.produce(1, 1_000_000) // until the end
			o.mark("a")
			s.awaitAccepted(load(1000))
			o.mark("b")
			set(c.then)
			o.mark("c")
			if c.first != c.then {
				p.notices()
				s.start(nil).notices() // at once, from the others
			}
			s.awaitAccepted(s.count() + load(1000))
			o.mark("d")
			s.quit()
			s.verdict(0)
			s.punctual(2 * time.Second)
			var strays int
			s.query(`SELECT (SELECT count(*) FROM events_default) + (SELECT count(*) FROM attempts_default) + (SELECT count(*) FROM deliveries_finished_default)`, &strays)
			if strays > 0 {
				t.Errorf("%s: %d rows are in no day's partition", s.fault, strays)
			}
		})
	}
}

// notices waits until the process has noticed that the database's clock was set.
func (p *process) notices() {
	p.t.Helper()
	eventually(p.t, func() string {
		if !strings.Contains(p.logged(), "clock.database_was_set") {
			return "the step is not noticed"
		}
		return ""
	})
}

// failOnce has every eighth delivery fail at first.
func (s *siege) failOnce() {
	var mu sync.Mutex
	seen := map[string]bool{}
	s.answers(func(_ int, r request) string {
		mu.Lock()
		defer mu.Unlock()
		delivery := r.get("postrider-delivery-id")
		first := !seen[delivery]
		seen[delivery] = true
		if first && len(seen)%8 == 0 {
			s.failed.Add(1)
			return answer(http.StatusInternalServerError)
		}
		return answer(http.StatusOK)
	})
}

// ordered enqueues now and then by one process: each event's id is greater than the one before.
type ordered struct {
	*siege
	p    *process
	last string
}

func (o *ordered) mark(key string) {
	o.t.Helper()
	got, err := o.p.try(http.MethodPost, "/v1/tenants/"+o.tenant+"/events/siege", "text/plain", []byte(key), "Idempotency-Key", key)
	if err != nil || got.status != http.StatusAccepted {
		o.t.Fatalf("enqueue %s: %d %s, %v", key, got.status, got.body, err)
	}
	made := got.object(o.t)
	o.mu.Lock()
	o.accepted[made.text("id")] = made.number("deliveries")
	o.mu.Unlock()
	if made.text("id") <= o.last {
		o.t.Errorf("%s: the id %s comes after %s", o.fault, made.text("id"), o.last)
	}
	o.last = made.text("id")
}

// punctual holds the requests against this machine's clock, which is the sending processes' too: what they are signed with,
// and how long after a failure the next came.
func (s *siege) punctual(retry time.Duration) {
	s.t.Helper()
	const (
		slack = 3 * time.Second  // two, and what is cut off of a second
		stall = 30 * time.Second // far from minutes, whatever else this machine does
	)
	last, early, late, wrong := map[string]time.Time{}, 0, 0, 0
	for _, r := range s.host.requests() {
		if signed, err := strconv.ParseInt(r.get("webhook-timestamp"), 10, 64); err != nil || r.at.Sub(time.Unix(signed, 0)).Abs() > slack {
			wrong++
		}
		delivery := r.get("postrider-delivery-id")
		if before, again := last[delivery]; again {
			switch gap := r.at.Sub(before); {
			case gap < retry*9/10:
				early++
			case gap > retry+stall:
				late++
			}
		}
		last[delivery] = r.at
	}
	if early+late+wrong > 0 {
		s.t.Errorf("%s: %d retries came early and %d late, %d signatures have a wrong time", s.fault, early, late, wrong)
	}
}
