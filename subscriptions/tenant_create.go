package subscriptions

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
)

// CreateTenant makes a tenant. All faults of n are told at once; a uid that another tenant has is a conflict.
func (s *Store) CreateTenant(ctx context.Context, n NewTenant) (Tenant, error) {
	const query = `
INSERT INTO tenants (shard, id, uid, name, contact_email, metadata, created_at, updated_at, keep_events_ms, keep_attempts_ms)
VALUES (@shard, @id, @uid, @name, @contact_email, @metadata, @now, @now, @keep_events, @keep_attempts)
RETURNING ` + tenantColumns
	t := Tenant{ID: s.ids.NewTenant()}
	if err := n.patch().apply(&t); err != nil {
		return Tenant{}, err
	}
	metadata, err := encodeJSON(t.Metadata)
	if err != nil {
		return Tenant{}, err
	}
	err = s.inTx(ctx, func(tx pgx.Tx, now time.Time) error {
		rows, err := tx.Query(ctx, query, pgx.StrictNamedArgs{
			"shard": t.ID.Shard, "id": t.ID.N, "uid": t.UID, "name": t.Name, "contact_email": t.ContactEmail,
			"metadata": string(metadata), "now": now,
			"keep_events": toMillis(t.Retention.Events), "keep_attempts": toMillis(t.Retention.Attempts),
		})
		if err != nil {
			return fmt.Errorf("write a tenant: %w", err)
		}
		made, err := pgx.CollectExactlyOneRow(rows, scanTenant)
		if err != nil {
			return fmt.Errorf("write a tenant: %w", err)
		}
		t = made
		return s.note(ctx, tx, aboutTenant(t.ID, audit.TenantCreated, audit.Details{"name": t.Name}))
	})
	if err != nil {
		return Tenant{}, err
	}
	return t, nil
}
