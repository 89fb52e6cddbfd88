package subscriptions

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/duration"
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
	Retention            Retention
	CreatedAt, UpdatedAt time.Time
}

// NewTenant is what a new tenant shall be. Only Name is needed.
type NewTenant struct {
	UID          *string
	Name         string
	ContactEmail *string
	Metadata     map[string]any
	Retention    Retention
}

// Retention is for how long a tenant's history is kept, where that is not what holds for all.
type Retention struct {
	Events   *time.Duration // with their payloads; nil: retention.events
	Attempts *time.Duration // nil: retention.attempts
}

// History is kept in days. The bounds are those of retention.events and retention.attempts.
const (
	minRetention = 24 * time.Hour
	maxRetention = 3650 * 24 * time.Hour
)

func checkRetention(d time.Duration) (time.Duration, error) {
	if d < minRetention || d > maxRetention {
		return 0, fmt.Errorf("is not between %s and %s", duration.Format(minRetention), duration.Format(maxRetention))
	}
	return d, nil
}

// TenantPatch is what shall be different. Metadata is replaced as a whole.
type TenantPatch struct {
	UID          Optional[string]
	Name         Optional[string]
	ContactEmail Optional[string]
	Metadata     Optional[map[string]any]
	KeepEvents   Optional[time.Duration]
	KeepAttempts Optional[time.Duration]
}

func (n NewTenant) patch() TenantPatch {
	return TenantPatch{
		UID: givenIf(n.UID), Name: given(n.Name), ContactEmail: givenIf(n.ContactEmail), Metadata: given(n.Metadata),
		KeepEvents: givenIf(n.Retention.Events), KeepAttempts: givenIf(n.Retention.Attempts),
	}
}

// apply makes t what the patch says, or tells of every fault in it at once.
func (p TenantPatch) apply(t *Tenant) error {
	var faults fault.Fields
	setOrNil(&faults, "/uid", p.UID, &t.UID, checkUID)
	set(&faults, "/name", p.Name, &t.Name, "", checkName)
	setOrNil(&faults, "/contact_email", p.ContactEmail, &t.ContactEmail, checkEmail)
	set(&faults, "/metadata", p.Metadata, &t.Metadata, nil, checkMetadata)
	setOrNil(&faults, "/retention/events", p.KeepEvents, &t.Retention.Events, checkRetention)
	setOrNil(&faults, "/retention/attempts", p.KeepAttempts, &t.Retention.Attempts, checkRetention)
	return faults.Err()
}

// tenantColumns are what scanTenant reads.
const tenantColumns = `shard, id, uid, name, contact_email, metadata, created_at, updated_at, keep_events_ms, keep_attempts_ms`

func scanTenant(row pgx.CollectableRow) (Tenant, error) {
	var t Tenant
	var metadata []byte
	var events, attempts *int64
	err := row.Scan(&t.ID.Shard, &t.ID.N, &t.UID, &t.Name, &t.ContactEmail, &metadata, &t.CreatedAt, &t.UpdatedAt, &events, &attempts)
	if err != nil {
		return Tenant{}, err //nolint:wrapcheck // the caller says which act it was
	}
	t.CreatedAt, t.UpdatedAt = t.CreatedAt.UTC(), t.UpdatedAt.UTC()
	t.Retention = Retention{Events: fromMillis(events), Attempts: fromMillis(attempts)}
	if t.Metadata, err = decodeObject(metadata); err != nil {
		return Tenant{}, fmt.Errorf("read a tenant's metadata: %w", err)
	}
	return t, nil
}

func fromMillis(ms *int64) *time.Duration {
	if ms == nil {
		return nil
	}
	d := time.Duration(*ms) * time.Millisecond
	return &d
}

func toMillis(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

// noTenant is the answer for a tenant that is not there or was deleted.
func noTenant() error { return fault.New(fault.NotFound, "no such tenant") }
