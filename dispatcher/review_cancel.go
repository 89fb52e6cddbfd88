package dispatcher

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Every cancellation moves what it picked to deliveries_finished in one statement. It picks only what is not in flight,
// by a lock, so that a claim at the same moment either has it first or finds it gone. picked is a query that locks rows
// of deliveries and gives their ids. What is in flight can at most be marked (cancel_reason): it ends with its attempt.
const (
	cancelHead = `
WITH picked AS MATERIALIZED (`
	cancelTail = `
), gone AS (
    DELETE FROM deliveries d USING picked p WHERE d.shard = @shard AND d.id = p.id
    RETURNING d.id, d.tenant_id, d.event_id, d.endpoint_id, d.attempts, d.last_outcome, d.last_status, d.group_id
), moved AS (
    INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, reason, last_outcome,
        last_status, finished_at, group_id)
    SELECT @shard, g.id, g.tenant_id, g.event_id, g.endpoint_id, 'cancelled', g.attempts, @reason, g.last_outcome,
        g.last_status, @now, g.group_id
    FROM gone g
    RETURNING id, tenant_id
)`
)

// Index deliveries_pkey.
const cancelSQL = cancelHead + `
    SELECT d.id FROM deliveries d
    WHERE d.shard = @shard AND d.id = @id AND d.state IN ('scheduled', 'pending') FOR UPDATE` + cancelTail + `
SELECT tenant_id FROM moved`

// Cancel ends a delivery that is not finished, for the reason given. It is a conflict while it is in flight and when it
// is finished already.
func (k *Desk) Cancel(ctx context.Context, dlv id.ID, reason Reason) (Delivery, error) {
	for range actTries {
		done, err := k.act(ctx, cancelSQL, pgx.StrictNamedArgs{
			"shard": dlv.Shard, "id": dlv.N, "now": k.deps.Now(), "reason": string(reason),
		}, audit.Entry{Action: audit.DeliveryCancelled, Object: audit.Thing{Kind: id.Delivery, ID: dlv}})
		if err != nil {
			return Delivery{}, fmt.Errorf("cancel a delivery: %w", err)
		}
		if done {
			return k.Get(ctx, dlv)
		}
		s, err := k.standing(ctx, dlv)
		if err != nil {
			return Delivery{}, err
		}
		switch s.State {
		case Scheduled.String(), Pending.String(): // it came back in between
		case InFlight.String():
			return Delivery{}, fault.New(fault.Conflict, "the delivery is in flight: wait for its attempt to end")
		default:
			return Delivery{}, fault.New(fault.Conflict, "the delivery is finished already: it %s",
				map[string]string{"succeeded": "succeeded", "failed": "failed", "cancelled": "was cancelled"}[s.State])
		}
	}
	return Delivery{}, fault.New(fault.Conflict, "the delivery is changing just now: try again")
}

// The event names its deliveries: index deliveries_pkey; in the order of ids, so that two cancellations do not lock each other out.
const cancelEventSQL = cancelHead + `
    SELECT d.id FROM deliveries d
    WHERE d.shard = @shard AND d.id = ANY (` + ofEvent + `) AND d.state IN ('scheduled', 'pending')
    ORDER BY d.id FOR UPDATE` +
	cancelTail + `, marked AS (
    UPDATE deliveries d SET cancel_reason = @reason
    WHERE d.shard = @shard AND d.id = ANY (` + ofEvent + `) AND d.state = 'in_flight'
    RETURNING d.tenant_id
)
SELECT (SELECT count(*) FROM moved), (SELECT count(*) FROM marked),
    coalesce((SELECT max(tenant_id) FROM moved), (SELECT max(tenant_id) FROM marked), 0)`

// CancelEvent cancels an event's deliveries, and says how many it cancelled at once and how many are in flight: those end
// with the attempt that is on its way, as succeeded if it does, else as cancelled.
func (k *Desk) CancelEvent(ctx context.Context, evt id.ID) (cancelled, inFlight int, err error) {
	err = pg.InTx(ctx, k.deps.DB, func(tx pgx.Tx) error {
		tenant := id.ID{Shard: evt.Shard}
		err := tx.QueryRow(ctx, cancelEventSQL, pgx.StrictNamedArgs{
			"shard": evt.Shard, "event": evt.N, "now": k.deps.Now(), "reason": string(ReasonCancelledByEvent),
		}).Scan(&cancelled, &inFlight, &tenant.N)
		if err != nil || cancelled+inFlight == 0 {
			return err //nolint:wrapcheck // wrapped below
		}
		return audit.Write(ctx, tx, k.deps.IDs.Next, audit.Entry{
			Action: audit.EventCancelled, Object: audit.Thing{Kind: id.Event, ID: evt}, Tenant: &tenant,
			Details: audit.Details{"cancelled": cancelled, "in_flight": inFlight},
		})
	})
	if err != nil {
		return 0, 0, fmt.Errorf("cancel an event's deliveries: %w", err)
	}
	return cancelled, inFlight, nil
}

