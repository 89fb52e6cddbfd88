package intake_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
)

func TestAGroupOfManyTenantsIsOneTransaction(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const tenants, each = 8, 5
	var asking sync.WaitGroup
	d.Gather(tenants*each, func() {
		for n := range tenants {
			ten := d.tenant(t)
			ep := d.endpoint(t, ten, "")
			for m := range each {
				asking.Go(func() {
					ev := order(n*each + m)
					if m%2 == 0 {
						ev.UID = fmt.Sprint("u-", m)
					}
					rs, replayed, err := d.Accept(t.Context(), ten, []string{"", "k"}[m/4], []intake.Event{ev})
					if err != nil || replayed {
						t.Error(replayed, err)
						return
					}
					if got := d.targets(t, rs[0].ID); len(got) != 1 || got[0] != ep.N {
						t.Errorf("deliveries to %v, want %v", got, ep.N)
					}
					if _, payload, err := d.Payload(t.Context(), ten, id.Event.Format(rs[0].ID)); err != nil || string(payload) != string(ev.Payload) {
						t.Errorf("payload %q, %v; want %q", payload, err, ev.Payload)
					}
				})
			}
		}
	})
	asking.Wait()
	if n := d.count(t, `SELECT count(DISTINCT xmin::text) FROM events`); n != 1 {
		t.Errorf("%d transactions", n)
	}
	if n := d.count(t, `SELECT count(*) FROM events`); n != tenants*each {
		t.Errorf("%d events", n)
	}
	d.whole(t)
}

// What costs is statements: a group over many buckets takes no more of them than one tenant alone.
func TestAGroupTakesAsManyStatementsAsARequest(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var tenants []id.ID
	for range 20 {
		ten := d.tenant(t)
		ep := d.endpoint(t, ten, "")
		d.exec(t, `UPDATE endpoints SET ordering = 'group' WHERE id = $1`, ep.N)
		tenants = append(tenants, ten)
	}
	ev := order(1)
	ev.UID, ev.GroupKey = "u", "g"
	statements := func(key string, tenants ...id.ID) (n int) {
		err := pg.InTx(t.Context(), d.db, func(tx pgx.Tx) (err error) {
			n, err = d.StatementsIn(t.Context(), tx, tenants, key, ev)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	alone, all := statements("k", tenants[0]), statements("k", tenants[1:]...)
	if alone == 0 || all != alone {
		t.Errorf("%d statements for one tenant, %d for 19", alone, all)
	}
	alone, all = statements("k", tenants[0]), statements("k", tenants...) // nothing new, and what was there is looked up
	if all != alone {
		t.Errorf("repeated, %d statements for one tenant, %d for 20", alone, all)
	}
	if n := d.count(t, `SELECT count(*) FROM events`); n != len(tenants) {
		t.Errorf("%d events", n)
	}
	d.whole(t)
}

// Everything that can be wrong with a request, in one group with good ones.
func TestInAGroupEachHasItsOwnAnswer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tries := d.Spoil("spoiled")
	ten := d.tenant(t)
	d.endpoint(t, ten, "a")
	used, conflicting := order(1), order(2)
	used.UID, conflicting.UID = "used", "used"
	first := d.accept(t, ten, "k", used)
	unknown := order(3)
	unknown.EndpointIDs, unknown.UID = []string{"b"}, "free"
	type outcome struct {
		tenant   id.ID
		key      string
		event    intake.Event
		code     fault.Code
		replayed bool
	}
	cases := []outcome{
		{ten, "", order(10), "", false},
		{d.ids.NewTenant(), "x", order(11), fault.NotFound, false},
		{ten, "", intake.Event{Type: "spoiled", UID: "s"}, fault.Invalid, false},
		{ten, "k", order(12), fault.Invalid, false},
		{ten, "k1", conflicting, fault.Invalid, false},
		{ten, "k2", used, "", true},
		{ten, "k3", unknown, fault.Invalid, false},
		{ten, "k4", order(13), "", false},
	}
	var asking sync.WaitGroup
	d.Gather(len(cases), func() {
		for _, c := range cases {
			asking.Go(func() {
				rs, replayed, err := d.Accept(t.Context(), c.tenant, c.key, []intake.Event{c.event})
				if code := fault.CodeOf(err); code != c.code || replayed != c.replayed {
					t.Errorf("%+v: %v (%s), replayed %v", c, err, code, replayed)
				}
				if c.replayed && err == nil && rs[0] != first[0] {
					t.Errorf("%+v, want %+v", rs, first)
				}
			})
		}
	})
	asking.Wait()
	if n := d.count(t, `SELECT count(*) FROM events`); n != 3 {
		t.Errorf("%d events, want 3", n)
	}
	if n := d.count(t, `SELECT count(*) FROM idempotency_keys`); n != 4 { // k and used, k2 for used, k4
		t.Errorf("%d idempotency rows, want 4", n)
	}
	// The first accept; the group, and two for each of the three times that it is halved; two that wait for another of
	// their key or uid.
	if n := tries(); n > 1+1+6+2 {
		t.Errorf("%d transactions were tried", n)
	}
	d.whole(t)
}

// A producer's transaction that stays open (FC-042) neither loses an event nor holds anybody up.
func TestAnOpenTransactionHoldsUpNobody(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	d, producer := deskOn(t, pool, 1), deskOn(t, pool, 2)
	ten := d.tenant(t)
	d.endpoint(t, ten, "")
	open, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	held := order(1)
	held.UID = "held"
	first, err := producer.InsertIn(t.Context(), open, ten, "k", []intake.Event{held})
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		rs       []intake.Receipt
		replayed bool
		err      error
	}
	same, other := make(chan answer, 1), make(chan answer, 1)
	var asking sync.WaitGroup
	d.Gather(52, func() {
		go func() {
			rs, replayed, err := d.Accept(t.Context(), ten, "k", []intake.Event{held})
			same <- answer{rs, replayed, err}
		}()
		go func() {
			ev := order(2)
			ev.UID = "held"
			rs, replayed, err := d.Accept(t.Context(), ten, "k2", []intake.Event{ev})
			other <- answer{rs, replayed, err}
		}()
		for n := range 50 {
			asking.Go(func() {
				if _, _, err := d.Accept(t.Context(), ten, fmt.Sprint("key-", n), []intake.Event{order(100 + n)}); err != nil {
					t.Error(err)
				}
			})
		}
	})
	asking.Wait() // while the transaction is still open
	if err := open.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-same; a.err != nil || !a.replayed || a.rs[0] != first[0] {
		t.Errorf("the same again: %+v, want %+v", a, first)
	}
	if a := <-other; true {
		wantPointers(t, a.err, "/uid")
	}
	if n := d.count(t, `SELECT count(*) FROM events`); n != 51 {
		t.Errorf("%d events", n)
	}
	d.whole(t)
}

func TestAfterARollbackTheNextOneWins(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	d, producer := deskOn(t, pool, 1), deskOn(t, pool, 2)
	ten := d.tenant(t)
	open, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, err := producer.InsertIn(t.Context(), open, ten, "k", []intake.Event{order(1)})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan []intake.Receipt, 1)
	go func() {
		rs, replayed, err := d.Accept(t.Context(), ten, "k", []intake.Event{order(2)})
		if err != nil || replayed {
			t.Error(replayed, err)
		}
		got <- rs
	}()
	for d.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 0 {
		runtime.Gosched() // until it waits for the open transaction
	}
	if err := open.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rs := <-got; len(rs) != 1 || rs[0] == first[0] {
		t.Errorf("receipts %+v", rs)
	}
	d.whole(t)
}

func TestADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	d := deskOn(t, pool, 1)
	ten := d.tenant(t)
	pool.Close()
	var asking sync.WaitGroup
	for n := range 64 {
		asking.Go(func() {
			_, _, err := d.Accept(t.Context(), ten, fmt.Sprint(n%8), []intake.Event{order(n)})
			wantCode(t, err, fault.Unavailable)
		})
	}
	asking.Wait()
	_, err = d.Event(t.Context(), ten, "u")
	wantCode(t, err, fault.Unavailable)
	_, err = d.Events(t.Context(), ten, intake.Filter{}, 1, id.ID{})
	wantCode(t, err, fault.Unavailable)
	_, _, err = d.Payload(t.Context(), ten, "u")
	wantCode(t, err, fault.Unavailable)
	_, err = d.DropExpiredKeys(t.Context(), 1, start)
	wantCode(t, err, fault.Unavailable)
}

// The database goes and comes back during a stream of events (FC-045): what was answered is there, and whoever heard
// that it failed can repeat with the same key and have one event.
func TestADatabaseThatGoesAndComesBack(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	d.endpoint(t, ten, "")
	admin, err := pgx.Connect(t.Context(), pgtest.AdminURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	database := admin.Config().Database
	const events, workers = 400, 8
	const breakOff = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`
	next, inVain := make(chan int), make(chan struct{})
	var failed sync.Once
	var streaming sync.WaitGroup
	for range workers {
		streaming.Go(func() {
			for n := range next {
				for {
					_, _, err := d.Accept(t.Context(), ten, fmt.Sprint(n), []intake.Event{order(n)})
					if err == nil {
						break
					}
					wantCode(t, err, fault.Unavailable)
					failed.Do(func() { close(inVain) })
				}
			}
		})
	}
	var altering sync.Mutex
	alter := func(sql string) {
		altering.Lock()
		defer altering.Unlock()
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Error(err)
		}
	}
	for n := range events {
		next <- n
		switch n {
		case events / 4:
			alter(`ALTER DATABASE ` + database + ` CONNECTION LIMIT 0`)
			alter(breakOff)
			streaming.Go(func() {
				<-inVain
				alter(`ALTER DATABASE ` + database + ` CONNECTION LIMIT -1`)
			})
		case events / 2, events * 3 / 4: // only the connections break
			alter(breakOff)
		}
	}
	close(next)
	streaming.Wait()
	if n := d.count(t, `SELECT count(DISTINCT payload) FROM events`); n != events {
		t.Errorf("%d events, want %d", n, events)
	}
	if n := d.count(t, `SELECT count(*) FROM events`); n != events {
		t.Errorf("%d events, want each once", n)
	}
	d.whole(t)
}

func TestACallerThatGoesLeavesNothingHalfMade(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	d.endpoint(t, ten, "")
	d.endpoint(t, ten, "")
	accepted := map[string]bool{}
	for n := range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for range n * 20 { // more and more time, from none at all to more than is needed
				runtime.Gosched()
			}
			cancel()
		}()
		ev := order(n)
		ev.UID = fmt.Sprint("u-", n)
		_, _, err := d.Accept(ctx, ten, fmt.Sprint(n), []intake.Event{ev, order(-n)})
		cancel()
		switch {
		case err == nil:
			accepted[ev.UID] = true
		case !errors.Is(err, context.Canceled):
			t.Fatal(err)
		}
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for uid := range accepted {
		if _, err := d.Event(t.Context(), ten, uid); err != nil {
			t.Errorf("%s was accepted: %v", uid, err)
		}
	}
	if n := d.count(t, `SELECT count(*) % 2 FROM events`); n != 0 {
		t.Error("half a batch is there")
	}
	d.whole(t)
	_, _, err := d.Accept(t.Context(), ten, "", []intake.Event{order(1)})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("after Close: %v", err)
	}
}
