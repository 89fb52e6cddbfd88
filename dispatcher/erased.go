package dispatcher

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// erasedSQL deletes attempts, just written, of deliveries that are not there any more: their tenant was erased while the request was on its
// way. The lock has whoever erases wait for us, or us for them. Indexes attempts_pkey, deliveries_pkey, deliveries_finished_pkey.
const erasedSQL = `
WITH late AS MATERIALIZED (
    SELECT r.shard, r.id, r.attempt FROM unnest(@shards::smallint[], @ids::bigint[], @attempts::bigint[]) AS r (shard, id, attempt)
     WHERE NOT EXISTS (SELECT FROM deliveries d WHERE d.shard = r.shard AND d.id = r.id FOR KEY SHARE)
       AND NOT EXISTS (SELECT FROM deliveries_finished f WHERE f.shard = r.shard AND f.id = r.id FOR KEY SHARE))
DELETE FROM attempts a USING late l WHERE a.shard = l.shard AND a.delivery_id = l.id AND a.id = l.attempt`

// forgetErased has results that came too late leave no trace if there is nothing left that they are of. Usually none is late, and it
// does nothing.
func forgetErased(ctx context.Context, tx pgx.Tx, results []result, ended map[id.ID]ending) error {
	if len(ended) == len(results) {
		return nil
	}
	var shards []int16
	var ids, attempts []int64
	for _, r := range results {
		if _, counts := ended[r.claimed.delivery()]; !counts && r.made {
			shards, ids, attempts = append(shards, r.claimed.Shard), append(ids, r.claimed.ID), append(attempts, r.attemptID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if err := pg.Indexed(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, erasedSQL, pgx.StrictNamedArgs{"shards": shards, "ids": ids, "attempts": attempts}); err != nil {
		return fmt.Errorf("forget attempts of what was erased: %w", err)
	}
	return nil
}
