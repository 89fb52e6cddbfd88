package subscriptions

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
)

// DeleteTenant takes a tenant away with all its endpoints, and gives the ids of those it took. As with DeleteEndpoint
// the rows stay and the secrets do not; their unfinished deliveries are left to whoever owns deliveries. The uid is free
// again.
func (s *Store) DeleteTenant(ctx context.Context, ref string) (Tenant, []id.ID, error) {
	const markTenant = `
UPDATE tenants SET deleted_at = @now, updated_at = @now WHERE shard = @shard AND id = @id`
	var t Tenant
	var endpoints []id.ID
	err := s.inTx(ctx, func(tx pgx.Tx, now time.Time) error {
		var err error
		// The lock waits for endpoints that are being made, and lets none be made after.
		if t, err = findTenant(ctx, tx, ref, ` FOR NO KEY UPDATE`); err != nil {
			return err
		}
		args := pgx.StrictNamedArgs{"shard": t.ID.Shard, "id": t.ID.N, "now": now}
		if _, err := tx.Exec(ctx, markTenant, args); err != nil {
			return fmt.Errorf("delete a tenant: %w", err)
		}
		t.UpdatedAt = now
		if endpoints, err = deleteEndpointsOf(ctx, tx, t.ID, now); err != nil {
			return err
		}
		if err := deletePace(ctx, tx, t.ID.Shard, numbers(endpoints)...); err != nil {
			return err
		}
		if err := deleteSecretsOf(ctx, tx, endpoints); err != nil {
			return err
		}
		return s.noteTenantGone(ctx, tx, t.ID, endpoints)
	})
	if err != nil {
		return Tenant{}, nil, err
	}
	for _, e := range endpoints {
		s.changed(e)
	}
	return t, endpoints, nil
}

func deleteEndpointsOf(ctx context.Context, tx pgx.Tx, t id.ID, now time.Time) ([]id.ID, error) {
	const query = `
WITH theirs AS MATERIALIZED (
     SELECT id FROM endpoints
      WHERE shard = @shard AND tenant_id = @tenant AND deleted_at IS NULL
      ORDER BY id FOR NO KEY UPDATE)
UPDATE endpoints e
   SET deleted_at = @now, updated_at = @now, version = version + 1, headers_sealed = NULL, headers_key_id = NULL,
       tls_ca = NULL, tls_certificate = NULL, tls_key_sealed = NULL, tls_key_id = NULL
  FROM theirs
 WHERE e.shard = @shard AND e.id = theirs.id
RETURNING e.id` // endpoints_by_tenant
	rows, err := tx.Query(ctx, query, pgx.StrictNamedArgs{"shard": t.Shard, "tenant": t.N, "now": now})
	if err != nil {
		return nil, fmt.Errorf("delete a tenant's endpoints: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (id.ID, error) {
		e := id.ID{Shard: t.Shard}
		err := row.Scan(&e.N)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("delete a tenant's endpoints: %w", err)
	}
	return out, nil
}

func deleteSecretsOf(ctx context.Context, tx pgx.Tx, endpoints []id.ID) error {
	const query = `
DELETE FROM endpoint_secrets WHERE shard = @shard AND endpoint_id = ANY (@endpoints)` // the primary key
	if len(endpoints) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, query, pgx.StrictNamedArgs{"shard": endpoints[0].Shard, "endpoints": numbers(endpoints)})
	if err != nil {
		return fmt.Errorf("delete a tenant's secrets: %w", err)
	}
	return nil
}

func numbers(endpoints []id.ID) []int64 {
	out := make([]int64, 0, len(endpoints))
	for _, e := range endpoints {
		out = append(out, e.N)
	}
	return out
}
