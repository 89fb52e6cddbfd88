package subscriptions

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// ClosedEndpoints gives the endpoints of a bucket that get nothing any more, dead or deleted, oldest first. An event
// that was accepted while one of them was closed may have left it a delivery: the sweep looks for those.
func (s *Store) ClosedEndpoints(ctx context.Context, shard int16) ([]id.ID, error) {
	const query = `
SELECT id FROM endpoints
 WHERE shard = @shard AND (status = 'dead' OR deleted_at IS NOT NULL)
 ORDER BY id` // endpoints_closed
	rows, err := s.db.Query(ctx, query, pgx.StrictNamedArgs{"shard": shard})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("list closed endpoints: %w", err))
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (id.ID, error) {
		e := id.ID{Shard: shard}
		err := row.Scan(&e.N)
		return e, err
	})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("list closed endpoints: %w", err))
	}
	return out, nil
}
