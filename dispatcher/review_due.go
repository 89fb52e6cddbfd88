package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Index deliveries_due: the first of each lane, behind those of it that are in flight, of which an endpoint has few.
const oldestDueSQL = `
SELECT min(first.next_retry_at)
  FROM generate_series(0, @lanes::integer - 1) lane, LATERAL (
    SELECT d.next_retry_at FROM deliveries d
     WHERE d.shard::integer = @shard::integer AND d.endpoint_id = @endpoint AND d.lane = lane::smallint
       AND d.next_retry_at <= @now AND d.state <> 'in_flight'
     ORDER BY d.next_retry_at LIMIT 1) first`

// OldestDue says since when the delivery of an endpoint is due that has waited longest, held ones included; nil: none is. One in
// flight is not waiting.
func (k *Desk) OldestDue(ctx context.Context, endpoint id.ID) (*time.Time, error) {
	var due *time.Time
	err := k.deps.DB.QueryRow(ctx, oldestDueSQL, pgx.StrictNamedArgs{
		"lanes": int(lanePull) + 1, "shard": endpoint.Shard, "endpoint": endpoint.N, "now": k.deps.Now(),
	}).Scan(&due)
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("look for the oldest due delivery of an endpoint: %w", err))
	}
	return due, nil
}
