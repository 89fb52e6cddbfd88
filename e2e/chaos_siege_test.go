//go:build chaos || ops

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pgtest"
)

// siege is a load under which something is broken: producers that enqueue whatever happens, a receiver that counts by
// delivery id, and a look into the database at the end. What a producer got a 202 for is accepted, and has to arrive.
type siege struct {
	t        *testing.T
	fault    string // as it stands in the report
	database string // for the looks; Postrider may come to it another way
	env      settings
	gate     atomic.Pointer[script] // what the receiver does instead of answering 200; nil: nothing
	host     *receiver
	failed   atomic.Int64 // requests that the receiver answered so that they come again
	refused  atomic.Int64 // calls of producers that were answered with 503
	cut      atomic.Int64 // calls of producers that were not answered
	tenant   string
	urls     atomic.Pointer[[]string] // of the processes that take requests

	producers sync.WaitGroup
	stop      chan struct{}
	quitting  sync.Once
	mu        sync.Mutex
	accepted  map[string]int    // deliveries of an event
	payloads  map[string]string // by event
	unsure    map[string]bool
	news      chan struct{} // one more was accepted
}

const (
	siegePatience = 90 * time.Second // for everything to have been delivered after the last fault
	siegeLease    = "4s"
)

// load is how many events a test enqueues: fewer with -short.
func load(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

// besiege prepares a siege. The processes are the test's to start, with s.start.
func besiege(t *testing.T, fault, database string, env settings) *siege {
	t.Helper()
	s := &siege{
		t: t, fault: fault, database: database, stop: make(chan struct{}), accepted: map[string]int{},
		payloads: map[string]string{}, unsure: map[string]bool{}, news: make(chan struct{}, 1),
		env: settings{"DATABASE_URL": database, "DELIVERY_LEASE": siegeLease},
	}
	maps.Copy(s.env, env)
	s.host = receive(t, func(n int, r request) string {
		if play := s.gate.Load(); play != nil {
			return (*play)(n, r)
		}
		return answer(http.StatusOK)
	})
	return s
}

// ownDatabase is besiege on the tests' shared server.
func ownDatabase(t *testing.T, fault string, env settings) *siege {
	t.Helper()
	return besiege(t, fault, pgtest.URL(t), env)
}

// answers changes what the receiver does from now on; nil is a plain 200.
func (s *siege) answers(play script) {
	if play == nil {
		s.gate.Store(nil)
		return
	}
	s.gate.Store(&play)
}

// start starts a process of all roles; settings go over the siege's own.
func (s *siege) start(over settings) *process {
	s.t.Helper()
	return s.startAs("api,dispatcher,scheduler", over)
}

func (s *siege) startAs(roles string, over settings) *process {
	s.t.Helper()
	env := maps.Clone(s.env)
	maps.Copy(env, over)
	p := startAs(s.t, roles, env)
	s.t.Cleanup(p.stop)
	return p
}

// settle makes the tenant with two endpoints: each event goes to both.
func (s *siege) settle(p *process) {
	s.t.Helper()
	s.tenant = p.tenant()
	for n := range 2 {
		p.endpoint(s.tenant, s.host.url(fmt.Sprint("/", n)), nil)
	}
	s.use(p)
}

// use tells the producers which processes take requests.
func (s *siege) use(all ...*process) {
	var urls []string
	for _, p := range all {
		urls = append(urls, p.url)
	}
	s.urls.Store(&urls)
}

// produce has some producers enqueue until there are n accepted events in all, or until quit. Each repeats a call until it
// is answered with 202, with one idempotency key, as a good producer does.
func (s *siege) produce(producers, n int) {
	var next atomic.Int64
	for who := range producers {
		s.producers.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(n) {
					return
				}
				if !s.enqueue(fmt.Sprintf("%d-%d", who, i)) {
					return
				}
			}
		})
	}
}

