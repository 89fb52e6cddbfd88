package dispatcher

import (
	"context"
	"fmt"
	"maps"
	"sync"
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
        min(d.next_retry_at) FILTER (WHERE d.state <> 'in_flight' AND d.next_retry_at <= @now) AS due
    FROM deliveries d GROUP BY d.shard, d.endpoint_id
)
SELECT coalesce(sum(o.in_flight), 0)::bigint,
    coalesce(sum(o.scheduled) FILTER (WHERE e.status IS DISTINCT FROM 'disabled'), 0)::bigint,
    coalesce(sum(o.pending) FILTER (WHERE e.status IS DISTINCT FROM 'disabled'), 0)::bigint,
    coalesce(sum(o.pending + o.scheduled) FILTER (WHERE e.status = 'disabled'), 0)::bigint,
    min(o.due) FILTER (WHERE e.status = 'enabled')
FROM of_endpoint o LEFT JOIN endpoints e ON e.shard = o.shard AND e.id = o.endpoint_id`

// Counts says how many deliveries there are in each state, and since when the oldest one that an enabled endpoint could
// have had is due (zero: none is). Finished ones, of which there may be a hundred times as many, are counted anew only
// when counting them has long been paid for: see finishedCounts.
func (k *Desk) Counts(ctx context.Context) (map[State]int64, time.Time, error) {
	now := k.deps.Now()
	var inFlight, scheduled, pending, held int64
	var due *time.Time
	err := k.deps.DB.QueryRow(ctx, countUnfinishedSQL, pgx.StrictNamedArgs{"now": now}).
		Scan(&inFlight, &scheduled, &pending, &held, &due)
	if err != nil {
		return nil, time.Time{}, pg.Fault(fmt.Errorf("count unfinished deliveries: %w", err))
	}
	out, err := k.finished.read(ctx, k.deps.DB)
	if err != nil {
		return nil, time.Time{}, err
	}
	out[InFlight], out[Scheduled], out[Pending], out[Held] = inFlight, scheduled, pending, held
	if due == nil {
		return out, time.Time{}, nil
	}
	return out, *due, nil
}

// restFactor is how many times as long as a count of the finished deliveries took it is good for, so that counting takes
// a fiftieth of one core at most. One that took less than cheapCount is not worth keeping.
const (
	restFactor = 50
	cheapCount = 20 * time.Millisecond
)

// finishedCounts remembers how many finished deliveries there are.
type finishedCounts struct {
	mu    sync.Mutex
	known map[State]int64
	until time.Time // by this process's monotonic clock
}

// Reads every partition: a state's share of them is in no index but that of the failed ones.
const countFinishedSQL = `SELECT state::text, count(*) FROM deliveries_finished GROUP BY state`

func (c *finishedCounts) read(ctx context.Context, db pg.Querier) (map[State]int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	start := time.Now()
	if start.Before(c.until) {
		return maps.Clone(c.known), nil
	}
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
	if took := time.Since(start); took > cheapCount {
		c.known, c.until = counts, time.Now().Add(restFactor*took)
	}
	return maps.Clone(counts), nil
}
