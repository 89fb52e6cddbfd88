package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

const (
	rescueEvery = 5 * time.Second
	rescueBatch = 1000 // per bucket and round
)

// lostSQL finds attempts whose process did not come back in time. It only reads: what becomes of them is recorded like
// any other result, fenced by the very lease that ran out, so of two dispatchers that see the same one only one acts.
// Index deliveries_leased.
const lostSQL = `
SELECT d.id, d.tenant_id, d.event_id, d.endpoint_id, d.attempts, d.failures, d.rescues, d.lease_owner, d.leased_until,
       coalesce(e.version, 1), coalesce(e.url, '')
  FROM deliveries d LEFT JOIN endpoints e ON e.shard = @shard AND e.id = d.endpoint_id
 WHERE d.shard = @shard AND d.state = 'in_flight' AND d.leased_until < @now
 ORDER BY d.leased_until LIMIT @limit`

// rescue hands every attempt whose lease ran out to the recorder as one with an unknown outcome, and says how many.
func (d *Dispatcher) rescue(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, dbPatience)
	defer cancel()
	now := d.deps.Now()
	batch := &pgx.Batch{}
	var lost []result
	for shard := range int16(id.Buckets) {
		batch.Queue(lostSQL, pgx.StrictNamedArgs{"shard": shard, "now": now, "limit": rescueBatch}).Query(
			func(rows pgx.Rows) error {
				got, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (result, error) {
					r := result{claimed: claimed{Shard: shard}, endedAt: now}
					c := &r.claimed
					var until time.Time
					err := row.Scan(&c.ID, &c.TenantID, &c.EventID, &c.EndpointID, &c.Attempts, &c.Failures, &c.Rescues,
						&r.owner, &until, &r.target.Version, &r.target.URL)
					r.signedAt = until.Add(-d.cfg.Lease).Unix() // about when it was claimed
					return r, err                               //nolint:wrapcheck // wrapped below
				})
				lost = append(lost, got...)
				return err //nolint:wrapcheck // wrapped below, once for all buckets
			})
	}
	if err := d.deps.DB.SendBatch(ctx, batch).Close(); err != nil {
		return 0, pg.Fault(fmt.Errorf("look for lost attempts: %w", err))
	}
	for _, r := range lost {
		r.attemptID = d.deps.IDs.Next()
		r.decision = Decide(Facts{Outcome: Unknown, Now: now, Failures: r.claimed.Failures, Rescues: r.claimed.Rescues})
		select {
		case d.results <- r:
		case <-ctx.Done():
			return len(lost), ctx.Err() //nolint:wrapcheck // the context's
		}
	}
	return len(lost), nil
}
