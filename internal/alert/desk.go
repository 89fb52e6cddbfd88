package alert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// State is where an alert stands. Its value is the database's.
type State string

// The states: an acknowledged alert is one that somebody looks after; it gathers findings and resolves like an open one.
const (
	Open         State = "open"
	Acknowledged State = "acknowledged"
	Resolved     State = "resolved"
)

// States gives all of them.
func States() []State { return []State{Open, Acknowledged, Resolved} }

// Alert is one alert as people see it. One about the service itself has no tenant, no endpoint and no delivery.
type Alert struct {
	ID, Tenant, Endpoint id.ID
	Kind                 Kind
	State                State
	Count                int
	Detail               string
	LastDelivery         *id.ID
	OpenedAt, LastAt     time.Time
	AcknowledgedAt       *time.Time
	AcknowledgedBy       *string
	ResolvedAt           *time.Time
	ResolvedBy           *string // nil: a success did, or what was wrong with the service is well again
}

// Desk is where people look at alerts and close them.
type Desk struct {
	db    *pgxpool.Pool
	newID func() int64
	now   func() time.Time
	open  pg.Resting[map[Kind]int64]
}

// NewDesk makes a desk. newID gives a notice its id, now is the database's clock.
func NewDesk(db *pgxpool.Pool, newID func() int64, now func() time.Time) *Desk {
	return &Desk{db: db, newID: newID, now: now, open: pg.Resting[map[Kind]int64]{Factor: 10}}
}

// row is an alert as its table has it.
type row struct {
	Shard          int16
	ID             int64
	TenantID       int64
	EndpointID     int64
	Kind           string
	State          State
	Count          int
	Detail         string
	LastDeliveryID *int64
	OpenedAt       time.Time
	LastAt         time.Time
	AcknowledgedAt *time.Time
	AcknowledgedBy *string
	ResolvedAt     *time.Time
	ResolvedBy     *string
}

const columns = `a.shard, a.id, a.tenant_id, a.endpoint_id, a.kind::text AS kind, a.state::text AS state, a.count,
    a.detail, a.last_delivery_id, a.opened_at, a.last_at, a.acknowledged_at, a.acknowledged_by, a.resolved_at,
    a.resolved_by`

func (r row) alert() (Alert, error) {
	kind, err := ParseKind(r.Kind)
	if err != nil {
		return Alert{}, err
	}
	in := func(n int64) id.ID { return id.ID{Shard: r.Shard, N: n} }
	a := Alert{
		ID: in(r.ID), Tenant: in(r.TenantID), Endpoint: in(r.EndpointID), Kind: kind, State: r.State, Count: r.Count,
		Detail: r.Detail, OpenedAt: r.OpenedAt, LastAt: r.LastAt, AcknowledgedAt: r.AcknowledgedAt,
		AcknowledgedBy: r.AcknowledgedBy, ResolvedAt: r.ResolvedAt, ResolvedBy: r.ResolvedBy,
	}
	if r.LastDeliveryID != nil {
		delivery := in(*r.LastDeliveryID)
		a.LastDelivery = &delivery
	}
	return a, nil
}

const getSQL = `SELECT ` + columns + ` FROM alerts a WHERE a.shard = @shard AND a.id = @id`

// Get gives one alert, or a not_found fault.
func (d *Desk) Get(ctx context.Context, alert id.ID) (Alert, error) {
	return one(ctx, d.db, getSQL, getServiceSQL, pgx.StrictNamedArgs{"shard": alert.Shard, "id": alert.N})
}

// act runs a statement that changes one alert, of an endpoint or of the service, and gives it, together with the entry of what it did.
func (d *Desk) act(ctx context.Context, what audit.Action, sql, service string, args pgx.StrictNamedArgs) (a Alert, err error) {
	err = pg.InTx(ctx, d.db, func(tx pgx.Tx) error {
		if a, err = one(ctx, tx, sql, service, args); err != nil {
			return err
		}
		entry := audit.Entry{
			Action: what, Object: audit.Thing{Kind: id.Alert, ID: a.ID}, Details: audit.Details{"kind": a.Kind.String()},
		}
		if !a.Kind.OfService() {
			entry.Tenant, entry.Details["endpoint"] = &a.Tenant, id.Endpoint.Format(a.Endpoint)
		}
		return audit.Write(ctx, tx, d.newID, entry)
	})
	return a, err //nolint:wrapcheck // they say what they did
}

