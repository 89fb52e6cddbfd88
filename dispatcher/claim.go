package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// claimed is a delivery that this process holds the lease of, with what its event says.
type claimed struct {
	Shard       int16
	ID          int64
	TenantID    int64
	EventID     int64
	EndpointID  int64
	Attempts    int // the number of the attempt that the claim is for
	Failures    int
	Rescues     int
	DueAt       time.Time
	Group       int64 // 0: none
	Pull        bool  // it is fetched, and not sent
	Origin      origin
	EventType   *string // nil: the event is gone, which makes the delivery unsendable
	ContentType *string
	Size        *int
	Payload     []byte // nil when Size is above inlinePayload
	Trace       []byte // what is kept of the trace that the event came in; nil: nothing

	leaseEnds time.Time // by this process's monotonic clock
	slotAt    time.Time // its slot of the endpoint's rate limit; zero: at once
	slotless  bool      // it has none: slotAt is when there may be one
	past      bool      // it goes past its endpoint's open breaker, having waited long enough
	turn      time.Time // it probes its endpoint's breaker, and its turn to do so ends then; zero: it does not
	spoilt    error     // why its event could not be read
}

func (c claimed) delivery() id.ID { return id.ID{Shard: c.Shard, N: c.ID} }
func (c claimed) event() id.ID    { return id.ID{Shard: c.Shard, N: c.EventID} }
func (c claimed) endpoint() id.ID { return id.ID{Shard: c.Shard, N: c.EndpointID} }

// putOff is how much later than it was made a delivery is due that has a time of its own. Others are due when they are made.
const putOff = 50 * time.Millisecond

// timed reports whether the delivery had a time of its own.
func (c claimed) timed() bool { return c.Attempts == 1 && c.DueAt.Sub(id.TimeOf(c.ID)) > putOff }

// lane is where the delivery waited, and will wait again if it has failed no more than before.
func (c claimed) lane() lane { return c.laneAfter(c.Failures, c.Rescues) }

// laneAfter is where it will wait with so many failures and rescues.
func (c claimed) laneAfter(failures, rescues int) lane {
	if c.Pull {
		return lanePull
	}
	return laneOf(c.Group, failures, rescues, c.Origin)
}

// wish is how many due deliveries of one endpoint's lane a claim may take.
type wish struct {
	endpoint int64
	lane     lane
	slots    int
	from     time.Time // nothing that was due before is left
	until    time.Time // only what was due by then; zero: now
	group    int64     // of the lane of groups: the one to begin behind
}

func (w wish) dueBy(now time.Time) time.Time {
	if w.until.IsZero() {
		return now
	}
	return w.until
}

// claimSQL leases the oldest due deliveries of each wished-for lane, at most as many as it has free slots: never one
// queue for all, in which one endpoint's backlog would stand before everybody. Rows another dispatcher is just claiming
// are skipped. Index deliveries_due, per endpoint and lane in order; then deliveries_pkey and events_pkey. What is in
// flight is read past: it stays in the index where it was due, so that leasing it changes no index.
//
// The arrays and LIMIT are there for the planner: they leave it no way but the index, whatever the statistics of a
// table say that goes from empty to a million rows and back.
const claimSQL = `
WITH due AS MATERIALIZED (
    SELECT l.shard, l.id
      FROM unnest(@shards::smallint[], @endpoints::bigint[], @lanes::smallint[], @slots::integer[], @froms::timestamptz[],
               @untils::timestamptz[])
        AS w(shard, endpoint_id, lane, slots, since, until)
    CROSS JOIN LATERAL (
        SELECT d.shard, d.id FROM deliveries d
         WHERE d.shard::integer = w.shard AND d.endpoint_id = w.endpoint_id AND d.lane = w.lane
           AND d.next_retry_at >= w.since AND d.next_retry_at <= w.until AND d.state IN ('scheduled', 'pending')
         ORDER BY d.next_retry_at LIMIT w.slots FOR UPDATE SKIP LOCKED) l
), ` + leaseTail

// eventColumns is what a delivery needs of its event e, with the payload unless that is large.
const eventColumns = `e.type, e.content_type, octet_length(e.payload) AS size,
       CASE WHEN octet_length(e.payload) <= @inline THEN e.payload END AS payload, e.trace`

