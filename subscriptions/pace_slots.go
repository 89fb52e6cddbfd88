package subscriptions

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// SlotWish asks for slots of an endpoint's rate limit.
type SlotWish struct {
	Endpoint id.ID
	N        int           // how many
	Every    time.Duration // from one slot to the next
	Within   time.Duration // none that begins later than this from now
}

// Slots are N slots in a row that nobody else has: the i-th, from 0, begins at Start + i × Every. With an N of 0, Start is
// when the next one does that nobody has.
type Slots struct {
	Start time.Time
	N     int
}

// A row for each endpoint that has none. Primary keys of endpoints and endpoint_pace.
const paceRowsSQL = `
INSERT INTO endpoint_pace (shard, endpoint_id)
SELECT @shard, e.id FROM endpoints e
 WHERE e.shard = @shard AND e.id = ANY (@ids::bigint[]) AND e.deleted_at IS NULL
   AND NOT EXISTS (SELECT FROM endpoint_pace p WHERE p.shard = @shard AND p.endpoint_id = e.id)
 ORDER BY e.id
ON CONFLICT DO NOTHING`

// reserveSQL goes by the primary key. A reservation begins where the one before ended, or now. (This is GCRA with no burst;
// next_slot_at is its theoretical arrival time.) Of two at once the second waits for the row, sees it as the first has left
// it, and begins after that. Rows are locked in the order of ids.
const reserveSQL = `
WITH free AS MATERIALIZED (
     SELECT p.endpoint_id, greatest(p.next_slot_at, @now::timestamptz) AS start
       FROM endpoint_pace p WHERE p.shard = @shard AND p.endpoint_id = ANY (@ids::bigint[])
      ORDER BY p.endpoint_id FOR UPDATE
), given AS MATERIALIZED (
     SELECT f.endpoint_id, f.start, w.every * interval '1 microsecond' AS every, greatest(0, least(w.n, 1 + floor(
            (w.within - extract(epoch FROM f.start - @now::timestamptz) * 1000000) / w.every)))::integer AS n
       FROM free f
       JOIN unnest(@ids::bigint[], @ns::integer[], @everies::bigint[], @withins::bigint[]) AS w (id, n, every, within)
         ON w.id = f.endpoint_id
), taken AS (
     UPDATE endpoint_pace p SET next_slot_at = g.start + g.n * g.every FROM given g
      WHERE p.shard = @shard AND p.endpoint_id = g.endpoint_id AND g.n > 0
)
SELECT endpoint_id, start, n FROM given`

// ReserveSlots gives each endpoint, of which there is at most one wish, up to N slots that nobody else has, over all
// processes. A slot that is not used is lost. An endpoint that was deleted is not in the answer. All in one round trip and
// transaction, two statements a bucket. Every counts in whole microseconds, rounded up.
//
// It waits for a row no longer than 100 ms, and then fails: a process that stands still with one in hand is to stop nobody.
// The commit does not wait for the disk: what a crash of the database takes back are slots of less than a second, most of
// which are over when it has come up again.
func (s *Store) ReserveSlots(ctx context.Context, wishes []SlotWish) (map[id.ID]Slots, error) {
	out := make(map[id.ID]Slots, len(wishes))
	if len(wishes) == 0 {
		return out, nil
	}
	byShard := map[int16]*slotColumns{}
	for _, w := range wishes {
		c := byShard[w.Endpoint.Shard]
		if c == nil {
			c = &slotColumns{}
			byShard[w.Endpoint.Shard] = c
		}
		c.add(w)
	}
	now, batch := s.now(), &pgx.Batch{}
	batch.Queue(`SELECT set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '100', true)`)
	for _, shard := range slices.Sorted(maps.Keys(byShard)) { // in order: the rows stay locked until the last is
		c := byShard[shard]
		batch.Queue(paceRowsSQL, pgx.StrictNamedArgs{"shard": shard, "ids": c.ids})
		batch.Queue(reserveSQL, pgx.StrictNamedArgs{
			"shard": shard, "now": now, "ids": c.ids, "ns": c.ns, "everies": c.everies, "withins": c.withins,
		}).Query(func(rows pgx.Rows) error {
			e, got := id.ID{Shard: shard}, Slots{}
			_, err := pgx.ForEachRow(rows, []any{&e.N, &got.Start, &got.N}, func() error {
				out[e] = Slots{got.Start.UTC(), got.N}
				return nil
			})
			return err
		})
	}
	if err := s.db.SendBatch(ctx, batch).Close(); err != nil {
		return nil, pg.Fault(fmt.Errorf("reserve slots: %w", err))
	}
	return out, nil
}

// slotColumns are wishes by column, times in microseconds.
type slotColumns struct {
	ids, everies, withins []int64
	ns                    []int32
}

func (c *slotColumns) add(w SlotWish) {
	c.ids = append(c.ids, w.Endpoint.N)
	c.ns = append(c.ns, int32(w.N)) //nolint:gosec // at most what may be in flight
	c.everies = append(c.everies, (w.Every + time.Microsecond - 1).Microseconds())
	c.withins = append(c.withins, w.Within.Microseconds())
}
