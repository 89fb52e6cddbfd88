package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

const (
	// maxFetched is how many deliveries of an endpoint may be leased and not acknowledged, or little more: all of them stand
	// before what is due, and each poll reads past them.
	maxFetched = 1000
	// pullWindow is how many deliveries a look reads: what is fetched and the most that a poll may take.
	pullWindow = maxFetched + MaxPull
	// pullBytes bounds the payloads of one answer, unless the first alone is larger.
	pullBytes = 4 << 20
)

// lookSQL looks at the front of an endpoint's lane, where what is leased stays: what was due first was leased first.
// Index deliveries_due.
const lookSQL = `
SELECT count(*) FILTER (WHERE d.state <> 'in_flight') AS due,
       count(*) FILTER (WHERE d.state = 'in_flight' AND d.leased_until >= @now) AS fetched,
       count(*) FILTER (WHERE d.state = 'in_flight' AND d.leased_until < @now) AS lapsed
  FROM ` + pullFront

const pullFront = `(SELECT * FROM deliveries d
         WHERE d.shard::integer = @shard::integer AND d.endpoint_id = @endpoint AND d.lane = @pull::smallint
           AND d.next_retry_at <= @now
         ORDER BY d.next_retry_at LIMIT @window) d`

// sight is what a look has seen.
type sight struct{ Due, Fetched, Lapsed int }

func (p *Pull) look(ctx context.Context, endpoint id.ID, now time.Time) (s sight, err error) {
	err = p.query(ctx, lookSQL, frontOf(endpoint, now), func(rows pgx.Rows) (err error) {
		s, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[sight])
		return err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return sight{}, pg.Fault(fmt.Errorf("look for what is due to an endpoint: %w", err))
	}
	return s, nil
}

func frontOf(endpoint id.ID, now time.Time) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{
		"shard": endpoint.Shard, "endpoint": endpoint.N, "pull": lanePull, "now": now, "window": pullWindow,
	}
}

// fetchSQL leases the oldest due deliveries of an endpoint, each by a lease of its own, as many as their payloads fit into an
// answer. Rows that another poll is just leasing are skipped. Index deliveries_due; then deliveries_pkey and events_pkey.
const fetchSQL = `
WITH due AS MATERIALIZED (
    SELECT d.shard, d.id, d.event_id, d.next_retry_at FROM deliveries d
     WHERE d.shard::integer = @shard::integer AND d.endpoint_id = @endpoint AND d.lane = @pull::smallint
       AND d.next_retry_at <= @now AND d.state IN ('scheduled', 'pending')
     ORDER BY d.next_retry_at LIMIT @limit FOR UPDATE SKIP LOCKED
), sized AS (
    SELECT due.shard, due.id, row_number() OVER turn AS n, sum(coalesce(e.size, 0)) OVER turn - coalesce(e.size, 0) AS before
      FROM due LEFT JOIN LATERAL (
           SELECT octet_length(e.payload) AS size FROM events e
            WHERE e.shard = due.shard AND e.id = due.event_id AND NOT @bare LIMIT 1) e ON true
    WINDOW turn AS (ORDER BY due.next_retry_at, due.id)
), leased AS (
    UPDATE deliveries d SET state = 'in_flight', attempts = d.attempts + 1, lease_owner = (@leases::bigint[])[s.n],
           leased_until = @until
      FROM sized s WHERE d.shard = s.shard AND d.id = s.id AND s.before < @bytes
    RETURNING d.shard, d.id, d.tenant_id, d.event_id, d.endpoint_id, d.attempts, d.failures, d.rescues, d.next_retry_at,
        d.group_id, d.origin, d.lease_owner
)
SELECT l.shard, l.id, l.tenant_id, l.event_id, l.endpoint_id, l.attempts, l.failures, l.rescues, l.next_retry_at,
       coalesce(l.group_id, 0), coalesce(l.origin, 0::smallint), l.lease_owner, e.type, e.content_type, e.size, e.payload
  FROM leased l LEFT JOIN LATERAL (
       SELECT ` + eventColumns + `
         FROM events e WHERE e.shard = l.shard AND e.id = l.event_id AND NOT @bare LIMIT 1) e ON true
 ORDER BY l.next_retry_at, l.id`

// lease takes leases. Where the database does not give an event away, it leases without events and reads these one by one.
func (p *Pull) lease(ctx context.Context, endpoint id.ID, target *subscriptions.Target, ask Ask) ([]result, error) {
	got, err := p.leaseBatch(ctx, endpoint, target, ask, withEvents)
	if !refused(ctx, err) {
		return got, err
	}
	got, err = p.leaseBatch(ctx, endpoint, target, ask, bare)
	for i := range got {
		got[i].claimed = p.d.readEvents(ctx, []claimed{got[i].claimed})[0]
	}
	return got, err
}

func (p *Pull) leaseBatch(
	ctx context.Context, endpoint id.ID, target *subscriptions.Target, ask Ask, with baggage,
) (got []result, err error) {
	ctx = context.WithoutCancel(ctx) // what is leased must not be lost sight of
	now := p.d.deps.Now()
	until := now.Add(ask.Lease)
	leases := make([]int64, ask.Limit)
	for i := range leases {
		leases[i] = p.d.deps.IDs.Next()
	}
	err = p.query(ctx, fetchSQL, pgx.StrictNamedArgs{
		"shard": endpoint.Shard, "endpoint": endpoint.N, "pull": lanePull, "now": now, "limit": ask.Limit, "leases": leases,
		"until": until, "bytes": pullBytes, "inline": pullBytes, "bare": with == bare,
	}, func(rows pgx.Rows) (err error) {
		got, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (result, error) {
			r := result{target: target, claimed: claimed{Pull: true, leaseEnds: until}}
			c := &r.claimed
			err := row.Scan(&c.Shard, &c.ID, &c.TenantID, &c.EventID, &c.EndpointID, &c.Attempts, &c.Failures, &c.Rescues,
				&c.DueAt, &c.Group, &c.Origin, &r.owner, &c.EventType, &c.ContentType, &c.Size, &c.Payload)
			r.attemptID = r.owner
			return r, err //nolint:wrapcheck // wrapped below
		})
		return err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("lease deliveries to a poll: %w", err))
	}
	return got, nil
}
