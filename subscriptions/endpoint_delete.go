package subscriptions

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
)

// DeleteEndpoint takes an endpoint away. Its row stays, since history names it; its secrets, the values of its
// static headers and what it had for TLS do not. Its unfinished deliveries are left to whoever owns deliveries. The uid is free again.
func (s *Store) DeleteEndpoint(ctx context.Context, t Tenant, ref string) (Endpoint, error) {
	const query = `
UPDATE endpoints
   SET deleted_at = @now, updated_at = @now, version = version + 1, headers_sealed = NULL, headers_key_id = NULL,
       tls_ca = NULL, tls_certificate = NULL, tls_key_sealed = NULL, tls_key_id = NULL
 WHERE shard = @shard AND id = @id`
	var e Endpoint
	err := s.inTx(ctx, func(tx pgx.Tx, now time.Time) error {
		r, err := findEndpoint(ctx, tx, t.ID, ref, forUpdate)
		if err != nil {
			return err
		}
		if e, err = s.endpoint(r); err != nil {
			return err
		}
		e.Version, e.UpdatedAt, e.DeletedAt = e.Version+1, now, &now
		if _, err := tx.Exec(ctx, query, pgx.StrictNamedArgs{"shard": e.ID.Shard, "id": e.ID.N, "now": now}); err != nil {
			return fmt.Errorf("delete an endpoint: %w", err)
		}
		if err := deletePace(ctx, tx, e.ID.Shard, e.ID.N); err != nil {
			return err
		}
		if err := deleteSecrets(ctx, tx, e.ID); err != nil {
			return err
		}
		return s.note(ctx, tx, aboutEndpoint(e.ID, e.TenantID, audit.EndpointDeleted, nil))
	})
	if err != nil {
		return Endpoint{}, err
	}
	s.changed(e.ID)
	return e, nil
}
