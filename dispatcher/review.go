package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// DeskDeps is what a Desk works with.
type DeskDeps struct {
	DB   *pgxpool.Pool
	IDs  *id.Generator     // for entries of the audit log: Retry, Cancel and CancelEvent need it
	Now  func() time.Time  // the database's clock
	Wake func(shard int16) // tells dispatchers of due work; called after the commit
	// Store is where Request reads what endpoints are signed for with. Nothing else needs it.
	Store *subscriptions.Store
	// Searches bounds how many lists are read at once, with whatever else shares it. Nil: a bound of the desk's own.
	Searches *pg.Searches
	// SearchBudget is how long a page may look for deliveries, so that the whole answer takes no more than 50 ms. 0: 30 ms. A test
	// that is not about it gives more, or it would be about how busy the machine is.
	SearchBudget time.Duration
}

// Desk is where deliveries are reviewed and acted on by hand: it reads both the unfinished and the finished ones, puts
// deliveries back to work and cancels them. It never touches one that is in flight: that belongs to whoever holds its
// lease.
type Desk struct {
	deps       DeskDeps
	unfinished pg.Resting[Unfinished]
	finished   pg.Resting[map[State]int64]
}

const defaultConns = 16 // database.max_conns

// NewDesk makes a desk.
func NewDesk(deps DeskDeps) *Desk {
	if deps.Searches == nil {
		deps.Searches = pg.NewSearches(defaultConns)
	}
	if deps.SearchBudget <= 0 {
		deps.SearchBudget = searchBudget
	}
	return &Desk{deps: deps, unfinished: pg.Resting[Unfinished]{Factor: 10}, finished: pg.Resting[map[State]int64]{Factor: 50}}
}

// Delivery is one delivery as people see it.
type Delivery struct {
	ID, Tenant, Event, Endpoint id.ID

	EventType     string // "" when the event is not kept any more
	State         State
	Reason        Reason // why it failed or was cancelled; of a held one, why its endpoint is disabled
	Attempts      int
	Failures      int        // of them since the schedule was last started: its place in the schedule; of a finished one, not known any more, Attempts
	NextAttemptAt *time.Time // nil when none is to come by itself
	LastOutcome   *Outcome   // nil: never tried
	LastStatus    *int
	CreatedAt     time.Time
	FinishedAt    *time.Time
}

// The two ends of every statement that shows deliveries: between them comes a query x with the columns of
// unfinishedColumns or finishedColumns. Whether a delivery is held is said by its endpoint (endpoints_pkey). What type its
// event has is read with a single delivery (events_pkey, LIMIT 1 so that each look-up finds its own partition), and
// afterwards of a list: each statement that names events is planned for the partitions of all days.
const (
	shownColumns = `
SELECT x.shard, x.id, x.tenant_id, x.event_id, x.endpoint_id,
    CASE WHEN x.state NOT IN ('scheduled', 'pending') THEN x.state::text
         WHEN ep.status = 'disabled' THEN 'held'
         WHEN x.state = 'scheduled' AND x.next_retry_at > @now THEN 'scheduled'
         ELSE 'pending' END AS state,
    coalesce(x.reason, ep.status_reason, '') AS reason, x.attempts, x.failures, x.next_retry_at, x.last_outcome::text,
    x.last_status, x.finished_at`
	shownEndpoint = `) x
LEFT JOIN endpoints ep ON ep.shard = x.shard AND ep.id = x.endpoint_id`
	shownOrder = `
ORDER BY x.id DESC, x.shard DESC`

	shownHead = shownColumns + `, coalesce(ev.type, '') AS event_type
FROM (`
	shownTail = shownEndpoint + `
LEFT JOIN LATERAL (SELECT e.type FROM events e WHERE e.shard = x.shard AND e.id = x.event_id LIMIT 1) ev ON true` + shownOrder

	listedHead = shownColumns + `, '' AS event_type
FROM (`
	listedTail = shownEndpoint + shownOrder

	unfinishedColumns = `d.shard, d.id, d.tenant_id, d.event_id, d.endpoint_id, d.state, d.attempts, d.failures, d.last_outcome,
    d.last_status, d.next_retry_at, NULL::text AS reason, NULL::timestamptz AS finished_at`
	finishedColumns = `d.shard, d.id, d.tenant_id, d.event_id, d.endpoint_id, d.state, d.attempts, d.attempts AS failures, d.last_outcome,
    d.last_status, NULL::timestamptz AS next_retry_at, d.reason, d.finished_at`
)

// deliveryRow is a row of a statement that shows deliveries.
type deliveryRow struct {
	Shard       int16
	ID          int64
	TenantID    int64
	EventID     int64
	EndpointID  int64
	EventType   string
	State       string
	Reason      Reason
	Attempts    int
	Failures    int
	NextRetryAt *time.Time
	LastOutcome *string
	LastStatus  *int
	FinishedAt  *time.Time
}

func (r deliveryRow) delivery() (Delivery, error) {
	in := func(n int64) id.ID { return id.ID{Shard: r.Shard, N: n} }
	state, err := ParseState(r.State)
	if err != nil {
		return Delivery{}, err
	}
	d := Delivery{
		ID: in(r.ID), Tenant: in(r.TenantID), Event: in(r.EventID), Endpoint: in(r.EndpointID), EventType: r.EventType,
		State: state, Attempts: r.Attempts, Failures: r.Failures, LastStatus: r.LastStatus, CreatedAt: id.TimeOf(r.ID), FinishedAt: r.FinishedAt,
	}
	if state == Held || state == StateFailed || state == StateCancelled {
		d.Reason = r.Reason
	}
	if state == Scheduled || state == Pending {
		d.NextAttemptAt = r.NextRetryAt
	}
	if r.LastOutcome != nil {
		outcome, err := ParseOutcome(*r.LastOutcome)
		if err != nil {
			return Delivery{}, err
		}
		d.LastOutcome = &outcome
	}
	return d, nil
}

// Indexes deliveries_pkey and deliveries_finished_pkey: the delivery is in one of the two.
const getDeliverySQL = shownHead + `
    SELECT ` + unfinishedColumns + ` FROM deliveries d WHERE d.shard = @shard AND d.id = @id
    UNION ALL
    SELECT ` + finishedColumns + ` FROM deliveries_finished d WHERE d.shard = @shard AND d.id = @id` + shownTail

// Get gives one delivery, or a not_found fault.
func (k *Desk) Get(ctx context.Context, dlv id.ID) (Delivery, error) {
	rows, err := k.deps.DB.Query(ctx, getDeliverySQL, pgx.StrictNamedArgs{
		"shard": dlv.Shard, "id": dlv.N, "now": k.deps.Now(),
	})
	if err != nil {
		return Delivery{}, pg.Fault(fmt.Errorf("read a delivery: %w", err))
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[deliveryRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return Delivery{}, noSuchDelivery()
	}
	if err != nil {
		return Delivery{}, pg.Fault(fmt.Errorf("read a delivery: %w", err))
	}
	return row.delivery()
}

func noSuchDelivery() error { return fault.New(fault.NotFound, "no such delivery") }
