package intake

import (
	"slices"
	"strings"

	"github.com/postrider/postrider/internal/fault"
)

// An event's statuses (CONTRACT §3). Nothing stores them: they follow from the event's deliveries.
const (
	statusScheduled = "scheduled"
	statusQueued    = "queued"
	statusRunning   = "running"
	statusSucceeded = "succeeded"
	statusFailed    = "failed"
	statusCancelled = "cancelled"
)

// Statuses gives all of them.
func Statuses() []string {
	return []string{statusScheduled, statusQueued, statusRunning, statusSucceeded, statusFailed, statusCancelled}
}

// Finished reports whether nothing of the event is left to be done.
func (e Stored) Finished() bool {
	return e.Status == statusSucceeded || e.Status == statusFailed || e.Status == statusCancelled
}

// statusSQL is the rule, the only place of it: a lateral subquery `s (status)` beside `events e`. The first line that
// holds for any of the deliveries decides, so what is unfinished comes before what is finished. A delivery that is held
// runs no more: it waits. Without deliveries there is nothing left to do, unless the fan-out is still to come, or the event broke
// the schema of its type where it could not be refused for it.
//
// Uses the primary keys: of deliveries, of endpoints, and of the one partition of deliveries_finished that a delivery's id
// lies in. (With id = ANY (e.delivery_ids) all partitions would be looked at.)
const statusSQL = `
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN e.delivery_ids IS NULL         THEN CASE WHEN e.deliver_at IS NULL THEN 'queued' ELSE 'scheduled' END
        WHEN bool_or(d.running)             THEN 'running'
        WHEN bool_or(d.state = 'pending')   THEN 'queued'
        WHEN bool_or(d.state = 'scheduled') THEN 'scheduled'
        WHEN bool_or(d.state = 'failed')    THEN 'failed'
        WHEN bool_or(d.state = 'succeeded') THEN 'succeeded'
        WHEN bool_or(d.state = 'cancelled') THEN 'cancelled'
        WHEN e.skipped @> '[{"r": "schema"}]' THEN 'failed'
        ELSE 'succeeded'
    END AS status
    FROM (
        SELECT u.state, u.state = 'in_flight'
            OR u.state = 'pending' AND u.attempts > 0 AND p.status IS DISTINCT FROM 'disabled' AS running
        FROM deliveries u
        LEFT JOIN endpoints p ON p.shard = @shard AND p.id = u.endpoint_id
        WHERE u.shard = @shard AND u.id = ANY (e.delivery_ids)
        UNION ALL
        SELECT f.state, false
        FROM unnest(e.delivery_ids) AS n (id)
        JOIN deliveries_finished f ON f.shard = @shard AND f.id = n.id
    ) d
) s`

// What a status filter looks at first, so that the rare ones among millions of events are found by their deliveries:
// those that are unfinished are few, those that failed have an index (deliveries_finished_unhappy_by_tenant), as those have
// that broke a schema (events_broken).
const (
	unfinishedSQL = ` AND e.id IN (SELECT event_id FROM deliveries WHERE shard = @shard AND tenant_id = @tenant
    UNION ALL SELECT event_id FROM events_unrouted WHERE shard = @shard)`
	failedSQL = ` AND e.id IN (
    SELECT event_id FROM deliveries_finished WHERE shard = @shard AND tenant_id = @tenant
      AND state = 'failed' AND state <> 'succeeded'
    UNION ALL SELECT b.id FROM events b WHERE b.shard = @shard AND b.tenant_id = @tenant AND b.skipped @> '[{"r": "schema"}]')`
)

// narrowing gives the condition that a status filter adds to a list.
func narrowing(status string) (string, error) {
	switch status {
	case "":
		return "", nil
	case statusScheduled, statusQueued, statusRunning:
		return unfinishedSQL, nil
	case statusFailed:
		return failedSQL, nil
	}
	if !slices.Contains(Statuses(), status) {
		return "", fault.InvalidAt("/status", "is none of %s", strings.Join(Statuses(), ", "))
	}
	return "", nil
}
