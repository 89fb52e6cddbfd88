package subscriptions

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// CreateTenant makes a tenant. All faults of n are told at once; a uid that another tenant has is a conflict.
func (s *Store) CreateTenant(ctx context.Context, n NewTenant) (Tenant, error) {
	const query = `
INSERT INTO tenants (shard, id, uid, name, contact_email, metadata, created_at, updated_at)
VALUES (@shard, @id, @uid, @name, @contact_email, @metadata, @now, @now)
RETURNING ` + tenantColumns
	t := Tenant{ID: s.ids.NewTenant()}
	if err := n.patch().apply(&t); err != nil {
		return Tenant{}, err
	}
	metadata, err := encodeJSON(t.Metadata)
	if err != nil {
		return Tenant{}, err
	}
	rows, err := s.db.Query(ctx, query, pgx.StrictNamedArgs{
		"shard": t.ID.Shard, "id": t.ID.N, "uid": t.UID, "name": t.Name, "contact_email": t.ContactEmail,
		"metadata": string(metadata), "now": s.now(),
	})
	if err != nil {
		return Tenant{}, pg.Fault(fmt.Errorf("write a tenant: %w", err))
	}
	if t, err = pgx.CollectExactlyOneRow(rows, scanTenant); err != nil {
		return Tenant{}, pg.Fault(fmt.Errorf("write a tenant: %w", err))
	}
	return t, nil
}
