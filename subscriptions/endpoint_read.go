package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Endpoint gives an endpoint of the tenant by its id or uid. One that was deleted or is another tenant's is not_found.
func (s *Store) Endpoint(ctx context.Context, t Tenant, ref string) (Endpoint, error) {
	r, err := findEndpoint(ctx, s.db, t.ID, ref, "")
	if err != nil {
		return Endpoint{}, pg.Fault(err)
	}
	return s.endpoint(r)
}

// EndpointByID gives an endpoint of whatever tenant, also a deleted one: history goes on naming it.
func (s *Store) EndpointByID(ctx context.Context, e id.ID) (Endpoint, error) {
	found, err := s.readBack(ctx, s.db, e)
	if err != nil {
		return Endpoint{}, pg.Fault(err)
	}
	return found, nil
}

// readBack gives an endpoint as it is stored. Within a transaction that changed it, that makes the answer to the change
// and to a later read the same, down to how jsonb spells a number.
func (s *Store) readBack(ctx context.Context, q pg.Querier, e id.ID) (Endpoint, error) {
	const query = selectEndpoint + `
 WHERE e.shard = @shard AND e.id = @id` // the primary key
	rows, err := q.Query(ctx, query, pgx.StrictNamedArgs{"shard": e.Shard, "id": e.N})
	if err != nil {
		return Endpoint{}, fmt.Errorf("read an endpoint: %w", err)
	}
	r, err := oneEndpoint(rows)
	if err != nil {
		return Endpoint{}, err
	}
	return s.endpoint(r)
}

// Endpoints lists a tenant's endpoints that are not deleted, newest first, those with ids below before; the zero id is
// the beginning.
func (s *Store) Endpoints(ctx context.Context, t Tenant, limit int, before id.ID) ([]Endpoint, error) {
	const query = selectEndpoint + `
 WHERE e.shard = @shard AND e.tenant_id = @tenant AND e.deleted_at IS NULL AND e.id < @before
 ORDER BY e.id DESC LIMIT @limit` // endpoints_by_tenant
	rows, err := s.db.Query(ctx, query, pgx.StrictNamedArgs{
		"shard": t.ID.Shard, "tenant": t.ID.N, "before": orHighest(before), "limit": limit,
	})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("list endpoints: %w", err))
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[endpointRow])
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("list endpoints: %w", err))
	}
	out := make([]Endpoint, 0, len(found))
	for _, r := range found {
		e, err := s.endpoint(r)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// forUpdate is a lock for findEndpoint: of the endpoint alone, since its secrets are changed under it only. It does not
// keep others from pointing to the endpoint with a foreign key, as a new alert does.
const forUpdate = ` FOR NO KEY UPDATE OF e`

// findEndpoint reads the tenant's endpoint that a path names, with a lock or "".
func findEndpoint(ctx context.Context, q pg.Querier, t id.ID, ref, lock string) (endpointRow, error) {
	const byID = selectEndpoint + `
 WHERE e.shard = @shard AND e.id = @id AND e.tenant_id = @tenant AND e.deleted_at IS NULL` // the primary key
	const byUID = selectEndpoint + `
 WHERE e.shard = @shard AND e.tenant_id = @tenant AND e.uid = @uid AND e.deleted_at IS NULL` // endpoints_uid_key
	args := pgx.StrictNamedArgs{"shard": t.Shard, "tenant": t.N}
	query := byID
	switch e, uid, err := parseRef(id.Endpoint, ref); {
	case err != nil, uid == "" && e.Shard != t.Shard:
		return endpointRow{}, noEndpoint()
	case uid != "":
		query, args["uid"] = byUID, uid
	default:
		args["id"] = e.N
	}
	rows, err := q.Query(ctx, query+lock, args)
	if err != nil {
		return endpointRow{}, fmt.Errorf("read an endpoint: %w", err)
	}
	return oneEndpoint(rows)
}

func oneEndpoint(rows pgx.Rows) (endpointRow, error) {
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[endpointRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return endpointRow{}, noEndpoint()
	}
	if err != nil {
		return endpointRow{}, fmt.Errorf("read an endpoint: %w", err)
	}
	return r, nil
}

// parseRef reads what stands for a thing in a path: its id, or else its owner's uid for it. Anything that can be
// neither is an error, and is not put before the database.
func parseRef(kind id.Kind, ref string) (_ id.ID, uid string, err error) {
	if id.LooksLikeID(ref) {
		found, err := kind.Parse(ref)
		return found, "", err
	}
	uid, err = checkUID(ref)
	return id.ID{}, uid, err
}

// orHighest makes the zero id the one above all.
func orHighest(before id.ID) int64 {
	if before.IsZero() {
		return math.MaxInt64
	}
	return before.N
}
