//go:build chaos

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// failover is a siege on a cluster of Patroni's, with two processes that know both of its servers.
type failover struct {
	*siege
	*patroni
	t       *testing.T
	numbers string // of the processes
}

const failoverInFlight = 64

// newFailover has producers enqueue, some 150 events a second, until the verdict; receivers take their time, so that there is
// always something in flight.
func newFailover(t *testing.T, fault string) *failover {
	t.Helper()
	c := newPatroni(t)
	s := besiege(t, fault, c.url("postrider", "postrider"), settings{"DELIVERY_MAX_IN_FLIGHT": fmt.Sprint(failoverInFlight)})
	one := s.start(nil)
	two := s.start(nil)
	s.settle(one)
	s.use(one, two)
	s.answers(func(int, request) string {
		<-time.After(100 * time.Millisecond)
		return answer(http.StatusOK)
	})
	for who := range 4 {
		s.producers.Go(func() {
			for n := 0; s.enqueue(fmt.Sprintf("%d-%d", who, n)); n++ {
				<-time.After(25 * time.Millisecond)
			}
		})
	}
	f := &failover{siege: s, patroni: c, t: t}
	f.query(numbersSQL, &f.numbers)
	f.more()
	return f
}

// more waits until some more events have been accepted.
func (f *failover) more() {
	f.t.Helper()
	f.awaitAccepted(f.count() + 300)
}

// during breaks something under load, and says for how long nothing was accepted.
func (f *failover) during(what string, broken func()) {
	f.t.Helper()
	over := make(chan struct{})
	longest := make(chan time.Duration)
	go func() {
		var most time.Duration
		before, since := f.count(), time.Now()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				if n := f.count(); n != before {
					before, since = n, now
				}
				most = max(most, time.Since(since))
			case <-over:
				longest <- most
				return
			}
		}
	}()
	broken()
	f.more()
	close(over)
	f.t.Logf("%s: nothing was accepted for %v", what, (<-longest).Round(10*time.Millisecond))
}

const (
	numbersSQL   = `SELECT string_agg(node || ' ' || owner, ', ' ORDER BY node) FROM nodes WHERE leased_until > now()`
	listenersSQL = `SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'listen %'`
)

// settled ends the load and gives the verdict: in each failover what two processes have in flight may come again, and with it
// what they had claimed by commits that the standby did not get. The processes have lived on by themselves.
func (f *failover) settled(failovers int) {
	f.t.Helper()
	close(f.stop)
	f.verdict(failovers * 2 * failoverInFlight)
	f.asWritten()
	var numbers string
	if f.query(numbersSQL, &numbers); numbers != f.numbers {
		f.t.Errorf("the processes' numbers were %s and are %s", f.numbers, numbers)
	}
	eventually(f.t, func() string {
		var listeners int
		if f.query(listenersSQL, &listeners); listeners != 2 {
			return fmt.Sprintf("of 2 processes %d listen to the new primary", listeners)
		}
		return ""
	})
}

// The primary's machine is gone in one moment. The synchronous standby has all that was accepted and takes over; the old
// primary comes back as its standby; then the new one is lost, too.
func TestChaosFailover(t *testing.T) {
	t.Parallel()
	fault, times := "the primary's machine is lost, its standby takes over; and back", 2
	if testing.Short() {
		fault, times = "the primary's machine is lost, its standby takes over", 1
	}
	f := newFailover(t, fault)
	for n := range times {
		primary, standby := f.whole()
		f.during(fmt.Sprint("loss of ", primary.name), func() {
			primary.lose()
			f.ledBy(standby)
		})
		if n+1 < times {
			primary.start()
		}
	}
	f.settled(times)
}

// The operator has the standby take over and back, as for an upgrade of a machine.
func TestChaosFailoverSwitchover(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("only in the full form")
	}
	f := newFailover(t, "switchover to the standby and back")
	const times = 2
	for range times {
		primary, standby := f.whole()
		f.during("switchover to "+standby.name, func() {
			wish := map[string]string{"leader": primary.name, "candidate": standby.name}
			if err := f.rest(primary, http.MethodPost, "/switchover", wish, nil); err != nil {
				t.Fatal(err)
			}
			f.ledBy(standby)
		})
	}
	f.whole()
	f.settled(times)
}

// The primary stands still for longer than its leader's key lives, and wakes up as one that does not know that it was
// replaced. Whatever it is asked then must not be taken for accepted.
func TestChaosFailoverStoodStill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("only in the full form")
	}
	for _, test := range []struct {
		fault  string
		freeze func(m *machine) []int
	}{
		{"the primary's machine freezes and thaws", (*machine).freeze},
		// Sessions that are there go on, without a standby that their commits could reach, and nobody can connect.
		{"Patroni and the postmaster freeze and thaw, sessions go on", func(m *machine) []int {
			both := []int{m.pid, m.postmaster()}
			signalAll(m.t, syscall.SIGSTOP, both)
			return both
		}},
	} {
		t.Run(test.fault, func(t *testing.T) {
			t.Parallel()
			f := newFailover(t, test.fault)
			primary, standby := f.whole()
			var frozen []int
			f.during("freeze of "+primary.name, func() {
				frozen = test.freeze(primary)
				f.ledBy(standby)
			})
			f.during("thaw of "+primary.name, func() {
				signalAll(t, syscall.SIGCONT, frozen)
				f.whole()
			})
			f.settled(2)
		})
	}
}

func signalAll(t *testing.T, s syscall.Signal, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
	}
}

// asWritten asks what docs/failover.md has operators ask, whether anything is missing.
func (f *failover) asWritten() {
	f.t.Helper()
	text, err := os.ReadFile("../docs/failover.md")
	if err != nil {
		f.t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```sql\n")
	block, _, _ = strings.Cut(block, "```")
	questions := strings.Split(strings.TrimSpace(block), ";\n")
	if len(questions) != 2 {
		f.t.Fatalf("docs/failover.md asks %d questions", len(questions))
	}
	for _, sql := range questions {
		missing := -1
		f.siege.query(strings.TrimSuffix(sql, ";"), &missing)
		if missing != 0 {
			f.t.Errorf("%d, want 0:\n%s", missing, sql)
		}
	}
}
