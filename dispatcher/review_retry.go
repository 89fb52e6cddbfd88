package dispatcher

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// fetchedSQL says whether a finished delivery t, which knows no lane, waits to be fetched when it comes back. Index endpoints_pkey.
const fetchedSQL = `(SELECT e.kind = 'pull' FROM endpoints e WHERE e.shard = @shard AND e.id = t.endpoint_id)`

// retrySQL makes a delivery due at once with its schedule afresh, if nobody has it in flight, its endpoint takes
// deliveries or will again, and its payload is still kept: a waiting one where it is, a finished one by moving it back
// (its attempts keep counting). It goes where first attempts go, ahead of retries, or to its place in its group. A replay that
// waits stays one. One statement decides, so two retries, a claim or a cancellation at the same moment
// cannot both have it. Indexes deliveries_pkey, deliveries_finished_pkey, endpoints_pkey, events_pkey.
const retrySQL = `
WITH waiting AS (
    UPDATE deliveries d SET state = 'pending', next_retry_at = @now, failures = 0, rescues = 0,
        lane = CASE WHEN d.lane = @pull THEN d.lane WHEN d.group_id IS NOT NULL THEN @ordered::smallint WHEN d.origin = @replayed THEN @retry::smallint
            ELSE @first::smallint END,
        origin = CASE WHEN d.origin = @replayed THEN d.origin END
    WHERE d.shard = @shard AND d.id = @id AND d.state IN ('scheduled', 'pending')
        AND EXISTS (SELECT FROM endpoints e WHERE e.shard = @shard AND e.id = d.endpoint_id AND e.status <> 'dead'
            AND e.deleted_at IS NULL)
        AND EXISTS (SELECT FROM events ev WHERE ev.shard = @shard AND ev.id = d.event_id)
    RETURNING d.tenant_id
), taken AS (
    DELETE FROM deliveries_finished d
    WHERE d.shard = @shard AND d.id = @id
        AND EXISTS (SELECT FROM endpoints e WHERE e.shard = @shard AND e.id = d.endpoint_id AND e.status <> 'dead'
            AND e.deleted_at IS NULL)
        AND EXISTS (SELECT FROM events ev WHERE ev.shard = @shard AND ev.id = d.event_id)
    RETURNING d.id, d.tenant_id, d.event_id, d.endpoint_id, d.attempts, d.last_outcome, d.last_status, d.group_id
), back AS (
    INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, attempts, next_retry_at, last_outcome,
        last_status, group_id, lane)
    SELECT @shard, t.id, t.tenant_id, t.event_id, t.endpoint_id, 'pending', t.attempts, @now, t.last_outcome,
        t.last_status, t.group_id, CASE WHEN t.group_id IS NOT NULL THEN @ordered::smallint WHEN ` + fetchedSQL + ` THEN @pull::smallint
            ELSE @first::smallint END
    FROM taken t
    RETURNING tenant_id
)
SELECT tenant_id FROM waiting UNION ALL SELECT tenant_id FROM back`

// actTries bounds how often an action is tried whose statement found nothing to act on although a look right after it
// says there was: the delivery changed in between.
const actTries = 3

// Retry makes a delivery due at once and starts its schedule afresh: one that waits, is scheduled or is held, and a
// finished one of any kind, which comes back (of a success that is sending it again). It is a conflict while the delivery
// is in flight, when its endpoint is dead or deleted, and when its payload is not kept any more.
func (k *Desk) Retry(ctx context.Context, dlv id.ID) (Delivery, error) {
	for range actTries {
		done, err := k.act(ctx, retrySQL, pgx.StrictNamedArgs{
			"shard": dlv.Shard, "id": dlv.N, "now": k.deps.Now(), "first": laneFirst, "ordered": laneOrdered,
			"retry": laneRetry, "pull": lanePull, "replayed": replayed,
		}, audit.Entry{Action: audit.DeliveryRetried, Object: audit.Thing{Kind: id.Delivery, ID: dlv}})
		if err != nil {
			return Delivery{}, fmt.Errorf("retry a delivery: %w", err)
		}
		if done {
			k.deps.Wake(dlv.Shard)
			return k.Get(ctx, dlv)
		}
		s, err := k.standing(ctx, dlv)
		if err != nil {
			return Delivery{}, err
		}
		if err := s.whyNoRetry(); err != nil {
			return Delivery{}, err
		}
	}
	return Delivery{}, fault.New(fault.Conflict, "the delivery is changing just now: try again")
}

// act runs a statement that does something to one thing and then gives its tenant's number, or finds nothing to do and gives
// no row, together with the entry of what it did.
func (k *Desk) act(ctx context.Context, sql string, args pgx.StrictNamedArgs, told audit.Entry) (done bool, err error) {
	err = pg.InTx(ctx, k.deps.DB, func(tx pgx.Tx) error {
		done = false
		tenant := id.ID{Shard: told.Object.ID.Shard}
		switch err := tx.QueryRow(ctx, sql, args).Scan(&tenant.N); {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err //nolint:wrapcheck // the caller says which act it was
		}
		done, told.Tenant = true, &tenant
		return audit.Write(ctx, tx, k.deps.IDs.Next, told)
	})
	return done, err //nolint:wrapcheck // as above
}

// standing is what decides whether a delivery can be acted on.
type standing struct {
	State          string // delivery_state
	EndpointStatus *string
	EndpointGone   bool
	EventKept      bool
}

// Indexes as in retrySQL.
const standingSQL = `
SELECT x.state::text, e.status::text AS endpoint_status, e.id IS NULL OR e.deleted_at IS NOT NULL AS endpoint_gone,
    EXISTS (SELECT FROM events ev WHERE ev.shard = @shard AND ev.id = x.event_id) AS event_kept
FROM (SELECT d.state, d.endpoint_id, d.event_id FROM deliveries d WHERE d.shard = @shard AND d.id = @id
    UNION ALL
    SELECT f.state, f.endpoint_id, f.event_id FROM deliveries_finished f WHERE f.shard = @shard AND f.id = @id) x
LEFT JOIN endpoints e ON e.shard = @shard AND e.id = x.endpoint_id`

func (k *Desk) standing(ctx context.Context, dlv id.ID) (standing, error) {
	rows, err := k.deps.DB.Query(ctx, standingSQL, pgx.StrictNamedArgs{"shard": dlv.Shard, "id": dlv.N})
	if err != nil {
		return standing{}, pg.Fault(fmt.Errorf("look at a delivery: %w", err))
	}
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[standing])
	if errors.Is(err, pgx.ErrNoRows) {
		return standing{}, noSuchDelivery()
	}
	if err != nil {
		return standing{}, pg.Fault(fmt.Errorf("look at a delivery: %w", err))
	}
	return s, nil
}

// whyNoRetry gives the conflict in words; nil when nothing stands in the way.
func (s standing) whyNoRetry() error {
	switch {
	case s.State == InFlight.String():
		return fault.New(fault.Conflict, "the delivery is in flight: wait for its attempt to end")
	case s.EndpointGone:
		return fault.New(fault.Conflict, "the delivery's endpoint is deleted")
	case s.EndpointStatus != nil && *s.EndpointStatus == "dead":
		return fault.New(fault.Conflict, "the delivery's endpoint is dead (its receiver answered 410 Gone): enable it first")
	case !s.EventKept:
		return fault.New(fault.Conflict, "the event's payload is not kept any more")
	}
	return nil
}
