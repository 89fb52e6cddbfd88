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
const countUnfinishedSQL = `
WITH of_endpoint AS MATERIALIZED (
    SELECT d.shard, d.endpoint_id,
        count(*) FILTER (WHERE d.state = 'in_flight') AS in_flight,
        count(*) FILTER (WHERE d.state = 'scheduled' AND d.next_retry_at > @now) AS scheduled,
        count(*) FILTER (WHERE d.state = 'pending' OR d.state = 'scheduled' AND d.next_retry_at <= @now) AS pending,
        min(d.next_retry_at) FILTER (WHERE d.state <> 'in_flight' AND d.next_retry_at <= @now AND d.lane <> @pull) AS due
    FROM deliveries d GROUP BY d.shard, d.endpoint_id
)
SELECT coalesce(sum(o.in_flight), 0)::bigint,
    coalesce(sum(o.scheduled) FILTER (WHERE e.status IS DISTINCT FROM 'disabled'), 0)::bigint,
    coalesce(sum(o.pending) FILTER (WHERE e.status IS DISTINCT FROM 'disabled'), 0)::bigint,
    coalesce(sum(o.pending + o.scheduled) FILTER (WHERE e.status = 'disabled'), 0)::bigint,
    min(o.due) FILTER (WHERE e.status = 'enabled')
FROM of_endpoint o LEFT JOIN endpoints e ON e.shard = o.shard AND e.id = o.endpoint_id`

// Unfinished says how many deliveries there were in each state that is not final, and since when the oldest one that an
// enabled endpoint could have been sent was due (zero: none was), at a moment (zero: nobody has counted yet).
type Unfinished struct {
	At        time.Time
	Counts    map[State]int64
	OldestDue time.Time
}

// CountUnfinished counts what is not finished, or gives what it counted last: see pg.Resting. It reads the whole backlog.
func (k *Desk) CountUnfinished(ctx context.Context) (Unfinished, error) {
	return k.unfinished.Read(func() (Unfinished, error) { return countUnfinished(ctx, k.deps.DB, k.deps.Now()) })
}

func countUnfinished(ctx context.Context, db pg.Querier, now time.Time) (Unfinished, error) {
	var inFlight, scheduled, pending, held int64
	var due *time.Time
	err := db.QueryRow(ctx, countUnfinishedSQL, pgx.StrictNamedArgs{"now": now, "pull": lanePull}).
		Scan(&inFlight, &scheduled, &pending, &held, &due)
	if err != nil {
		return Unfinished{}, pg.Fault(fmt.Errorf("count unfinished deliveries: %w", err))
	}
	u := Unfinished{At: now, Counts: map[State]int64{InFlight: inFlight, Scheduled: scheduled, Pending: pending, Held: held}}
	if due != nil {
		u.OldestDue = *due
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
