package subscriptions

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

// Tenant is a customer of the people who run Postrider: who owns endpoints.
type Tenant struct {
	ID                   id.ID
	UID                  *string // our users' own name for it, unique over all tenants
	Name                 string
	ContactEmail         *string
	Metadata             map[string]any // never nil; numbers are json.Number
	CreatedAt, UpdatedAt time.Time
}

// NewTenant is what a new tenant shall be. Only Name is needed.
type NewTenant struct {
	UID          *string
	Name         string
	ContactEmail *string
	Metadata     map[string]any
}

// TenantPatch is what shall be different. Metadata is replaced as a whole.
type TenantPatch struct {
	UID          Optional[string]
	Name         Optional[string]
	ContactEmail Optional[string]
	Metadata     Optional[map[string]any]
}

func (n NewTenant) patch() TenantPatch {
	return TenantPatch{
		UID: givenIf(n.UID), Name: given(n.Name), ContactEmail: givenIf(n.ContactEmail), Metadata: given(n.Metadata),
	}
}

// apply makes t what the patch says, or tells of every fault in it at once.
func (p TenantPatch) apply(t *Tenant) error {
	var faults fault.Fields
	setOrNil(&faults, "/uid", p.UID, &t.UID, checkUID)
	set(&faults, "/name", p.Name, &t.Name, "", checkName)
	setOrNil(&faults, "/contact_email", p.ContactEmail, &t.ContactEmail, checkEmail)
	set(&faults, "/metadata", p.Metadata, &t.Metadata, nil, checkMetadata)
	return faults.Err()
}

// tenantColumns are what scanTenant reads.
const tenantColumns = `shard, id, uid, name, contact_email, metadata, created_at, updated_at`

func scanTenant(row pgx.CollectableRow) (Tenant, error) {
	var t Tenant
	var metadata []byte
	err := row.Scan(&t.ID.Shard, &t.ID.N, &t.UID, &t.Name, &t.ContactEmail, &metadata, &t.CreatedAt, &t.UpdatedAt)
	if err != nil {
		return Tenant{}, err //nolint:wrapcheck // the caller says which act it was
	}
	t.CreatedAt, t.UpdatedAt = t.CreatedAt.UTC(), t.UpdatedAt.UTC()
	if t.Metadata, err = decodeObject(metadata); err != nil {
		return Tenant{}, fmt.Errorf("read a tenant's metadata: %w", err)
	}
	return t, nil
}

// noTenant is the answer for a tenant that is not there or was deleted.
func noTenant() error { return fault.New(fault.NotFound, "no such tenant") }
