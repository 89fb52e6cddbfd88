// Package intake accepts events: it checks them, makes repeating them safe, finds the endpoints that want them, and
// writes the event, its deliveries and its idempotency rows in one transaction. Whoever is answered without an error
// can rely on it: the commit came first. It is the one writer of the tables events and idempotency_keys, and it makes
// deliveries.
//
// Requests that come at the same time share a transaction (queue.go), since commits and round trips are what costs. None
// of them notices: each has its own answer, and what is wrong with one fails that one alone.
//
// It sends nothing. Payloads are bytes on the way in, in the table and on the way out: whatever looks into one, a schema of the
// event type or the filter of an endpoint, reads it for itself and changes nothing.
package intake

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/filter"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// Event is what a producer wants told to a tenant.
type Event struct {
	Type        string
	Payload     []byte // any bytes, none at all included. It must not be changed any more, even if Accept fails
	ContentType string // "": application/json
	UID         string // "": none
	GroupKey    string // "": none
	DeliverAt   *time.Time
	// EndpointIDs narrows the endpoints to these (ids or uids). One that does not subscribe to the type gets nothing all
	// the same: what a tenant wants to be told is the tenant's to say. Nil: all that subscribe.
	EndpointIDs []string
	Metadata    map[string]any
}

// Receipt is the answer to one accepted event. A repeated request gets an equal one.
type Receipt struct {
	ID         id.ID
	Type       string
	UID        string
	Status     string // as accepted: queued, scheduled, or succeeded when no endpoint wants it
	Deliveries int
	CreatedAt  time.Time
	DeliverAt  *time.Time // nil: at once, also when the time that was asked for had passed
}

// Deps are what an Intake works with.
type Deps struct {
	DB         *pgxpool.Pool
	IDs        *id.Generator
	Now        func() time.Time // the database's clock
	MaxPayload int64            // bytes; 0: 1 MiB
	// Wake is called after a commit with the deliveries that it made, if any. It must not block; nil: nobody to wake.
	Wake     func(made []dispatcher.NewDelivery)
	Accepted func(events int) // called after a commit with how many events it made; nil: nobody counts
	// Committed is called with how many events requests put into one transaction together; nil: nobody counts.
	Committed func(events int)
	// Tracer hears of what is enqueued; nil: nothing is traced.
	Tracer Tracer
	// Types knows the schemas of event types; nil: there are none.
	Types    *subscriptions.Catalogue
	Log      zerolog.Logger // of the fan-out of what producers enqueue within transactions; the zero one writes nothing
	Searches *pg.Searches   // bounds how many lists are read at once, with whatever else shares it; nil: a bound of its own
	// SearchBudget is how long a page may look for events; 0: 20 ms. A test that is not about it gives more.
	SearchBudget time.Duration
}

const (
	defaultMaxPayload = 1 << 20
	defaultConns      = 16
)

// Intake accepts events and reads them back. It is safe for concurrent use.
type Intake struct {
	db           *pgxpool.Pool
	ids          *id.Generator
	now          func() time.Time
	maxPayload   int64
	wake         func(made []dispatcher.NewDelivery)
	accepted     func(events int)
	searches     *pg.Searches
	searchBudget time.Duration
	types        *subscriptions.Catalogue
	tracer       Tracer
	filters      filter.Cache
	queue        *queue
	fan          fan
}

// New makes an Intake. It starts nothing: goroutines run only while requests are being worked on. Close waits for them.
func New(d Deps) *Intake {
	if d.MaxPayload <= 0 {
		d.MaxPayload = defaultMaxPayload
	}
	if d.Wake == nil {
		d.Wake = func([]dispatcher.NewDelivery) {}
	}
	if d.Accepted == nil {
		d.Accepted = func(int) {}
	}
	if d.SearchBudget <= 0 {
		d.SearchBudget = searchBudget
	}
	if d.Searches == nil {
		d.Searches = pg.NewSearches(defaultConns)
	}
	if d.Types == nil {
		d.Types = &subscriptions.Catalogue{}
	}
	i := &Intake{
		db: d.DB, ids: d.IDs, now: d.Now, maxPayload: d.MaxPayload, wake: d.Wake, accepted: d.Accepted, searches: d.Searches, searchBudget: d.SearchBudget,
		types: d.Types, tracer: d.Tracer, fan: newFan(d.Log),
	}
	i.queue = newQueue(i.commit)
	i.queue.tell = d.Committed
	return i
}

// Close takes nothing more, and returns when what was taken is answered. When ctx is over first, what is still going on
// is broken off: those callers are told that the store is unavailable.
func (i *Intake) Close(ctx context.Context) error { return i.queue.close(ctx) }

// Call is a request to accept events of one tenant, all or none.
type Call struct {
	Tenant    id.ID
	TenantUID string // if not "": the tenant has to have this uid still, or it is NotFound
	Key       string // the Idempotency-Key; "": none
	Events    []Event
	Batch     bool // pointers in faults lead into a batch (/events/0/type), also of one event
}

// Take carries a call out and returns after the commit. replayed says that nothing new was made, because the same was
// accepted before; the receipts are then equal to those of the first time. Two events in one call that have the same uid
// and content are one event, with two receipts.
//
// Faults: Invalid (with pointers such as /type, or /events/3/type for several events), TooLarge, NotFound (no such
// tenant; nothing was done), Unavailable (the store; nothing was done, unless the connection or ctx broke off during the
// commit: repeat with the same key to find out).
func (i *Intake) Take(ctx context.Context, c Call) (rs []Receipt, replayed bool, err error) {
	pointer := plainPointer
	if c.Batch || len(c.Events) != 1 {
		pointer = batchPointer
	}
	r, err := i.check(c.Tenant, c.Key, c.Events, pointer, i.types.Schemas())
	if err != nil {
		return nil, false, err
	}
	r.tenantUID = c.TenantUID
	return i.enqueue(ctx, r, c)
}

// Accept is Take for a tenant by its id.
func (i *Intake) Accept(ctx context.Context, tenant id.ID, key string, events []Event) (rs []Receipt, replayed bool, err error) {
	return i.Take(ctx, Call{Tenant: tenant, Key: key, Events: events})
}

// AcceptBatch is Accept with pointers into a batch (/events/0/type) for a batch of one too.
func (i *Intake) AcceptBatch(ctx context.Context, tenant id.ID, key string, events []Event) (rs []Receipt, replayed bool, err error) {
	return i.Take(ctx, Call{Tenant: tenant, Key: key, Events: events, Batch: true})
}

// AcceptTest takes one event for one endpoint alone, whatever that subscribes to and whatever a schema says. A disabled endpoint gets it when it is
// enabled; a dead one is a Conflict. A test has no uid: two tests are two.
func (i *Intake) AcceptTest(ctx context.Context, endpoint, tenant id.ID, ev Event) (Receipt, error) {
	ev.UID, ev.EndpointIDs = "", nil
	r, err := i.check(tenant, "", []Event{ev}, plainPointer, nil)
	if err != nil {
		return Receipt{}, err
	}
	r.only, r.tester = &endpoint, audit.ActorOf(ctx)
	rs, _, err := i.enqueue(ctx, r, Call{Tenant: tenant, Events: []Event{ev}})
	if err != nil {
		return Receipt{}, err
	}
	return rs[0], nil
}
