package intake

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// dropBatch bounds what one statement deletes, so that none runs long.
const dropBatch = 1000

// Uses idempotency_keys_by_age, and then the rows' places: a plan that cannot turn into a scan of the table.
const dropKeysSQL = `
DELETE FROM idempotency_keys
WHERE shard = @shard AND kind = 'key' AND created_at < @before AND ctid = ANY (ARRAY(
    SELECT ctid FROM idempotency_keys
    WHERE shard = @shard AND kind = 'key' AND created_at < @before
    ORDER BY created_at
    LIMIT @batch))`

// DropExpiredKeys deletes one bucket's Idempotency-Keys that were used first before olderThan, and says how many.
func (i *Intake) DropExpiredKeys(ctx context.Context, shard int16, olderThan time.Time) (int64, error) {
	return i.drop(ctx, "drop expired idempotency keys", dropKeysSQL,
		pgx.StrictNamedArgs{"shard": shard, "before": olderThan, "batch": dropBatch})
}

// Walks the bucket's part of the primary key: a job for once a day. A uid lives as long as its event, which is as old.
const dropUIDsSQL = `
DELETE FROM idempotency_keys
WHERE shard = @shard AND kind = 'uid' AND created_at < @before AND ctid = ANY (ARRAY(
    SELECT k.ctid FROM idempotency_keys k
    WHERE k.shard = @shard AND k.kind = 'uid' AND k.created_at < @before
      AND NOT EXISTS (SELECT FROM events e WHERE e.shard = @shard AND e.id = k.event_ids[1])
    LIMIT @batch))`

// DropOrphanUIDs deletes one bucket's uids whose event is gone; olderThan is the age from which on events go. Until then
// such a uid does no harm: the next event that has it takes it over.
func (i *Intake) DropOrphanUIDs(ctx context.Context, shard int16, olderThan time.Time) (int64, error) {
	return i.drop(ctx, "drop the uids of events that are gone", dropUIDsSQL,
		pgx.StrictNamedArgs{"shard": shard, "before": olderThan, "batch": dropBatch})
}

func (i *Intake) drop(ctx context.Context, act, sql string, args pgx.StrictNamedArgs) (total int64, err error) {
	for {
		tag, err := i.db.Exec(ctx, sql, args)
		if err != nil {
			return total, pg.Fault(fmt.Errorf("%s: %w", act, err))
		}
		total += tag.RowsAffected()
		if tag.RowsAffected() < dropBatch {
			return total, nil
		}
	}
}
