package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// discoverSQL finds the endpoints of a bucket that have unclaimed deliveries, each with when its first is due. It is a
// loose index scan over deliveries_due: one probe per endpoint, however long its queue is.
const discoverSQL = `
WITH RECURSIVE e AS (
    (SELECT d.endpoint_id, d.next_retry_at FROM deliveries d
      WHERE d.shard = @shard AND d.state IN ('scheduled', 'pending')
      ORDER BY d.endpoint_id, d.next_retry_at LIMIT 1)
    UNION ALL
    SELECT n.endpoint_id, n.next_retry_at FROM e CROSS JOIN LATERAL (
        SELECT d.endpoint_id, d.next_retry_at FROM deliveries d
         WHERE d.shard = @shard AND d.state IN ('scheduled', 'pending') AND d.endpoint_id > e.endpoint_id
         ORDER BY d.endpoint_id, d.next_retry_at LIMIT 1) n
)
SELECT endpoint_id, next_retry_at FROM e`

// discover looks through buckets, in one round trip, and notes in lanes what it finds. One that the database refuses to
// look through costs itself alone.
func (d *Dispatcher) discover(ctx context.Context, shards []int16) error {
	err := d.discoverBatch(ctx, shards)
	if err == nil || fault.Is(err, fault.Unavailable) || ctx.Err() != nil {
		return err
	}
	for _, shard := range shards {
		if err := d.discoverBatch(ctx, []int16{shard}); err != nil {
			d.sicken(shard, err)
		}
	}
	return nil
}

func (d *Dispatcher) discoverBatch(ctx context.Context, shards []int16) error {
	batch := &pgx.Batch{}
	for _, shard := range shards {
		if d.sick(shard) {
			continue
		}
		batch.Queue(discoverSQL, pgx.StrictNamedArgs{"shard": shard}).Query(func(rows pgx.Rows) error {
			endpoint := id.ID{Shard: shard}
			var due time.Time
			_, err := pgx.ForEachRow(rows, []any{&endpoint.N, &due}, func() error {
				d.lanes.note(endpoint, due)
				return nil
			})
			return err //nolint:wrapcheck // wrapped below, once for all buckets
		})
	}
	if err := d.deps.DB.SendBatch(ctx, batch).Close(); err != nil {
		return pg.Fault(fmt.Errorf("look for due deliveries: %w", err))
	}
	return nil
}
