package subscriptions

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
)

// UpdateTenant changes what the patch gives. One that changes nothing leaves UpdatedAt as it is.
func (s *Store) UpdateTenant(ctx context.Context, ref string, p TenantPatch) (Tenant, error) {
	const query = `
UPDATE tenants
   SET uid = @uid, name = @name, contact_email = @contact_email, metadata = @metadata, updated_at = @now,
       keep_events_ms = @keep_events, keep_attempts_ms = @keep_attempts
 WHERE shard = @shard AND id = @id
RETURNING ` + tenantColumns
	var t Tenant
	err := s.inTx(ctx, func(tx pgx.Tx, now time.Time) error {
		before, err := findTenant(ctx, tx, ref, ` FOR NO KEY UPDATE`)
		if err != nil {
			return err
		}
		t = before
		if err := p.apply(&t); err != nil {
			return err
		}
		if reflect.DeepEqual(before, t) {
			return nil
		}
		metadata, err := encodeJSON(t.Metadata)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, query, pgx.StrictNamedArgs{
			"shard": t.ID.Shard, "id": t.ID.N, "uid": t.UID, "name": t.Name, "contact_email": t.ContactEmail,
			"metadata": string(metadata), "now": now,
			"keep_events": toMillis(t.Retention.Events), "keep_attempts": toMillis(t.Retention.Attempts),
		})
		if err != nil {
			return fmt.Errorf("change a tenant: %w", err)
		}
		if t, err = pgx.CollectExactlyOneRow(rows, scanTenant); err != nil {
			return fmt.Errorf("change a tenant: %w", err)
		}
		return s.note(ctx, tx, aboutTenant(t.ID, audit.TenantUpdated, tenantChanges(before, t)))
	})
	if err != nil {
		return Tenant{}, err
	}
	return t, nil
}
