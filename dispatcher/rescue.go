package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

const (
	// rescueEvery is how long to rest after a look for lost attempts, or rescueRest times as long as the look took.
	rescueEvery = 5 * time.Second
	rescueRest  = 100
	rescueBatch = 1000 // a piece
	// rescuePiece is how many of the table's blocks are read by a statement, 64 MiB of 8 KiB: some ten milliseconds.
	rescuePiece = 8192
)

// lostSQL finds attempts whose process did not come back in time. It only reads: what becomes of them is recorded like
// any other result, fenced by the very lease that ran out, so of two dispatchers that see the same one only one acts.
//
// It reads the whole table, piece by piece: an index for leases would have to be written with each claim, and the table has
// only what is not finished. A million rows take a tenth of a second, so one look in rescueRest of that is little.
const lostSQL = lostHead + `
  FROM (SELECT * FROM deliveries d
         WHERE d.ctid >= @from::text::tid AND d.ctid < @to::text::tid AND d.state = 'in_flight' AND d.leased_until < @now
         LIMIT @limit) d
  LEFT JOIN endpoints e ON e.shard = d.shard AND e.id = d.endpoint_id`

// lostHead is what readLost reads, of deliveries d and their endpoints e.
const lostHead = `
SELECT d.shard, d.id, d.tenant_id, d.event_id, d.endpoint_id, d.attempts, d.failures, d.rescues, coalesce(d.group_id, 0),
       coalesce(d.origin, 0::smallint), d.lane, d.lease_owner, d.leased_until, coalesce(e.version, 1), coalesce(e.url, '')`

// rescue hands every attempt whose lease ran out to the recorder as one with an unknown outcome, and says how many.
func (d *Dispatcher) rescue(ctx context.Context) (found int, err error) {
	var blocks int64
	const size = `SELECT pg_relation_size('deliveries') / current_setting('block_size')::bigint`
	if err := d.deps.DB.QueryRow(ctx, size).Scan(&blocks); err != nil {
		return 0, pg.Fault(fmt.Errorf("look for lost attempts: %w", err))
	}
	for from := int64(0); from <= blocks; from += rescuePiece {
		n, err := d.rescueIn(ctx, from)
		found += n
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// rescueIn looks through the piece of the table that begins with a block.
func (d *Dispatcher) rescueIn(ctx context.Context, block int64) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, dbPatience)
	defer cancel()
	now := d.deps.Now()
	rows, err := d.deps.DB.Query(ctx, lostSQL, pgx.StrictNamedArgs{
		"now": now, "limit": rescueBatch, "from": fmt.Sprintf("(%d,0)", block), "to": fmt.Sprintf("(%d,0)", block+rescuePiece),
	})
	var lost []result
	if err == nil {
		lost, err = pgx.CollectRows(rows, d.readLost(now))
	}
	if err != nil {
		return 0, pg.Fault(fmt.Errorf("look for lost attempts: %w", err))
	}
	found := 0
	for _, r := range lost {
		if !r.claimed.Pull { // those come to an end without anybody's death
			found++
		}
		select {
		case d.results <- r:
		case <-ctx.Done():
			return found, ctx.Err() //nolint:wrapcheck // the context's
		}
	}
	return found, nil
}

// readLost makes the result of a lease that has run out: of an attempt that nobody saw the end of, or of a delivery that was
// fetched and not acknowledged.
func (d *Dispatcher) readLost(now time.Time) pgx.RowToFunc[result] {
	return func(row pgx.CollectableRow) (result, error) {
		r := result{endedAt: now, target: &subscriptions.Target{}}
		c := &r.claimed
		var until time.Time
		var in lane
		err := row.Scan(&c.Shard, &c.ID, &c.TenantID, &c.EventID, &c.EndpointID, &c.Attempts, &c.Failures, &c.Rescues,
			&c.Group, &c.Origin, &in, &r.owner, &until, &r.target.Version, &r.target.URL)
		r.attemptID = d.deps.IDs.Next()
		if c.Pull = in == lanePull; c.Pull {
			return lapsed(r), err //nolint:wrapcheck // wrapped by who asks
		}
		r.signedAt = until.Add(-d.cfg.Lease).Unix() // about when it was claimed
		r.decision = Decide(Facts{Outcome: Unknown, Now: now, Failures: c.Failures, Rescues: c.Rescues})
		return r, err //nolint:wrapcheck // as above
	}
}
