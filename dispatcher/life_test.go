package dispatcher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// The property test of the life of deliveries: random sequences of answers, crashes, acts of operators and steps of the clock,
// on the real dispatcher and a real PostgreSQL, held against a model after each step. The model does not say which due
// deliveries a claim takes (windows, breakers and pauses decide that), only which it may take; what then becomes of them it
// says exactly. At the end, with good answers and time, everything ends that is not held.

// lifeSchedule and lifeDisable let a sequence of some dozens of steps come to every end.
var lifeSchedule = []time.Duration{time.Minute, 10 * time.Minute}

const (
	lifeDisable = 2 * time.Hour // every attempt failed for that long: the endpoint is switched off
	lifeJitter  = 0.1
	// Attempts run by the machine's clock, and on a busy machine a sequence may take a while: none is to run out of time.
	lifeTimeout = 9 * time.Minute
	lifeLease   = 20 * time.Minute
)

// subject is what an endpoint should be.
type subject struct {
	id       id.ID
	tenant   subscriptions.Tenant
	status   subscriptions.Status
	reason   string
	deleted  bool
	failures int
	since    time.Time // failing_since; zero: it is not
	version  int       // as the database has it
	paused   time.Time // likewise
	ordered  bool
}

func (s *subject) mayReceive() bool { return s.status == subscriptions.Enabled && !s.deleted }
func (s *subject) isOver() bool     { return s.status == subscriptions.Dead || s.deleted }

// life is what a delivery should be.
type life struct {
	id       id.ID
	event    id.ID
	endpoint *subject
	group    int64

	state    State // scheduled also when its time has come: the row says so until it is claimed
	reason   Reason
	attempts int
	failures int
	rescues  int
	due      time.Time // not before; held against the database's within the bounds of jitter
	latest   time.Time

	owner    int64 // in flight: of the lease
	leasedTo time.Time
	mark     Reason // in flight: what it was cancelled for
	seen     int    // requests that were recorded with their outcome
	lost     int    // attempts that were recorded as unknown
}

func (l *life) waits() bool { return l.state == Pending || l.state == Scheduled }

// flight is a request that a receiver has, with what was true when it was claimed.
type flight struct {
	*life
	attempt  int
	owner    int64
	version  int
	since    time.Time
	answer   told
	receiver chan told
}

// play is one sequence.
type play struct {
	*rapid.T
	w       *world
	met     map[string]int
	ctx     context.Context //nolint:containedctx // of one sequence
	tenants []subscriptions.Tenant
	subject []*subject
	lives   []*life
	workers []*worker // two that live throughout
	stuck   []*worker // with requests that their receivers have not answered
}

var errNoLife = fmt.Errorf("no such delivery in the model")

func TestTheLifeOfDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(200))
	met := map[string]int{} // how often the sequences came to what
	holds(t, func(t *rapid.T) { playOnce(t, w, met) })
	for _, what := range slices.Sorted(maps.Keys(met)) {
		t.Logf("%6d %s", met[what], what)
	}
}

func playOnce(rt *rapid.T, w *world, met map[string]int) {
	ctx, cancel := context.WithCancel(w.Context())
	p := &play{T: rt, w: w, ctx: ctx, met: met}
	defer p.leave(cancel)
	p.begin()
	for range rapid.IntRange(20, 60).Draw(rt, "steps") {
		act := one(p, acts, "act")
		p.met["act: "+act.name]++
		act.do(p)
		p.check()
	}
	p.finish()
	for _, l := range p.lives {
		p.met[fmt.Sprintf("end: %s %s", l.state, l.reason)]++
	}
	for _, s := range p.subject {
		p.met[fmt.Sprintf("endpoint: %s %s, deleted %v", s.status, s.reason, s.deleted)]++
	}
}

