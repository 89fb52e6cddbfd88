package alert

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

const (
	keepNotices = 30 * 24 * time.Hour // after they were sent or given up
	keepAlerts  = 90 * 24 * time.Hour // after they were resolved
	// dropBatch is how many are deleted in one commit: little enough that it is done in some ten milliseconds.
	dropBatch = 1000
)

// By the primary keys: what is over for that long was made before that, so its id is below one made then. A row that
// another process is deleting is passed over.
const (
	dropNoticesSQL = `
WITH old AS MATERIALIZED (
    SELECT n.id FROM alert_notices n
    WHERE n.shard = @shard AND n.id < @below AND (n.sent_at < @before OR n.given_up_at < @before)
    LIMIT @limit FOR UPDATE SKIP LOCKED
)
DELETE FROM alert_notices n USING old WHERE n.shard = @shard AND n.id = old.id`

	// Uses alert_notices_by_alert as well, also to see that no notice of a deleted alert is left.
	dropAlertsSQL = `
WITH old AS MATERIALIZED (
    SELECT a.id FROM alerts a
    WHERE a.shard = @shard AND a.id < @below AND a.state = 'resolved' AND a.resolved_at < @before
    LIMIT @limit FOR UPDATE SKIP LOCKED
), told AS (
    DELETE FROM alert_notices n USING old WHERE n.shard = @shard AND n.alert_id = old.id
)
DELETE FROM alerts a USING old WHERE a.shard = @shard AND a.id = old.id`
)

// DropOld deletes, in a bucket, notices that were sent or given up more than 30 days ago, and alerts that were resolved
// more than 90 days ago with what notices they have, a thousand at a time. It says how many notices and alerts it was,
// not counting notices that went with their alert.
func (d *Desk) DropOld(ctx context.Context, shard int16) (int64, error) {
	notices, err := d.drop(ctx, "notices", dropNoticesSQL, shard, keepNotices)
	if err != nil {
		return notices, err
	}
	alerts, err := d.drop(ctx, "alerts", dropAlertsSQL, shard, keepAlerts)
	if err != nil || shard != serviceShard {
		return notices + alerts, err
	}
	service, err := d.drop(ctx, "alerts of the service", dropServiceSQL, shard, keepAlerts)
	return notices + alerts + service, err
}

func (d *Desk) drop(ctx context.Context, what, sql string, shard int16, keep time.Duration) (total int64, err error) {
	before := d.now().Add(-keep)
	for {
		tag, err := d.db.Exec(ctx, sql, pgx.StrictNamedArgs{
			"shard": shard, "before": before, "below": id.Floor(before), "limit": dropBatch,
		})
		if err != nil {
			return total, pg.Fault(fmt.Errorf("delete old %s: %w", what, err))
		}
		total += tag.RowsAffected()
		if tag.RowsAffected() < dropBatch {
			return total, nil
		}
	}
}
