package dispatcher

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// discoverSQL finds the endpoints of some buckets that have unclaimed deliveries, and in which lanes, each with when its
// first is due. It is a loose index scan over deliveries_due: one probe per lane, however long its queue is.
const discoverSQL = `
SELECT s.shard, x.endpoint_id, x.lane, x.next_retry_at FROM unnest(@shards::integer[]) AS s(shard) CROSS JOIN LATERAL (
    WITH RECURSIVE e AS (
        (SELECT d.endpoint_id, d.lane, d.next_retry_at FROM deliveries d
          WHERE d.shard::integer = s.shard AND d.state IN ('scheduled', 'pending')
          ORDER BY d.endpoint_id, d.lane, d.next_retry_at LIMIT 1)
        UNION ALL
        SELECT n.endpoint_id, n.lane, n.next_retry_at FROM e CROSS JOIN LATERAL (
            SELECT d.endpoint_id, d.lane, d.next_retry_at FROM deliveries d
             WHERE d.shard::integer = s.shard AND d.state IN ('scheduled', 'pending')
               AND (d.endpoint_id, d.lane) > (e.endpoint_id, e.lane)
             ORDER BY d.endpoint_id, d.lane, d.next_retry_at LIMIT 1) n
    )
    SELECT endpoint_id, lane, next_retry_at FROM e) x`

// lookedAtOnce is how many buckets are looked through by a statement: what one has found may be claimed while the next looks.
const lookedAtOnce = 32

// discover looks through buckets and notes in roads what it finds. One that the database refuses to look through costs
// itself alone.
func (d *Dispatcher) discover(ctx context.Context, shards []int16) error {
	for some := range slices.Chunk(shards, lookedAtOnce) {
		err := d.discoverIn(ctx, some)
		switch {
		case err == nil:
			d.looking.Work()
			d.nudge()
		case fault.Is(err, fault.Unavailable) || ctx.Err() != nil:
			return err
		default:
			for _, shard := range some {
				if err := d.discoverIn(ctx, []int16{shard}); err != nil {
					d.sicken(shard, err)
				}
			}
		}
	}
	return nil
}

func (d *Dispatcher) discoverIn(ctx context.Context, shards []int16) error {
	ctx, cancel := context.WithTimeout(ctx, dbPatience)
	defer cancel()
	shards = slices.DeleteFunc(slices.Clone(shards), d.sick)
	err := d.ask(ctx, discoverSQL, pgx.StrictNamedArgs{"shards": shards}, func(rows pgx.Rows) error {
		var endpoint id.ID
		var in lane
		var due time.Time
		_, err := pgx.ForEachRow(rows, []any{&endpoint.Shard, &endpoint.N, &in, &due}, func() error {
			if in != lanePull {
				d.roads.found(endpoint, in, due)
			}
			return nil
		})
		return err //nolint:wrapcheck // just below
	})
	if err != nil {
		return pg.Fault(fmt.Errorf("look for due deliveries: %w", err))
	}
	return nil
}