// enqueue enqueues one event come what may; false: the siege was over before it was accepted.
func (s *siege) enqueue(key string) bool {
	for tried := false; ; tried = true {
		select {
		case <-s.stop:
			if tried {
				s.mu.Lock()
				s.unsure[key] = true
				s.mu.Unlock()
			}
			return false
		default:
		}
		urls := *s.urls.Load()
		p := &process{t: s.t, url: urls[rand.N(len(urls))]}
		got, err := p.try(http.MethodPost, "/v1/tenants/"+s.tenant+"/events/siege", "text/plain", []byte(key), "Idempotency-Key", key)
		switch {
		case err == nil && got.status == http.StatusAccepted:
			o := got.object(s.t)
			s.mu.Lock()
			s.accepted[o.text("id")] = o.number("deliveries")
			s.payloads[o.text("id")] = key
			s.mu.Unlock()
			select {
			case s.news <- struct{}{}:
			default:
			}
			return true
		case err == nil && got.status != http.StatusServiceUnavailable:
			s.t.Errorf("enqueue: status %d: %s", got.status, got.body)
			return false
		}
		if err != nil {
			s.cut.Add(1)
		} else {
			s.refused.Add(1)
		}
		<-time.After(20 * time.Millisecond) // what a producer does
	}
}

// count is how many events were accepted so far.
func (s *siege) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.accepted)
}

// awaitAccepted waits until so many events were accepted.
func (s *siege) awaitAccepted(n int) {
	s.t.Helper()
	late := time.After(siegePatience)
	for s.count() < n {
		select {
		case <-s.news:
		case <-late:
			s.t.Fatalf("%s: %d of %d events were accepted", s.fault, s.count(), n)
		}
	}
}

// awaitReceived waits until so many requests have come.
func (s *siege) awaitReceived(n int) {
	s.t.Helper()
	eventually(s.t, func() string {
		if got := s.host.count(); got < n {
			return fmt.Sprintf("%s: %d of %d requests have come", s.fault, got, n)
		}
		return ""
	})
}

// await waits for a trap to go off.
func (s *siege) await(tr *trap) {
	s.t.Helper()
	select {
	case <-tr.sprung:
	case <-time.After(patience):
		s.t.Fatalf("%s: no such statement came", s.fault)
	}
}

// quit ends the producers.
func (s *siege) quit() { s.quitting.Do(func() { close(s.stop) }) }

// finish waits for the producers; they end by themselves when all their events are accepted.
func (s *siege) finish() {
	s.t.Helper()
	done := make(chan struct{})
	go func() { s.producers.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(siegePatience):
		s.quit()
		<-done
		s.t.Fatalf("%s: producers could not enqueue", s.fault)
	}
}

// query looks into the database: one value.
func (s *siege) query(sql string, into ...any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.database)
	if err != nil {
		s.t.Fatalf("%s: look into the database: %v", s.fault, err)
	}
	defer conn.Close(ctx)
	if _, err = conn.Exec(ctx, `SET search_path = postrider`); err == nil {
		err = conn.QueryRow(ctx, sql).Scan(into...)
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		s.t.Fatalf("%s: look into the database: %v", s.fault, err)
	}
}

// verdict waits until everything is delivered and holds the books against each other: what was accepted, what the database
// says became of it, and what came to the receiver. twice is how many deliveries may have come more than once: those in
// flight when something was killed. What else than success became of payloads, the test says: "payload state reason".
func (s *siege) verdict(twice int, otherwise ...string) {
	s.t.Helper()
	s.finish()
	s.calm()
	parked := s.states(otherwise)
	came := map[string]map[string]int{} // by event and delivery
	for _, r := range s.host.requests() {
		event := r.get("webhook-id")
		if came[event] == nil {
			came[event] = map[string]int{}
		}
		came[event][r.get("postrider-delivery-id")]++
	}
	lost, again, deliveries := 0, 0, 0
	for event, n := range s.accepted {
		if parked[event] {
			delete(came, event)
			continue
		}
		deliveries += n
		lost += max(n-len(came[event]), 0)
		for _, times := range came[event] {
			again += times - 1
		}
		delete(came, event)
	}
	again -= int(s.failed.Load())
	if len(came) > len(s.unsure) {
		s.t.Errorf("%s: %d events came that nobody enqueued, or were made twice of one key", s.fault, len(came)-len(s.unsure))
	}
	if lost > 0 {
		s.t.Errorf("%s: %d of %d deliveries did not arrive", s.fault, lost, deliveries)
	}
	if again > twice {
		s.t.Errorf("%s: %d deliveries came again, %d can have been in flight", s.fault, again, twice)
	}
	note(line{s.fault, len(s.accepted), deliveries, lost, again, twice})
}

