//go:build chaos

package e2e

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
)

// What a process runs at each stage of a delivery, as its statements say.
const (
	claims  = "lease_owner = $"        // claimSQL and orderedSQL, which set it
	records = "archived as"            // recordSQL
	accepts = "insert into deliveries" // the intake's
)

// A dispatcher is killed at one point of a delivery's way after the other. What it held is sent again when its lease ends,
// by another process that has been there all the time.
func TestChaosDispatcherKilled(t *testing.T) {
	t.Parallel()
	const inFlight = 64
	for _, test := range []struct {
		when string
		how  how
		fits func(*wireConn, string) bool
	}{
		{"before its claim reached the database", holdBefore, statement(claims)},
		{"after its claim, before the first byte", holdReply, statement(claims)},
		{"after the answer, before the record", holdBefore, statement(records)},
		{"during the record", holdReply, statement(records)},
		{"before the record's commit", holdBefore, commitOf(records)},
		{"after the record's commit, without knowing", holdReply, commitOf(records)},
	} {
		t.Run(test.when, func(t *testing.T) {
			t.Parallel()
			s := ownDatabase(t, "kill -9 of a dispatcher "+test.when, settings{"DELIVERY_MAX_IN_FLIGHT": fmt.Sprint(inFlight)})
			w := newWire(t, s.database)
			s.settle(s.startAs("api", nil))
			victim := s.startAs("dispatcher", settings{"DATABASE_URL": w.through(s.database)})
			s.startAs("dispatcher,scheduler", nil)
			s.produce(4, load(4000))
			s.awaitReceived(load(1000))
			s.await(w.set(test.how, test.fits))
			victim.kill()
			s.verdict(inFlight)
		})
	}
}

// A dispatcher is killed while receivers hold its requests.
func TestChaosDispatcherKilledDuringThePost(t *testing.T) {
	t.Parallel()
	const inFlight = 64
	s := ownDatabase(t, "kill -9 of a dispatcher during the POSTs", settings{"DELIVERY_MAX_IN_FLIGHT": fmt.Sprint(inFlight)})
	victim := s.start(nil)
	s.settle(victim)
	held := newGate(t)
	s.answers(func(int, request) string {
		held.wait()
		return answer(http.StatusOK)
	})
	s.produce(4, load(1000))
	s.awaitReceived(inFlight / 2)
	victim.kill()
	held.open()
	s.answers(nil)
	s.use(s.start(nil))
	s.verdict(inFlight)
}

// Whoever takes requests is killed while producers enqueue, again and again. A producer that got no answer repeats its call
// with its key, and has made one event.
func TestChaosAPIKilled(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		when string
		how  how
		fits func(*wireConn, string) bool
	}{
		{"before an enqueue's commit", holdBefore, commitOf(accepts)},
		{"after an enqueue's commit, before the answer", holdReply, commitOf(accepts)},
	} {
		t.Run(test.when, func(t *testing.T) {
			t.Parallel()
			s := ownDatabase(t, "kill -9 of the API "+test.when+", three times", nil)
			w := newWire(t, s.database)
			s.startAs("dispatcher,scheduler", nil)
			api := s.startAs("api", settings{"DATABASE_URL": w.through(s.database)})
			s.settle(api)
			s.produce(8, load(4000))
			for n := range 3 {
				s.awaitAccepted(load(1000) * (n + 1))
				s.await(w.set(test.how, test.fits))
				api.kill()
				api = s.startAs("api", settings{"DATABASE_URL": w.through(s.database)})
				s.use(api)
			}
			s.verdict(0)
		})
	}
}

// All processes are killed at once, several times.
func TestChaosAllKilled(t *testing.T) {
	t.Parallel()
	const inFlight, times = 64, 4
	s := ownDatabase(t, "kill -9 of all processes, four times", settings{"DELIVERY_MAX_IN_FLIGHT": fmt.Sprint(inFlight)})
	one, two := s.start(nil), s.start(nil)
	s.settle(one)
	s.use(one, two)
	s.produce(4, load(4000))
	for n := range times {
		s.awaitAccepted(load(800) * (n + 1))
		one.kill()
		two.kill()
		one, two = s.start(nil), s.start(nil)
		s.use(one, two)
	}
	s.verdict(2 * times * inFlight)
}

