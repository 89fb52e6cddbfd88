package dispatcher

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// One pass over the hot table, to a row for each endpoint that has something there, and only those are joined to their
// endpoints: a million deliveries are as many as they are, but their endpoints are few. No index helps to count all rows.
//
// Overdue is what nothing of its endpoint's holds back: it is enabled, its breaker closed, it wants no pause, its rate limit has a
// slot, and no attempt at it is under way. Of groups the head alone can be (index deliveries_in_group, where there are any). It
// counts from when the last of these went away, as far as that is known: what was held back until a moment ago is not late.
const countUnfinishedSQL = `
WITH heads AS (
    SELECT DISTINCT ON (d.shard::bigint, d.endpoint_id, d.group_id) d.shard, d.endpoint_id, d.state, d.next_retry_at
      FROM deliveries d WHERE d.group_id IS NOT NULL AND (d.state <> 'scheduled' OR d.next_retry_at <= @now)
     ORDER BY d.shard::bigint, d.endpoint_id, d.group_id, d.id
), due_heads AS (
    SELECT h.shard, h.endpoint_id, min(h.next_retry_at) AS due FROM heads h
     WHERE h.state <> 'in_flight' AND h.next_retry_at <= @now GROUP BY h.shard, h.endpoint_id
), of_endpoint AS MATERIALIZED (
    SELECT d.shard, d.endpoint_id,
        count(*) FILTER (WHERE d.state = 'in_flight') AS in_flight,
        count(*) FILTER (WHERE d.state = 'scheduled' AND d.next_retry_at > @now) AS scheduled,
        count(*) FILTER (WHERE d.state = 'pending' OR d.state = 'scheduled' AND d.next_retry_at <= @now) AS pending,
        min(d.next_retry_at) FILTER (WHERE d.state <> 'in_flight' AND d.next_retry_at <= @now AND d.lane <> @pull) AS due,
        min(d.next_retry_at) FILTER (WHERE d.state <> 'in_flight' AND d.next_retry_at <= @now AND d.lane <> @pull
            AND d.group_id IS NULL) AS free,
        count(*) FILTER (WHERE d.state = 'in_flight' AND d.leased_until > @now) AS live
    FROM deliveries d GROUP BY d.shard, d.endpoint_id
)
SELECT coalesce(sum(o.in_flight), 0)::bigint,
    coalesce(sum(o.scheduled) FILTER (WHERE e.status IS DISTINCT FROM 'disabled'), 0)::bigint,
    coalesce(sum(o.pending) FILTER (WHERE e.status IS DISTINCT FROM 'disabled'), 0)::bigint,
    coalesce(sum(o.pending + o.scheduled) FILTER (WHERE e.status = 'disabled'), 0)::bigint,
    min(o.due) FILTER (WHERE e.status = 'enabled'),
    min(greatest(least(o.free, h.due), e.status_changed_at, p.paused_until, p.next_slot_at, p.breaker_changed_at)) FILTER (
        WHERE e.status = 'enabled' AND o.live = 0 AND coalesce(p.breaker = 'closed', true)
          AND least(o.free, h.due) IS NOT NULL AND coalesce(greatest(p.paused_until, p.next_slot_at) <= @now, true))
FROM of_endpoint o
LEFT JOIN endpoints e ON e.shard = o.shard AND e.id = o.endpoint_id
LEFT JOIN endpoint_pace p ON p.shard = o.shard AND p.endpoint_id = o.endpoint_id
LEFT JOIN due_heads h ON h.shard = o.shard AND h.endpoint_id = o.endpoint_id`

// Unfinished says how many deliveries there were in each state that is not final, and since when the oldest one that an
// enabled endpoint could have been sent was due (zero: none was), at a moment (zero: nobody has counted yet). OldestOverdue is the
// same for those that nothing of their endpoint's holds back: while dispatchers keep up it is some seconds ago at most.
type Unfinished struct {
	At            time.Time
	Counts        map[State]int64
	OldestDue     time.Time
	OldestOverdue time.Time
}

// CountUnfinished counts what is not finished, or gives what it counted last: see pg.Resting. It reads the whole backlog.
func (k *Desk) CountUnfinished(ctx context.Context) (Unfinished, error) {
	return k.unfinished.Read(func() (Unfinished, error) { return countUnfinished(ctx, k.deps.DB, k.deps.Now()) })
}

func countUnfinished(ctx context.Context, db pg.Querier, now time.Time) (Unfinished, error) {
	var inFlight, scheduled, pending, held int64
	var due, overdue *time.Time
	err := db.QueryRow(ctx, countUnfinishedSQL, pgx.StrictNamedArgs{"now": now, "pull": lanePull}).
		Scan(&inFlight, &scheduled, &pending, &held, &due, &overdue)
	if err != nil {
		return Unfinished{}, pg.Fault(fmt.Errorf("count unfinished deliveries: %w", err))
	}
	u := Unfinished{At: now, Counts: map[State]int64{InFlight: inFlight, Scheduled: scheduled, Pending: pending, Held: held}}
	if due != nil {
		u.OldestDue = *due
	}
	if overdue != nil {
		u.OldestOverdue = *overdue
	}
	return u, nil
}

// CountFinished counts what is finished, of which there may be a hundred times as much as of the rest, or gives what it
// counted last: see pg.Resting. Nil: nobody could count yet.
func (k *Desk) CountFinished(ctx context.Context) (map[State]int64, error) {
	counts, err := k.finished.Read(func() (map[State]int64, error) { return countFinished(ctx, k.deps.DB) })
	return maps.Clone(counts), err
}

// Reads every partition: a state's share of them is in no index but that of the failed ones.
const countFinishedSQL = `SELECT state::text, count(*) FROM deliveries_finished GROUP BY state`

func countFinished(ctx context.Context, db pg.Querier) (map[State]int64, error) {
	counts := map[State]int64{StateSucceeded: 0, StateFailed: 0, StateCancelled: 0}
	rows, err := db.Query(ctx, countFinishedSQL)
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("count finished deliveries: %w", err))
	}
	var name string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		state, err := ParseState(name)
		counts[state] = n
		return err
	})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("count finished deliveries: %w", err))
	}
	return counts, nil
}
