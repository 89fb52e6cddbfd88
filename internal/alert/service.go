package alert

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// serviceShard is the bucket of the alerts about the service itself, which are no tenant's.
const serviceShard = 0

// ServiceFinding is something that is wrong with the service itself.
type ServiceFinding struct {
	Kind   Kind
	Detail string // plain words for the operator
}

// As raiseSQL: what happened to a row is read from the row itself, so of many processes that raise the same at the same moment one
// writes the notice. A look counts once, however many processes take it; the conflict is found through service_alerts_open_key.
const raiseServiceSQL = `
WITH raised AS (
    INSERT INTO service_alerts AS s (shard, id, kind, detail, last_notice_id, opened_at, last_at)
    SELECT @shard, u.id, u.kind::service_alert_kind, u.detail, u.id, @now, @now
    FROM unnest(@ids::bigint[], @kinds::text[], @details::text[]) u(id, kind, detail)
    ORDER BY u.kind
    ON CONFLICT (shard, kind) WHERE state <> 'resolved' DO UPDATE SET
        count = s.count + CASE WHEN s.last_at <= @counted AND s.count < 2147483647 THEN 1 ELSE 0 END,
        detail = excluded.detail,
        last_at = greatest(s.last_at, excluded.last_at)
    RETURNING s.id, s.last_notice_id, s.detail
)
INSERT INTO alert_notices (shard, id, alert_id, kind, detail, next_try_at)
SELECT @shard, r.last_notice_id, r.id, 'opened', r.detail, @now FROM raised r WHERE r.last_notice_id = ANY (@ids)`

// RaiseService opens alerts about the service, or adds to those that are not resolved. It is called at each look that finds
// something, by every process that looks; every is how often each of them does.
func (d *Desk) RaiseService(ctx context.Context, fs []ServiceFinding, every time.Duration) error {
	if len(fs) == 0 {
		return nil
	}
	var ids []int64
	var kinds, details []string
	for _, f := range fs {
		ids, kinds, details = append(ids, d.newID()), append(kinds, f.Kind.String()), append(details, plain(f.Detail))
	}
	now := d.now()
	_, err := d.db.Exec(ctx, raiseServiceSQL, pgx.StrictNamedArgs{
		"shard": serviceShard, "ids": ids, "kinds": kinds, "details": details, "now": now, "counted": now.Add(-every / 2),
	})
	if err != nil {
		return pg.Fault(fmt.Errorf("raise alerts about the service: %w", err))
	}
	return nil
}

// Nobody may have found it for a while, this process or another: the row says when somebody did last, and is read in its newest
// version, under its lock.
const calmServiceSQL = `
WITH calm AS (
    UPDATE service_alerts s SET state = 'resolved', resolved_at = @now,
        last_notice_id = (@notices::bigint[])[array_position(@kinds::text[], s.kind::text)]
    WHERE s.shard = @shard AND s.state <> 'resolved' AND s.kind = ANY (@kinds::text[]::service_alert_kind[]) AND s.last_at <= @quiet
    RETURNING s.id, s.last_notice_id, s.detail
)
INSERT INTO alert_notices (shard, id, alert_id, kind, detail, next_try_at)
SELECT @shard, c.last_notice_id, c.id, 'resolved', c.detail, @now FROM calm c`

// CalmService resolves the alerts of these kinds that nobody has found anything for in so long, and says how many.
func (d *Desk) CalmService(ctx context.Context, kinds []Kind, quiet time.Duration) (int64, error) {
	if len(kinds) == 0 {
		return 0, nil
	}
	var notices []int64
	for range kinds {
		notices = append(notices, d.newID())
	}
	now := d.now()
	_, names := split(kinds)
	tag, err := d.db.Exec(ctx, calmServiceSQL, pgx.StrictNamedArgs{
		"shard": serviceShard, "kinds": names, "notices": notices, "now": now, "quiet": now.Add(-quiet),
	})
	if err != nil {
		return 0, pg.Fault(fmt.Errorf("resolve alerts about the service: %w", err))
	}
	return tag.RowsAffected(), nil
}

// serviceColumns are those of row, of an alert about the service.
const serviceColumns = `s.shard, s.id, 0::bigint AS tenant_id, 0::bigint AS endpoint_id, s.kind::text AS kind, s.state::text AS state,
    s.count, s.detail, NULL::bigint AS last_delivery_id, s.opened_at, s.last_at, s.acknowledged_at, s.acknowledged_by, s.resolved_at,
    s.resolved_by`

const (
	getServiceSQL = `SELECT ` + serviceColumns + ` FROM service_alerts s WHERE s.shard = @shard AND s.id = @id`

	acknowledgeServiceSQL = `
UPDATE service_alerts s SET state = 'acknowledged', acknowledged_at = @now, acknowledged_by = @by
WHERE s.shard = @shard AND s.id = @id AND s.state = 'open'
RETURNING ` + serviceColumns

	resolveOneServiceSQL = `
WITH s AS (
    UPDATE service_alerts s SET state = 'resolved', resolved_at = @now, resolved_by = @by, last_notice_id = @notice
    WHERE s.shard = @shard AND s.id = @id AND s.state <> 'resolved'
    RETURNING s.*
), told AS (
    INSERT INTO alert_notices (shard, id, alert_id, kind, detail, next_try_at)
    SELECT @shard, @notice, s.id, 'resolved', s.detail, @now FROM s
)
SELECT ` + serviceColumns + ` FROM s`

	// From the end of the primary key: there are few, since an outage of hours is one.
	listServiceSQL = `
SELECT ` + serviceColumns + ` FROM service_alerts s
WHERE s.shard = @shard AND (s.id, s.shard) < (@before::bigint, @before_shard::smallint) AND s.state = ANY (@states::text[]::alert_state[])
    AND (@kinds::text[] IS NULL OR s.kind = ANY (@kinds::text[]::service_alert_kind[]))
ORDER BY s.id DESC LIMIT @limit`

	dropServiceSQL = `
WITH old AS MATERIALIZED (
    SELECT s.id FROM service_alerts s
    WHERE s.shard = @shard AND s.id < @below AND s.state = 'resolved' AND s.resolved_at < @before
    LIMIT @limit FOR UPDATE SKIP LOCKED
), told AS (
    DELETE FROM alert_notices n USING old WHERE n.shard = @shard AND n.alert_id = old.id
)
DELETE FROM service_alerts s USING old WHERE s.shard = @shard AND s.id = old.id`
)

func (d *Desk) listOfService(ctx context.Context, f Filter, kinds []string, limit int, before id.ID) ([]Alert, error) {
	return d.read(ctx, listServiceSQL, pgx.StrictNamedArgs{
		"shard": serviceShard, "states": names(f.States), "kinds": kinds, "limit": limit, "before": before.N, "before_shard": before.Shard,
	})
}
