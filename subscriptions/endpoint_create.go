package subscriptions

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
)

// CreateEndpoint makes an endpoint of a tenant and gives it with its secret. All faults of n are told at once; a uid
// that another endpoint of the tenant has is a conflict; a tenant that was deleted in the meantime is not_found.
func (s *Store) CreateEndpoint(ctx context.Context, t Tenant, n NewEndpoint) (Endpoint, signer.Secret, error) {
	var e Endpoint
	var secret signer.Secret
	err := s.inTx(ctx, func(tx pgx.Tx, now time.Time) error {
		if err := holdTenant(ctx, tx, t.ID); err != nil {
			return err
		}
		e = Endpoint{
			ID: s.ids.In(t.ID.Shard), TenantID: t.ID, Status: Enabled,
			StatusChangedAt: now, CreatedAt: now, UpdatedAt: now, Version: 1,
		}
		given, err := s.rules.apply(&e, n.patch(), now)
		if err != nil {
			return err
		}
		if n.Disabled {
			if err := e.setStatus(Disabled, now); err != nil {
				return err
			}
		}
		if secret, err = orNew(given, e.Scheme); err != nil {
			return err
		}
		if err := s.insertEndpoint(ctx, tx, e); err != nil {
			return err
		}
		if err := s.insertSecret(ctx, tx, e.ID, secret, now); err != nil {
			return err
		}
		details := audit.Details{"url": audit.URL(e.URL), "status": string(e.Status)}
		if e.Kind == Pull {
			details = audit.Details{"kind": string(e.Kind), "status": string(e.Status)}
		}
		if err := s.note(ctx, tx, aboutEndpoint(e.ID, t.ID, audit.EndpointCreated, details)); err != nil {
			return err
		}
		e, err = s.readBack(ctx, tx, e.ID)
		return err
	})
	if err != nil {
		return Endpoint{}, signer.Secret{}, err
	}
	return e, secret, nil
}

// holdTenant keeps the tenant from being deleted until the transaction ends: else its new endpoint would outlive it.
func holdTenant(ctx context.Context, tx pgx.Tx, t id.ID) error {
	const query = `
SELECT FROM tenants WHERE shard = @shard AND id = @id AND deleted_at IS NULL FOR SHARE`
	tag, err := tx.Exec(ctx, query, pgx.StrictNamedArgs{"shard": t.Shard, "id": t.N})
	if err != nil {
		return fmt.Errorf("look for the tenant: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return noTenant()
	}
	return nil
}

func (s *Store) insertEndpoint(ctx context.Context, tx pgx.Tx, e Endpoint) error {
	const query = `
INSERT INTO endpoints (shard, id, tenant_id, uid, kind, url, description, event_types, filter, header_names, headers_sealed,
       headers_key_id, scheme, signature_header, max_in_flight, rate_limit, rate_per_ms, ordering, format, trace_context, timeout_ms,
       retry_schedule_ms, tls_ca, tls_certificate, tls_key_sealed, tls_key_id, metadata, status, status_reason,
       status_changed_at, version, created_at, updated_at)
VALUES (@shard, @id, @tenant, @uid, @kind, @url, @description, @event_types, @filter, @header_names, @headers_sealed,
       @headers_key_id, @scheme, @signature_header, @max_in_flight, @rate_limit, @rate_per_ms, @ordering, @format, @trace_context, @timeout_ms,
       @retry_schedule_ms, @tls_ca, @tls_certificate, @tls_key_sealed, @tls_key_id, @metadata, @status, @status_reason,
       @status_changed_at, @version, @created_at, @updated_at)`
	args, err := e.settings()
	if err != nil {
		return err
	}
	args["tenant"], args["kind"], args["created_at"] = e.TenantID.N, string(e.Kind), e.CreatedAt
	if args["headers_key_id"], args["headers_sealed"], err = s.sealHeaders(ctx, tx, e); err != nil {
		return err
	}
	if args["tls_key_id"], args["tls_key_sealed"], err = s.tlsKeyColumns(ctx, tx, e, endpointRow{}); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, query, args); err != nil {
		return fmt.Errorf("write an endpoint: %w", err)
	}
	return insertVersion(ctx, tx, e)
}

// insertVersion keeps what attempts of this version on were sent with. A version that changed nothing of that has no
// row: the newest row at or below an attempt's version is the one that holds.
func insertVersion(ctx context.Context, tx pgx.Tx, e Endpoint) error {
	const query = `
INSERT INTO endpoint_versions (shard, endpoint_id, version, url, header_names, scheme, signature_header, format, created_at)
VALUES (@shard, @endpoint, @version, @url, @header_names, @scheme, @signature_header, @format, @at)`
	_, err := tx.Exec(ctx, query, pgx.StrictNamedArgs{
		"shard": e.ID.Shard, "endpoint": e.ID.N, "version": e.Version, "url": e.URL, "header_names": headerNames(e.Headers),
		"scheme": string(e.Scheme), "signature_header": e.SignatureHeader, "format": string(e.Format), "at": e.UpdatedAt,
	})
	if err != nil {
		return fmt.Errorf("write an endpoint's version: %w", err)
	}
	return nil
}
