package subscriptions

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Tenant gives a tenant by its id or uid. One that was deleted is not_found.
func (s *Store) Tenant(ctx context.Context, ref string) (Tenant, error) {
	t, err := findTenant(ctx, s.db, ref, "")
	if err != nil {
		return Tenant{}, pg.Fault(err)
	}
	return t, nil
}

// DeletedTenant gives one that was deleted and is not erased yet, by its id: its uid may be another's by now.
func (s *Store) DeletedTenant(ctx context.Context, ref string) (Tenant, error) {
	const query = `
SELECT ` + tenantColumns + `
  FROM tenants WHERE shard = @shard AND id = @id AND deleted_at IS NOT NULL` // the primary key
	t, err := id.Tenant.Parse(ref)
	if err != nil {
		return Tenant{}, noTenant()
	}
	rows, err := s.db.Query(ctx, query, pgx.StrictNamedArgs{"shard": t.Shard, "id": t.N})
	if err != nil {
		return Tenant{}, pg.Fault(fmt.Errorf("read a deleted tenant: %w", err))
	}
	found, err := pgx.CollectExactlyOneRow(rows, scanTenant)
	if errors.Is(err, pgx.ErrNoRows) {
		return Tenant{}, noTenant()
	}
	if err != nil {
		return Tenant{}, pg.Fault(fmt.Errorf("read a deleted tenant: %w", err))
	}
	return found, nil
}

// Tenants lists tenants that are not deleted, newest first, those with ids below before; the zero id is the beginning.
func (s *Store) Tenants(ctx context.Context, limit int, before id.ID) ([]Tenant, error) {
	const query = `
SELECT ` + tenantColumns + `
  FROM tenants
 WHERE deleted_at IS NULL AND id < @before
 ORDER BY id DESC LIMIT @limit` // tenants_by_id
	rows, err := s.db.Query(ctx, query, pgx.StrictNamedArgs{"before": orHighest(before), "limit": limit})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("list tenants: %w", err))
	}
	out, err := pgx.CollectRows(rows, scanTenant)
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("list tenants: %w", err))
	}
	return out, nil
}

// findTenant reads the tenant that a path names, with a lock or "".
func findTenant(ctx context.Context, q pg.Querier, ref, lock string) (Tenant, error) {
	const byID = `
SELECT ` + tenantColumns + `
  FROM tenants WHERE shard = @shard AND id = @id AND deleted_at IS NULL` // the primary key
	const byUID = `
SELECT ` + tenantColumns + `
  FROM tenants WHERE uid = @uid AND deleted_at IS NULL` // tenants_uid_key
	t, uid, err := parseRef(id.Tenant, ref)
	if err != nil {
		return Tenant{}, noTenant()
	}
	query, args := byID, pgx.StrictNamedArgs{"shard": t.Shard, "id": t.N}
	if uid != "" {
		query, args = byUID, pgx.StrictNamedArgs{"uid": uid}
	}
	rows, err := q.Query(ctx, query+lock, args)
	if err != nil {
		return Tenant{}, fmt.Errorf("read a tenant: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, scanTenant)
	if errors.Is(err, pgx.ErrNoRows) {
		return Tenant{}, noTenant()
	}
	if err != nil {
		return Tenant{}, fmt.Errorf("read a tenant: %w", err)
	}
	return found, nil
}
