package intake

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Index events_pkey, for each in the one partition that it lies in; events_unrouted_pkey.
const (
	routedSQL = `
UPDATE events e SET skipped = r.skipped::jsonb,
    delivery_ids = (@deliveries::bigint[])[r.delivery_from : r.delivery_from + r.delivery_count - 1]
FROM unnest(@shards::smallint[], @ids::bigint[], @delivery_froms::integer[], @delivery_counts::integer[], @skipped::text[])
    AS r (shard, id, delivery_from, delivery_count, skipped)
WHERE e.shard = r.shard AND e.id = r.id AND e.delivery_ids IS NULL`
	unmarkSQL = `DELETE FROM events_unrouted WHERE n = ANY (@taken::bigint[])`
)

// writeRouted makes the deliveries and takes the markers away. Markers of events that are gone go too. The commit does not go out
// with it: what it has changed is counted first.
func (i *Intake) writeRouted(ctx context.Context, tx transaction, r *round, drafts []*draft, now time.Time) error {
	b := tx.batch()
	out := &rows{b: b}
	var shards []int16
	var ids []int64
	var skipped nullable[string]
	var delivery parts
	for _, d := range drafts {
		i.addDeliveries(out, d, 0, now)
		shards, ids = append(shards, d.tenant.Shard), append(ids, d.events[0].n)
		skipped.add(d.events[0].skipped)
		delivery.add(d.events[0].fanOut)
	}
	deliveries := out.ev.deliveries
	if deliveries == nil {
		deliveries = []int64{} // nil would be NULL, and so would its slices
	}
	out.flushDeliveries()
	if len(drafts) > 0 {
		wants(b, "fan out", len(drafts), routedSQL, pgx.StrictNamedArgs{
			"shards": shards, "ids": ids, "deliveries": deliveries, "delivery_froms": delivery.from,
			"delivery_counts": delivery.size, "skipped": skipped.arg(),
		})
	}
	taken := make([]int64, len(r.taken))
	for n := range r.taken {
		taken[n] = r.taken[n].N
	}
	wants(b, "unmark", len(taken), unmarkSQL, pgx.StrictNamedArgs{"taken": taken})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("store the deliveries of enqueued events: %w", err)
	}
	r.made, r.deliveries = len(drafts), out.deliveries
	return nil
}

// wants queues a statement that has to change so many rows. Others would mean that two fan out at once, which a lock prevents:
// better nothing than deliveries that no event knows.
func wants(b *pgx.Batch, act string, want int, sql string, args pgx.StrictNamedArgs) {
	b.Queue(sql, args).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() != int64(want) {
			return fmt.Errorf("%s %d events: %d were left to", act, want, tag.RowsAffected())
		}
		return nil
	})
}
