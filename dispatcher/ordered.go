package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Of deliveries that go in the order of their group, only the head of each group may be claimed: the oldest that is not
// finished. It holds back the others of its group while it is in flight or waits for a retry, and no other group.
//
// A head that was lost with its process again and again is in another lane. It holds its group back like any, and is claimed by
// claimSQL.
//
// A head that is not due before its event's deliver_at holds nothing back: its turn comes when its time does.

const (
	firstGroup int64 = math.MinInt64
	// walkLimit is how many groups a claim looks at, some microseconds each: a walk over many goes on in the next.
	walkLimit = 256
	// lateHeads is how far behind a group's head is looked for one in flight. There is one if the head was committed only
	// after a younger one had been claimed; intake keeps events of one group out of transactions that run side by side, so
	// it takes two processes to do that.
	lateHeads = 16
	// returnedHeads is the same behind a head that was tried before: there may be as many as came back by hand at once.
	returnedHeads = 1000
	// lockPatience is how long a claim waits for an endpoint's row: far longer than a record has it. Whoever has it for longer,
	// such as a process that was stopped in the middle of a transaction, must not hold up other endpoints. Then the endpoint
	// is left alone for lockRest.
	lockPatience = 100 * time.Millisecond
	lockRest     = 200 * time.Millisecond
)

const patienceSQL = `SELECT set_config('lock_timeout', @patience, true)` // milliseconds, of this transaction

// oneAtATimeSQL keeps two dispatchers from claiming groups of the same endpoints at the same moment: each would find none
// of a group in flight. It is a statement of its own, since the next one has to see what the other has committed. Index
// endpoints_pkey, in the order of ids, as all who lock endpoints do.
const oneAtATimeSQL = `
SELECT FROM endpoints e WHERE e.shard = @shard AND e.id = ANY (@endpoints::bigint[]) ORDER BY e.id FOR NO KEY UPDATE`

// orderedSQL walks over the groups of one endpoint from behind @group on and leases the heads that are due, at most @slots.
// Index deliveries_in_group: one probe a group, as in discoverSQL. Its last row is no delivery: it says which group the walk
// ended with, and whether there was none behind.
const orderedSQL = `
WITH RECURSIVE heads AS (
    (SELECT d.group_id, d.id, d.state, d.next_retry_at, d.attempts, d.lane, 1 AS n FROM deliveries d
      WHERE d.shard::bigint = @shard AND d.endpoint_id = @endpoint AND d.group_id > @group
        AND (d.state <> 'scheduled' OR d.next_retry_at <= @now)
      ORDER BY d.group_id, d.id LIMIT 1)
    UNION ALL
    SELECT n.group_id, n.id, n.state, n.next_retry_at, n.attempts, n.lane, h.n + 1 FROM heads h CROSS JOIN LATERAL (
        SELECT d.group_id, d.id, d.state, d.next_retry_at, d.attempts, d.lane FROM deliveries d
         WHERE d.shard::bigint = @shard AND d.endpoint_id = @endpoint AND d.group_id > h.group_id
           AND (d.state <> 'scheduled' OR d.next_retry_at <= @now)
         ORDER BY d.group_id, d.id LIMIT 1) n
     WHERE h.n < @walk
), free AS MATERIALIZED (
    SELECT h.id, h.group_id FROM heads h
     WHERE h.state <> 'in_flight' AND h.next_retry_at <= @until_due AND h.lane = @lane
       AND NOT EXISTS (SELECT FROM (
            SELECT d.state FROM deliveries d
             WHERE d.shard::bigint = @shard AND d.endpoint_id = @endpoint AND d.group_id = h.group_id
             ORDER BY d.id LIMIT CASE WHEN h.attempts = 0 THEN @late::integer ELSE @returned::integer END) x WHERE x.state = 'in_flight')
     ORDER BY h.n LIMIT @slots
), walk AS (
    SELECT coalesce(max(h.group_id), @group::bigint) AS group_id, count(*) AS n FROM heads h
), due AS MATERIALIZED (
    SELECT l.shard, l.id FROM free CROSS JOIN LATERAL (
        SELECT d.shard, d.id FROM deliveries d
         WHERE d.shard = @shard AND d.id = free.id AND d.state IN ('scheduled', 'pending')
         LIMIT 1 FOR UPDATE SKIP LOCKED) l
), ` + leaseTail + `
UNION ALL
SELECT @shard::smallint, 0, 0, 0, 0, 0, 0, 0, @now,
       CASE WHEN (SELECT count(*) FROM free) < @slots THEN w.group_id ELSE (SELECT max(free.group_id) FROM free) END, 0::smallint,
       CASE WHEN (SELECT count(*) FROM free) < @slots AND w.n < @walk THEN 'whole' END, NULL, NULL, NULL, NULL
  FROM walk w`