// cancelBatch is how many deliveries one statement cancels: little enough that it is done in some ten milliseconds.
const cancelBatch = 1000

// Index deliveries_due, the endpoint's part; endpoints_pkey, once. Rows that somebody else has locked are passed over: they are being claimed,
// or cancelled by another process that had the same idea. What is missed so, the next sweep finds. The endpoint is asked
// again with each thousand: one that its owner has revived in the meantime keeps what is left.
const cancelUnfinishedSQL = cancelHead + `
    SELECT d.id FROM deliveries d
    WHERE d.shard::integer = @shard AND d.endpoint_id = @endpoint AND d.state IN ('scheduled', 'pending')
        AND (SELECT e.status = 'dead' OR e.deleted_at IS NOT NULL FROM endpoints e
            WHERE e.shard = @shard AND e.id = @endpoint)
    ORDER BY d.lane, d.next_retry_at LIMIT @limit FOR UPDATE OF d SKIP LOCKED` + cancelTail + `
SELECT count(*) FROM moved`

// Index deliveries_due, the endpoint's part: what is in flight stays where it was due.
const markInFlightSQL = `
WITH flying AS MATERIALIZED (
    SELECT d.id FROM deliveries d
    WHERE d.shard::integer = @shard AND d.endpoint_id = @endpoint AND d.state = 'in_flight' ORDER BY d.id FOR UPDATE)
UPDATE deliveries d SET cancel_reason = @reason
WHERE d.shard = @shard AND d.id = ANY (ARRAY(SELECT flying.id FROM flying))
    AND (SELECT e.status = 'dead' OR e.deleted_at IS NOT NULL FROM endpoints e
        WHERE e.shard = @shard AND e.id = @endpoint)`

// CancelUnfinished cancels all deliveries of a dead or deleted endpoint, a thousand at a time, each thousand a commit of its
// own, and says how many it was. Those in flight end with their attempts. Of an endpoint that is alive it cancels none.
func (k *Desk) CancelUnfinished(ctx context.Context, endpoint id.ID, reason Reason) (int64, error) {
	_, err := k.deps.DB.Exec(ctx, markInFlightSQL, pgx.StrictNamedArgs{
		"shard": endpoint.Shard, "endpoint": endpoint.N, "reason": string(reason),
	})
	if err != nil {
		return 0, pg.Fault(fmt.Errorf("mark an endpoint's deliveries in flight: %w", err))
	}
	var total int64
	for {
		var done int64
		err := k.deps.DB.QueryRow(ctx, cancelUnfinishedSQL, pgx.StrictNamedArgs{
			"shard": endpoint.Shard, "endpoint": endpoint.N, "now": k.deps.Now(), "reason": string(reason),
			"limit": cancelBatch,
		}).Scan(&done)
		if err != nil {
			return total, pg.Fault(fmt.Errorf("cancel an endpoint's deliveries: %w", err))
		}
		total += done
		if done < cancelBatch {
			return total, nil
		}
	}
}

// CancelUnfinishedOf is CancelUnfinished of several endpoints: those of a tenant that was just deleted, for example. Should the
// process die in between, a sweep finds the endpoints deleted and does the rest.
func (k *Desk) CancelUnfinishedOf(ctx context.Context, endpoints []id.ID, reason Reason) (total int64, err error) {
	for _, e := range endpoints {
		n, err := k.CancelUnfinished(ctx, e, reason)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// Index deliveries_due, one look for each endpoint.
const waitingSQL = `
SELECT e.id FROM unnest(@endpoints::bigint[]) AS e(id)
WHERE EXISTS (SELECT FROM deliveries d
    WHERE d.shard::integer = @shard AND d.endpoint_id = e.id AND d.state IN ('scheduled', 'pending'))
ORDER BY e.id`

// Waiting says which of these endpoints, of one bucket, have deliveries that CancelUnfinished would cancel.
func (k *Desk) Waiting(ctx context.Context, shard int16, endpoints []id.ID) ([]id.ID, error) {
	ns := make([]int64, len(endpoints))
	for i, e := range endpoints {
		ns[i] = e.N
	}
	rows, err := k.deps.DB.Query(ctx, waitingSQL, pgx.StrictNamedArgs{"shard": shard, "endpoints": ns})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("look for waiting deliveries: %w", err))
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (id.ID, error) {
		e := id.ID{Shard: shard}
		err := row.Scan(&e.N)
		return e, err
	})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("look for waiting deliveries: %w", err))
	}
	return found, nil
}
