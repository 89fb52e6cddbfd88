package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// The walk is discoverSQL's, a probe into deliveries_due for each lane of an endpoint, and finds nothing where all is well. Only what
// is due for too long is looked at closer: whether its endpoint may be sent to at all, since when (one that has just been enabled, or
// whose pause has just ended, is not late yet), and whether somebody is at it. An endpoint that has something in flight under a lease
// that holds is as fast as its receiver and its slots are; of a group only the head can be sent. Who is first in a lane is looked
// for among its first hundred.
const lateSQL = `
WITH first AS MATERIALIZED (
    SELECT x.shard, x.endpoint_id, x.lane FROM (` + discoverSQL + `) x WHERE x.next_retry_at <= @before AND x.lane <> @pull
)
SELECT f.shard::smallint, f.endpoint_id, greatest(w.since, e.status_changed_at, p.paused_until, p.breaker_changed_at) AS since
FROM first f
JOIN endpoints e ON e.shard = f.shard AND e.id = f.endpoint_id AND e.status = 'enabled' AND e.deleted_at IS NULL
    AND e.rate_limit IS NULL AND e.status_changed_at <= @before
LEFT JOIN endpoint_pace p ON p.shard = f.shard AND p.endpoint_id = f.endpoint_id
CROSS JOIN LATERAL (
    SELECT min(d.next_retry_at) FILTER (WHERE d.state <> 'in_flight' AND (d.lane <> @ordered OR NOT EXISTS (
            SELECT FROM deliveries h WHERE h.shard::bigint = f.shard AND h.endpoint_id = d.endpoint_id AND h.group_id = d.group_id AND h.id < d.id))) AS since,
        coalesce(bool_or(d.state = 'in_flight' AND d.leased_until > @now), false) AS busy
    FROM (SELECT * FROM deliveries d WHERE d.shard::integer = f.shard AND d.endpoint_id = f.endpoint_id AND d.lane = f.lane
          ORDER BY d.next_retry_at LIMIT 100) d
) w
WHERE w.since <= @before AND NOT w.busy AND coalesce(p.breaker, 'closed') = 'closed'
    AND coalesce(p.paused_until, @before) <= @before AND coalesce(p.breaker_changed_at, @before) <= @before
ORDER BY since LIMIT 1`

// Late is a delivery that could be sent and is not.
type Late struct {
	Endpoint id.ID
	Since    time.Time // when it could have been sent
}

// LateSince gives the delivery that could have been sent for longest, if that is before a moment: it is due, its endpoint is enabled,
// in no pause, behind no breaker and without a rate limit, and nobody is sending to it. Nil: all that can be sent is. What is
// fetched waits for its owner, and does not count.
func (k *Desk) LateSince(ctx context.Context, before time.Time) (*Late, error) {
	ctx, cancel := context.WithTimeout(ctx, dbPatience)
	defer cancel()
	var l Late
	err := k.deps.DB.QueryRow(ctx, lateSQL, pgx.StrictNamedArgs{
		"shards": id.AllBuckets(), "before": before, "now": k.deps.Now(), "pull": lanePull, "ordered": laneOrdered,
	}).Scan(&l.Endpoint.Shard, &l.Endpoint.N, &l.Since)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // nothing is late
	}
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("look for late deliveries: %w", err))
	}
	return &l, nil
}
