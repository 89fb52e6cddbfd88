package alert

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// One statement resolves what is not resolved and writes the notices. With no such alert it is a look into
// alerts_open_key for each endpoint and nothing else.
//
// A success may come from an attempt that was in flight when the endpoint was switched off or said 410. It does not
// revive the endpoint, so it does not resolve an alert that says the endpoint is off: those wait until the endpoint is
// enabled again and then takes a delivery. The endpoint's row is locked along with the alert's, because only locked
// rows are read in their newest version: without it, a 410 recorded at the same moment could be read as it was before.
const resolveSQL = `
WITH stale AS MATERIALIZED (
    SELECT a.id, a.endpoint_id
    FROM alerts a JOIN endpoints e ON e.shard = a.shard AND e.id = a.endpoint_id
    WHERE a.shard = @shard AND e.shard = @shard AND a.endpoint_id = ANY (@endpoints::bigint[]) AND a.state <> 'resolved'
        AND (a.kind < 'endpoint.disabled' OR e.status = 'enabled')
    ORDER BY a.endpoint_id
    FOR NO KEY UPDATE OF a FOR SHARE OF e
), resolved AS (
    UPDATE alerts a SET state = 'resolved', resolved_at = @now,
        last_notice_id = (@notices::bigint[])[array_position(@endpoints::bigint[], s.endpoint_id)]
    FROM stale s
    WHERE a.shard = @shard AND a.id = s.id
    RETURNING a.id, a.last_notice_id, a.kind, a.detail
)
INSERT INTO alert_notices (shard, id, alert_id, kind, about, detail, next_try_at)
SELECT @shard, r.last_notice_id, r.id, 'resolved', r.kind, r.detail, @now FROM resolved r`

// QueueResolve queues one statement that resolves the alerts of endpoints, of one bucket, that took a delivery; nothing
// when there are none. Like QueueRaise, queue it after the endpoints' own rows are written.
func QueueResolve(b *pgx.Batch, shard int16, endpoints []int64, newID func() int64, now time.Time) {
	if len(endpoints) == 0 {
		return
	}
	sorted := slices.Clone(endpoints)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	notices := make([]int64, len(sorted))
	for i := range notices {
		notices[i] = newID()
	}
	b.Queue(resolveSQL, pgx.StrictNamedArgs{"shard": shard, "endpoints": sorted, "notices": notices, "now": now})
}
