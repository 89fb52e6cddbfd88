package dispatcher

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// What a job does to many deliveries of one bucket, in its own transaction. Each statement takes the ids that it is given and
// acts on those that are still in one of the states that were meant: what has changed since, what is in flight and what
// somebody else has locked is passed over, and the job counts it as skipped.

// Many names deliveries of one bucket, and the states that they have to be in.
type Many struct {
	Shard  int16
	IDs    []int64
	States []State
}

func (m Many) args(now time.Time) pgx.StrictNamedArgs {
	states := make([]string, len(m.States))
	for i, s := range m.States {
		states[i] = s.String()
	}
	return pgx.StrictNamedArgs{"shard": m.Shard, "ids": m.IDs, "states": states, "now": now}
}

// pickedSQL is those that wait: by deliveries_pkey, in the order of ids. Their state is worked out as shownHead does.
const pickedSQL = `
    SELECT d.id FROM deliveries d
    WHERE d.shard = @shard AND d.id = ANY (@ids::bigint[]) AND d.state IN ('scheduled', 'pending')
        AND CASE WHEN (SELECT e.status FROM endpoints e WHERE e.shard = @shard AND e.id = d.endpoint_id) = 'disabled' THEN 'held'
            WHEN d.state = 'scheduled' AND d.next_retry_at > @now THEN 'scheduled'
            ELSE 'pending' END = ANY (@states::text[])`

const inOrderSQL = ` ORDER BY d.id FOR UPDATE OF d SKIP LOCKED`

// mayGoSQL is what a retry by hand asks as well. The look-ups give one value each, so that no plan reads whole tables for them.
const mayGoSQL = `
        AND (SELECT e.status <> 'dead' AND e.deleted_at IS NULL FROM endpoints e
            WHERE e.shard = @shard AND e.id = d.endpoint_id)
        AND (SELECT true FROM events ev WHERE ev.shard = @shard AND ev.id = d.event_id LIMIT 1)`

// againSQL is retrySQL for many: due at once with their schedules afresh, but behind first attempts. Indexes deliveries_pkey,
// deliveries_finished_pkey, endpoints_pkey, events_pkey.
const againSQL = `
WITH picked AS MATERIALIZED (` + pickedSQL + mayGoSQL + inOrderSQL + `
), waiting AS (
    UPDATE deliveries d SET state = 'pending', next_retry_at = @now, failures = 0, rescues = 0, origin = @origin,
        lane = CASE WHEN d.lane = @pull THEN d.lane WHEN d.group_id IS NULL THEN @retry::smallint ELSE @ordered::smallint END
    WHERE d.shard = @shard AND d.id = ANY (ARRAY(SELECT p.id FROM picked p))
    RETURNING d.id
), taken AS (
    DELETE FROM deliveries_finished d
    WHERE d.shard = @shard AND d.id = ANY (@ids::bigint[]) AND d.state = ANY (@finished::text[]::delivery_state[])` + mayGoSQL + `
    RETURNING d.id, d.tenant_id, d.event_id, d.endpoint_id, d.attempts, d.last_outcome, d.last_status, d.group_id
), back AS (
    INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, attempts, next_retry_at, last_outcome,
        last_status, group_id, lane, origin)
    SELECT @shard, t.id, t.tenant_id, t.event_id, t.endpoint_id, 'pending', t.attempts, @now, t.last_outcome,
        t.last_status, t.group_id, CASE WHEN t.group_id IS NOT NULL THEN @ordered::smallint WHEN ` + fetchedSQL + ` THEN @pull::smallint
            ELSE @retry::smallint END, @origin
    FROM taken t
    RETURNING id
)
SELECT id FROM waiting UNION ALL SELECT id FROM back`

// QueueRetries queues what makes many deliveries due again, as Desk.Retry does one. done hears how many it were.
func QueueRetries(b *pgx.Batch, m Many, now time.Time, done func(n int)) {
	queueAgain(b, m, retried, now, done)
}

// QueueReplays queues what sends finished deliveries again as replays.
func QueueReplays(b *pgx.Batch, m Many, now time.Time, done func(n int)) {
	queueAgain(b, m, replayed, now, done)
}

func queueAgain(b *pgx.Batch, m Many, from origin, now time.Time, done func(n int)) {
	if len(m.IDs) == 0 {
		return
	}
	args := m.args(now)
	args["origin"], args["retry"], args["ordered"], args["pull"] = from, laneRetry, laneOrdered, lanePull
	finished := []string{}
	for _, s := range m.States {
		if s.Finished() {
			finished = append(finished, s.String())
		}
	}
	args["finished"] = finished
	b.Queue(againSQL, args).Query(counted(done))
}

// Index deliveries_pkey.
const cancelManySQL = cancelHead + pickedSQL + inOrderSQL + cancelTail + `
SELECT id FROM moved`

// QueueCancels queues what cancels many deliveries, as Desk.Cancel does one.
func QueueCancels(b *pgx.Batch, m Many, reason Reason, now time.Time, done func(n int)) {
	if len(m.IDs) == 0 {
		return
	}
	args := m.args(now)
	args["reason"] = string(reason)
	b.Queue(cancelManySQL, args).Query(counted(done))
}

func counted(done func(n int)) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		n := 0
		var dlv int64
		_, err := pgx.ForEachRow(rows, []any{&dlv}, func() error { n++; return nil })
		if err == nil {
			done(n)
		}
		return err //nolint:wrapcheck // whoever sends the batch says what it was
	}
}

// replaySQL is enqueueSQL for what an endpoint never got. It is a statement of its own: accepting events is not to pay for it.
const replaySQL = `
INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, next_retry_at, group_id, lane, origin)
SELECT n.shard, n.id, n.tenant_id, n.event_id, n.endpoint_id,
       CASE WHEN n.scheduled THEN 'scheduled'::delivery_state ELSE 'pending'::delivery_state END, n.due_at, nullif(n.group_id, 0),
       CASE WHEN n.group_id <> 0 THEN @ordered::smallint WHEN n.pull THEN @pull::smallint ELSE @retry::smallint END, @origin::smallint
  FROM unnest(@shards::smallint[], @ids::bigint[], @tenants::bigint[], @events::bigint[], @endpoints::bigint[],
              @dues::timestamptz[], @scheduled::boolean[], @groups::bigint[], @pulls::boolean[])
    AS n(shard, id, tenant_id, event_id, endpoint_id, due_at, scheduled, group_id, pull)`

// QueueNewReplays queues what makes deliveries of events that are past.
func QueueNewReplays(b *pgx.Batch, news []NewDelivery) {
	if len(news) == 0 {
		return
	}
	var shards []int16
	var ids, tenants, events, endpoints, groups []int64
	var dues []time.Time
	var scheduled, pulls []bool
	for _, d := range news {
		shards, ids, tenants, events = append(shards, d.Shard), append(ids, d.ID), append(tenants, d.Tenant), append(events, d.Event)
		endpoints, dues, scheduled = append(endpoints, d.Endpoint), append(dues, d.DueAt), append(scheduled, d.Scheduled)
		groups, pulls = append(groups, d.Group), append(pulls, d.Pull)
	}
	b.Queue(replaySQL, pgx.StrictNamedArgs{
		"shards": shards, "ids": ids, "tenants": tenants, "events": events, "endpoints": endpoints, "dues": dues,
		"scheduled": scheduled, "groups": groups, "pulls": pulls, "retry": laneRetry, "ordered": laneOrdered, "pull": lanePull, "origin": replayed,
	})
}