// SIGTERM under load, to one process after the other as in a rolling restart: each ends with 0 within its bound, nothing is
// sent again, and nothing is counted as an attempt that was not made.
func TestChaosStopped(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t, "SIGTERM under load, four times", nil)
	p := s.start(nil)
	s.settle(p)
	s.produce(4, load(4000))
	for n := range 4 {
		s.awaitAccepted(load(800) * (n + 1))
		next := s.start(nil)
		s.use(next)
		p.stop() // fails the test if the process does not end, or not with 0
		p = next
	}
	s.verdict(0)
	var attempts int
	s.query(`SELECT count(*)::int FROM attempts`, &attempts)
	if got := s.host.count(); attempts != got {
		t.Errorf("%d attempts were recorded of %d requests", attempts, got)
	}
}

// SIGTERM while receivers hold requests for longer than a process waits: the attempts are cut off, cost nothing, and are made
// again.
func TestChaosStoppedWhileReceiversHang(t *testing.T) {
	t.Parallel()
	const inFlight = 16
	s := ownDatabase(t, "SIGTERM while receivers hang", settings{"DELIVERY_MAX_IN_FLIGHT": fmt.Sprint(inFlight)})
	p := s.start(settings{"DELIVERY_TIMEOUT": "2s"})
	s.settle(p)
	held := newGate(t)
	s.answers(func(int, request) string {
		held.wait()
		return answer(http.StatusOK)
	})
	s.produce(2, 100)
	s.awaitReceived(inFlight / 2)
	next := s.start(nil)
	s.use(next)
	p.stop()
	held.open()
	s.answers(nil)
	s.verdict(2 * inFlight) // what each of the two had in flight
	var worst int
	s.query(`SELECT coalesce(max(attempts), 0)::int FROM deliveries_finished`, &worst)
	if worst > 6 {
		t.Errorf("a delivery took %d attempts", worst)
	}
}

// A process is stopped with requests on their way for longer than its leases, and goes on when others have done its work. It
// changes nothing of that.
func TestChaosStoodStill(t *testing.T) {
	t.Parallel()
	const inFlight = 64
	s := ownDatabase(t, "SIGSTOP for longer than the lease, then SIGCONT", settings{"DELIVERY_MAX_IN_FLIGHT": fmt.Sprint(inFlight)})
	s.settle(s.startAs("api", nil))
	sleeper := s.startAs("dispatcher", nil)
	s.produce(4, load(4000))
	s.awaitReceived(load(2000))
	held := newGate(t)
	s.answers(func(int, request) string {
		held.wait()
		return answer(http.StatusOK)
	})
	s.awaitReceived(s.host.count() + inFlight/4) // so many are held, all of them by this process
	signal(t, sleeper, syscall.SIGSTOP)
	s.startAs("dispatcher,scheduler", nil)
	held.open()
	s.answers(nil)
	s.finish()
	s.calm() // by the other process: its leases have run out
	var taken int
	s.query(`SELECT count(*)::int FROM attempts WHERE outcome = 'unknown'`, &taken)
	if taken < inFlight/4 {
		t.Errorf("%d deliveries were taken from the process", taken)
	}
	var before, after string
	s.query(books, &before)
	signal(t, sleeper, syscall.SIGCONT)
	sleeper.stop() // it records what it had on its way, and ends as one that was never stopped
	s.query(books, &after)
	if before != after {
		t.Errorf("what the late process did changed deliveries:\n%s\n%s", before, after)
	}
	s.verdict(inFlight)
}

// books is all that is said of finished deliveries.
const books = `SELECT md5(coalesce(string_agg(f::text, ';' ORDER BY shard, id), '')) FROM deliveries_finished f`

func signal(t *testing.T, p *process, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
