package subscriptions

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// DropExpiredSecrets deletes a bucket's secrets whose overlap has ended, and says how many. They have signed nothing
// since: every read leaves them out.
func (s *Store) DropExpiredSecrets(ctx context.Context, shard int16) (int64, error) {
	const query = `
DELETE FROM endpoint_secrets WHERE shard = @shard AND expires_at <= @now` // endpoint_secrets_expiring
	tag, err := s.db.Exec(ctx, query, pgx.StrictNamedArgs{"shard": shard, "now": s.now()})
	if err != nil {
		return 0, pg.Fault(fmt.Errorf("delete expired secrets: %w", err))
	}
	return tag.RowsAffected(), nil
}
