package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// dropBatch is how many rows are deleted in one commit: little enough that it is done in some ten milliseconds.
const dropBatch = 1000

const (
	// By the primary key.
	dropTrafficSQL = `
WITH old AS MATERIALIZED (
    SELECT t.minutes, t.starts, t.id FROM traffic t
    WHERE t.minutes = @minutes::smallint AND t.starts < @before::timestamptz LIMIT @limit FOR UPDATE SKIP LOCKED
)
DELETE FROM traffic t USING old WHERE t.minutes = old.minutes AND t.starts = old.starts AND t.id = old.id`

	// Reads all of the bucket in the primary key, once a day: an index by time would cost each row an entry more.
	dropEndpointsSQL = `
WITH old AS MATERIALIZED (
    SELECT t.endpoint_id, t.starts, t.id FROM endpoint_traffic t
    WHERE t.shard = @shard AND t.starts < @before::timestamptz LIMIT @limit FOR UPDATE SKIP LOCKED
)
DELETE FROM endpoint_traffic t USING old
 WHERE t.shard = @shard AND t.endpoint_id = old.endpoint_id AND t.starts = old.starts AND t.id = old.id`
)

// DropOld deletes figures over all tenants from before a time, and those by the minute and the quarter that nobody looks at any more, a
// thousand at a time. It says how many rows it was.
func (r *Reader) DropOld(ctx context.Context, before time.Time) (int64, error) {
	hours, err := r.drop(ctx, dropTrafficSQL, pgx.StrictNamedArgs{"minutes": 60, "before": before, "limit": dropBatch})
	if err != nil {
		return hours, err
	}
	if kept := r.now().Add(-KeepFine); kept.After(before) {
		before = kept
	}
	total := hours
	for _, minutes := range []int{1, 15} {
		n, err := r.drop(ctx, dropTrafficSQL, pgx.StrictNamedArgs{"minutes": minutes, "before": before, "limit": dropBatch})
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// DropOldOfEndpoints does so with the figures of a bucket's endpoints.
func (r *Reader) DropOldOfEndpoints(ctx context.Context, shard int16, before time.Time) (int64, error) {
	return r.drop(ctx, dropEndpointsSQL, pgx.StrictNamedArgs{"shard": shard, "before": before, "limit": dropBatch})
}

func (r *Reader) drop(ctx context.Context, sql string, args pgx.StrictNamedArgs) (total int64, err error) {
	for {
		tag, err := r.db.Exec(ctx, sql, args)
		if err != nil {
			return total, pg.Fault(fmt.Errorf("delete old figures: %w", err))
		}
		total += tag.RowsAffected()
		if tag.RowsAffected() < dropBatch {
			return total, nil
		}
	}
}