// begin empties the tables, which a sequence that failed may have left full, and makes tenants, endpoints and some deliveries.
func (p *play) begin() {
	p.must(p.w.db.Exec(p.ctx, `TRUNCATE deliveries, deliveries_finished, attempts, events, endpoint_pace, alert_notices, alerts,
		endpoint_secrets, endpoint_versions, endpoints, api_keys, tenants CASCADE`))
	p.w.mu.Lock()
	p.w.now = noon
	p.w.mu.Unlock()
	for i := range 2 {
		tenant, err := p.w.store.CreateTenant(p.ctx, subscriptions.NewTenant{Name: fmt.Sprint("tenant ", i)})
		p.must(nil, err)
		p.tenants = append(p.tenants, tenant)
	}
	for i := range 3 {
		n := subscriptions.NewEndpoint{URL: "https://receiver.test/hook"}
		if i == 1 {
			n.Ordering = subscriptions.OrderingGroup
		}
		tenant := p.tenants[i/2]
		e, _, err := p.w.store.CreateEndpoint(p.ctx, tenant, n)
		p.must(nil, err)
		p.subject = append(p.subject, &subject{
			id: e.ID, tenant: tenant, status: subscriptions.Enabled, version: e.Version, ordered: i == 1,
		})
	}
	for range 2 {
		p.workers = append(p.workers, p.newWorker(rapid.Int64Range(-600, 600).Draw(p.T, "wall clock off by")))
	}
	for range 4 {
		enqueue(p)
	}
	p.check()
}

func (p *play) must(_ any, err error) {
	if err != nil {
		p.Fatal(err)
	}
}

// leave lets go of every goroutine that the sequence began.
func (p *play) leave(cancel context.CancelFunc) {
	cancel()
	for _, w := range append(p.workers, p.stuck...) {
		w.senders.Wait()
		w.tasks.Wait()
		for len(w.results) > 0 {
			<-w.results
		}
	}
}

// one draws a thing of a list.
func one[T any](p *play, of []T, what string) T { return of[evenly(p.T, len(of), what)] }

// evenly draws a number below n, each as likely as the others; rapid itself likes small ones. What is found is made smaller
// towards 0.
func evenly(t *rapid.T, n int, what string) int {
	const golden = 0x9e3779b97f4a7c15
	x := rapid.Uint64().Draw(t, what) * golden
	return int((x ^ x>>29) % uint64(n))
}

// find gives the life of a delivery.
func (p *play) find(n id.ID) (*life, error) {
	at := slices.IndexFunc(p.lives, func(l *life) bool { return l.id == n })
	if at < 0 {
		return nil, errNoLife
	}
	return p.lives[at], nil
}

// enqueue makes an event with a delivery to one endpoint or to two of a tenant, now or for later.
func enqueue(p *play) {
	to := one(p, p.subject, "endpoint")
	if to.isOver() || len(p.lives) >= 24 {
		return
	}
	event, now := id.ID{Shard: to.id.Shard, N: p.w.ids.Next()}, p.w.clock()
	scheduled := evenly(p.T, 5, "later") == 4
	due := now
	if scheduled {
		due = now.Add(time.Duration(rapid.IntRange(1, 3600).Draw(p.T, "seconds")) * time.Second)
	}
	var group int64
	if to.ordered {
		group = int64(1 + evenly(p.T, 2, "group"))
	}
	var news []NewDelivery
	var ids []int64
	for _, s := range p.subject {
		both := s != to && s.tenant.ID == to.tenant.ID && !s.isOver() && !to.ordered && !s.ordered && rapid.Bool().Draw(p.T, "both")
		if s != to && !both {
			continue
		}
		l := &life{id: p.w.ids.In(s.id.Shard), event: event, endpoint: s, group: group, state: Pending, due: due, latest: due}
		if scheduled {
			l.state = Scheduled
		}
		p.lives = append(p.lives, l)
		ids = append(ids, l.id.N)
		news = append(news, NewDelivery{
			Shard: s.id.Shard, ID: l.id.N, Tenant: s.tenant.ID.N, Event: event.N, Endpoint: s.id.N, DueAt: due, Scheduled: scheduled, Group: group,
		})
	}
	p.must(nil, pg.InTx(p.ctx, p.w.db, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`INSERT INTO events (shard, id, tenant_id, type, content_type, payload, delivery_ids)
			VALUES ($1, $2, $3, 'order.paid', 'application/json', '{}', $4)`, event.Shard, event.N, to.tenant.ID.N, ids)
		QueueNew(b, news)
		return tx.SendBatch(p.ctx, b).Close()
	}))
}