// one runs a statement about an alert of an endpoint; if there is no such one, and the bucket is that of the service's, the one
// about the service's.
func one(ctx context.Context, db pg.Querier, sql, service string, args pgx.StrictNamedArgs) (Alert, error) {
	a, err := oneOf(ctx, db, sql, args)
	if fault.Is(err, fault.NotFound) && args["shard"] == int16(serviceShard) {
		return oneOf(ctx, db, service, args)
	}
	return a, err
}

func oneOf(ctx context.Context, db pg.Querier, sql string, args pgx.StrictNamedArgs) (Alert, error) {
	rows, err := db.Query(ctx, sql, args)
	if err != nil {
		return Alert{}, pg.Fault(fmt.Errorf("read an alert: %w", err))
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[row])
	if errors.Is(err, pgx.ErrNoRows) {
		return Alert{}, fault.New(fault.NotFound, "no such alert")
	}
	if err != nil {
		return Alert{}, pg.Fault(fmt.Errorf("read an alert: %w", err))
	}
	return r.alert()
}

const acknowledgeSQL = `
UPDATE alerts a SET state = 'acknowledged', acknowledged_at = @now, acknowledged_by = @by
WHERE a.shard = @shard AND a.id = @id AND a.state = 'open'
RETURNING ` + columns

// Acknowledge notes that by (a key's name or a person) looks after an open alert. Of an acknowledged one it changes
// nothing; of a resolved one it is a conflict.
func (d *Desk) Acknowledge(ctx context.Context, alert id.ID, by string) (Alert, error) {
	a, err := d.act(ctx, audit.AlertAcknowledged, acknowledgeSQL, acknowledgeServiceSQL, pgx.StrictNamedArgs{
		"shard": alert.Shard, "id": alert.N, "now": d.now(), "by": plain(by),
	})
	if !fault.Is(err, fault.NotFound) {
		return a, err
	}
	a, err = d.Get(ctx, alert)
	if err == nil && a.State == Resolved {
		return Alert{}, fault.New(fault.Conflict, "the alert is resolved already")
	}
	return a, err
}

// A notice goes out with it, as when a success resolves an alert.
const resolveOneSQL = `
WITH a AS (
    UPDATE alerts a SET state = 'resolved', resolved_at = @now, resolved_by = @by, last_notice_id = @notice
    WHERE a.shard = @shard AND a.id = @id AND a.state <> 'resolved'
    RETURNING a.*
), told AS (
    INSERT INTO alert_notices (shard, id, alert_id, kind, about, detail, next_try_at)
    SELECT @shard, @notice, a.id, 'resolved', a.kind, a.detail, @now FROM a
)
SELECT ` + columns + ` FROM a`

// Resolve closes an alert by hand, whatever it is about. Of a resolved one it changes nothing.
func (d *Desk) Resolve(ctx context.Context, alert id.ID, by string) (Alert, error) {
	a, err := d.act(ctx, audit.AlertResolved, resolveOneSQL, resolveOneServiceSQL, pgx.StrictNamedArgs{
		"shard": alert.Shard, "id": alert.N, "now": d.now(), "by": plain(by), "notice": d.newID(),
	})
	if fault.Is(err, fault.NotFound) {
		return d.Get(ctx, alert)
	}
	return a, err
}

// Through alerts_open_key, all buckets at once: there are few.
const orphansSQL = `
SELECT a.shard, a.id FROM alerts a JOIN endpoints e ON e.shard = a.shard AND e.id = a.endpoint_id
WHERE a.state <> 'resolved' AND e.deleted_at IS NOT NULL
ORDER BY a.shard, a.id LIMIT 1000`

// ResolveDeleted closes the alerts about endpoints that are deleted, which no success will ever do, and returns how
// many.
func (d *Desk) ResolveDeleted(ctx context.Context) (int64, error) {
	rows, err := d.db.Query(ctx, orphansSQL)
	if err != nil {
		return 0, pg.Fault(fmt.Errorf("look for alerts of deleted endpoints: %w", err))
	}
	orphans, err := pgx.CollectRows(rows, pgx.RowToStructByPos[id.ID])
	if err != nil {
		return 0, pg.Fault(fmt.Errorf("look for alerts of deleted endpoints: %w", err))
	}
	for i, o := range orphans {
		if _, err := d.Resolve(ctx, o, "endpoint deleted"); err != nil {
			return int64(i), err
		}
	}
	return int64(len(orphans)), nil
}

// CountOpen counts the alerts that nobody looks after yet, as CountOpenByKind does: each page of the console shows how many they are.
func (d *Desk) CountOpen(ctx context.Context) (n int64, err error) {
	counts, err := d.CountOpenByKind(ctx, nil)
	for _, of := range counts {
		n += of
	}
	return n, err
}