// leaseTail leases what the query due found, and brings it with its events, unless it is to be bare.
const leaseTail = `leased AS (
    UPDATE deliveries d SET state = 'in_flight', attempts = d.attempts + 1, lease_owner = @owner, leased_until = @until
      FROM due WHERE d.shard = due.shard AND d.id = due.id
    RETURNING d.shard, d.id, d.tenant_id, d.event_id, d.endpoint_id, d.attempts, d.failures, d.rescues, d.next_retry_at,
        d.group_id, d.origin
)
SELECT l.shard, l.id, l.tenant_id, l.event_id, l.endpoint_id, l.attempts, l.failures, l.rescues, l.next_retry_at,
       coalesce(l.group_id, 0), coalesce(l.origin, 0::smallint), e.type, e.content_type, e.size, e.payload, e.trace
  FROM leased l LEFT JOIN LATERAL (
       SELECT ` + eventColumns + `
         FROM events e WHERE e.shard = l.shard AND e.id = l.event_id AND NOT @bare LIMIT 1) e ON true`

// claim takes leases.
func (d *Dispatcher) claim(ctx context.Context, wishes map[int16][]wish) ([]claimed, error) {
	got, err := d.claimBatch(ctx, wishes, withEvents)
	if !refused(ctx, err) {
		return got, err
	}
	return d.claimApart(ctx, wishes, d.claimBatch)
}

func (d *Dispatcher) claimBatch(ctx context.Context, wishes map[int16][]wish, with baggage) ([]claimed, error) {
	if len(wishes) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, dbPatience)
	defer cancel()
	var shards, lanes []int16
	var endpoints []int64
	var slots []int32
	var froms, untils []time.Time
	now := d.deps.Now()
	for shard, list := range wishes {
		for _, w := range list {
			shards, endpoints, lanes = append(shards, shard), append(endpoints, w.endpoint), append(lanes, int16(w.lane))
			slots, froms = append(slots, int32(w.slots)), append(froms, w.from) //nolint:gosec // at most max_in_flight
			untils = append(untils, w.dueBy(now))
		}
	}
	args := d.leaseArgs(now, with)
	args["shards"], args["endpoints"], args["lanes"], args["slots"] = shards, endpoints, lanes, slots
	args["froms"], args["untils"] = froms, untils
	var out []claimed
	if err := d.ask(ctx, claimSQL, args, collectClaimed(&out)); err != nil {
		return nil, pg.Fault(fmt.Errorf("claim deliveries: %w", err))
	}
	return out, nil
}

// ask runs one of the queue's statements, in a transaction of its own.
func (d *Dispatcher) ask(ctx context.Context, sql string, args pgx.StrictNamedArgs, read func(pgx.Rows) error) error {
	if d.common {
		b := &pgx.Batch{} // which goes out as one
		pg.AsQueue(b)
		b.Queue(sql, args).Query(read)
		return d.deps.Queue.SendBatch(ctx, b).Close() //nolint:wrapcheck // whoever asks says what for
	}
	rows, err := d.deps.Queue.Query(ctx, sql, args)
	if err != nil {
		return err //nolint:wrapcheck // as above
	}
	return read(rows)
}

func (d *Dispatcher) leaseArgs(now time.Time, with baggage) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{
		"owner": d.owner, "until": now.Add(d.cfg.Lease), "inline": inlinePayload, "bare": with == bare,
	}
}

// collectClaimed reads rows by position: it is the hottest read there is, and reading by name costs a look-up a column.
func collectClaimed(out *[]claimed) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			var c claimed
			err := rows.Scan(&c.Shard, &c.ID, &c.TenantID, &c.EventID, &c.EndpointID, &c.Attempts, &c.Failures, &c.Rescues, &c.DueAt,
				&c.Group, &c.Origin, &c.EventType, &c.ContentType, &c.Size, &c.Payload, &c.Trace)
			if err != nil {
				return err //nolint:wrapcheck // wrapped by whoever claims, once for all buckets
			}
			*out = append(*out, c)
		}
		return rows.Err() //nolint:wrapcheck // as above
	}
}
