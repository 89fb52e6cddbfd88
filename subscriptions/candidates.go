package subscriptions

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// Candidate is an endpoint that an event may go to.
type Candidate struct {
	Endpoint   int64
	UID        *string
	EventTypes []string // patterns; empty: all
	Status     Status
}

// Candidates gives all endpoints of a tenant that are not deleted, oldest first, as the caller's transaction sees them.
// An endpoint that changes in the meantime does not make it wait: what is sent is settled when it is sent.
func Candidates(ctx context.Context, q pg.Querier, shard int16, tenant int64) ([]Candidate, error) {
	const query = `
SELECT id, uid, event_types, status::text
  FROM endpoints
 WHERE shard = @shard AND tenant_id = @tenant AND deleted_at IS NULL
 ORDER BY id` // endpoints_by_tenant
	rows, err := q.Query(ctx, query, pgx.StrictNamedArgs{"shard": shard, "tenant": tenant})
	if err != nil {
		return nil, fmt.Errorf("read a tenant's endpoints: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Candidate, err error) {
		err = row.Scan(&c.Endpoint, &c.UID, &c.EventTypes, &c.Status)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("read a tenant's endpoints: %w", err)
	}
	return out, nil
}