func (s *siege) unfinished() (n int) {
	s.t.Helper()
	s.query(`SELECT count(*)::int FROM deliveries`, &n)
	return n
}

// calm waits until nothing is unfinished.
func (s *siege) calm() {
	s.t.Helper()
	late := time.After(siegePatience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		left := s.unfinished()
		if left == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			var some string
			s.query(`SELECT string_agg(d::text, E'\n') FROM (SELECT * FROM deliveries LIMIT 5) d`, &some)
			s.t.Fatalf("%s: %d deliveries are not finished, such as\n%s", s.fault, left, some)
		}
	}
}

// states holds the finished deliveries against the events: none is missing, each one succeeded, or became what the test says
// of its payload, and none has an attempt too many in its history. It gives the events whose deliveries did not all succeed.
func (s *siege) states(otherwise []string) (parked map[string]bool) {
	s.t.Helper()
	var made, finished, strange int
	s.query(`SELECT coalesce(sum(cardinality(delivery_ids)), 0)::int FROM events`, &made)
	s.query(`SELECT count(*)::int FROM deliveries_finished`, &finished)
	if made != finished {
		s.t.Errorf("%s: %d deliveries were made, and %d are finished", s.fault, made, finished)
	}
	var buckets []int16
	var events []int64
	var ends, what []string
	s.query(`SELECT array_agg(shard), array_agg(event_id), array_agg(concat_ws(' ', state, reason))
	    FROM deliveries_finished WHERE state <> 'succeeded'`, &buckets, &events, &ends)
	s.mu.Lock()
	defer s.mu.Unlock()
	parked = map[string]bool{}
	for n, end := range ends {
		event := id.Event.Format(id.ID{Shard: buckets[n], N: events[n]})
		parked[event] = true
		what = append(what, s.payloads[event]+" "+end)
	}
	slices.Sort(what)
	if what = slices.Compact(what); !slices.Equal(what, otherwise) {
		s.t.Errorf("%s: not succeeded: %v", s.fault, what)
	}
	s.query(`SELECT count(*)::int FROM (SELECT f.id FROM deliveries_finished f LEFT JOIN attempts a ON a.shard = f.shard AND a.delivery_id = f.id
	    GROUP BY f.id, f.attempts HAVING count(DISTINCT a.attempt) <> f.attempts) x`, &strange)
	if strange > 0 {
		s.t.Errorf("%s: %d deliveries count other attempts than their history has", s.fault, strange)
	}
	return parked
}

// line is one of the report.
type line struct {
	fault                           string
	events, deliveries, lost, again int
	allowed                         int
}

var report struct {
	sync.Mutex
	lines []line
}

func note(l line) {
	report.Lock()
	report.lines = append(report.lines, l)
	report.Unlock()
}

func init() {
	atEnd = func() error {
		path := os.Getenv("POSTRIDER_CHAOS_REPORT")
		if path == "" || len(report.lines) == 0 {
			return nil
		}
		var b bytes.Buffer
		fmt.Fprintf(&b, "\n%-72s %7s %10s %5s %10s %7s\n", "fault", "events", "deliveries", "lost", "sent again", "at most")
		for _, l := range report.lines {
			fmt.Fprintf(&b, "%-72s %7d %10d %5d %10d %7d\n", l.fault, l.events, l.deliveries, l.lost, l.again, l.allowed)
		}
		return os.WriteFile(path, b.Bytes(), 0o600)
	}
}