// claimOrdered takes leases of groups' heads, one transaction a bucket.
func (d *Dispatcher) claimOrdered(ctx context.Context, wishes map[int16][]wish) ([]claimed, error) {
	var got []claimed
	for _, shard := range slices.Sorted(maps.Keys(wishes)) {
		one := map[int16][]wish{shard: wishes[shard]}
		some, err := d.claimGroups(ctx, one, withEvents)
		if refused(ctx, err) {
			some, err = d.claimApart(ctx, one, d.claimGroups)
		}
		if got = append(got, some...); err != nil {
			return leasedOr(got, err)
		}
	}
	return got, nil
}

// claimGroups takes leases in one bucket. Endpoints whose rows somebody holds are left alone for a while, and no others.
func (d *Dispatcher) claimGroups(ctx context.Context, wishes map[int16][]wish, with baggage) (got []claimed, err error) {
	for shard, list := range wishes {
		some, err := d.claimHeads(ctx, shard, list, with)
		var pgErr *pgconn.PgError
		switch {
		case !errors.As(err, &pgErr) || pgErr.Code != "55P03": // lock_not_available
		case len(list) == 1:
			d.roads.close(id.ID{Shard: shard, N: list[0].endpoint}, d.deps.Now().Add(lockRest))
			err = nil
		default:
			some, err = d.claimEach(ctx, shard, list, with)
		}
		got = append(got, some...)
		if err != nil {
			return got, err
		}
	}
	return got, nil
}

// claimEach asks for one endpoint after the other.
func (d *Dispatcher) claimEach(ctx context.Context, shard int16, list []wish, with baggage) (got []claimed, err error) {
	for _, w := range list {
		some, err := d.claimGroups(ctx, map[int16][]wish{shard: {w}}, with)
		got = append(got, some...)
		if err != nil {
			return got, err
		}
	}
	return got, nil
}

func (d *Dispatcher) claimHeads(ctx context.Context, shard int16, wishes []wish, with baggage) (got []claimed, err error) {
	ctx, cancel := context.WithTimeout(ctx, dbPatience)
	defer cancel()
	endpoints := make([]int64, len(wishes))
	for i, w := range wishes {
		endpoints[i] = w.endpoint
	}
	now := d.deps.Now()
	found := make([][]claimed, len(wishes))
	err = pg.InTx(ctx, d.deps.Queue, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		if d.common {
			pg.AsQueue(batch)
		}
		batch.Queue(patienceSQL, pgx.StrictNamedArgs{"patience": strconv.FormatInt(lockPatience.Milliseconds(), 10)})
		batch.Queue(oneAtATimeSQL, pgx.StrictNamedArgs{"shard": shard, "endpoints": endpoints})
		for i, w := range wishes {
			found[i] = nil
			args := d.leaseArgs(now, with)
			args["shard"], args["endpoint"], args["slots"], args["group"] = shard, w.endpoint, w.slots, w.group
			args["now"], args["until_due"], args["lane"] = now, w.dueBy(now), laneOrdered
			args["walk"], args["late"], args["returned"] = walkLimit, lateHeads, returnedHeads
			batch.Queue(orderedSQL, args).Query(collectClaimed(&found[i]))
		}
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return fmt.Errorf("claim deliveries of groups: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, w := range wishes {
		last := len(found[i]) - 1 // the walk's own row
		walk, some := found[i][last], found[i][:last]
		if d.roads.walked(now, id.ID{Shard: shard, N: w.endpoint}, len(some), walk.Group, walk.EventType != nil) {
			d.woken.addSoon(shard)
		}
		got = append(got, some...)
	}
	return got, nil
}
