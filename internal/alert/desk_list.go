package alert

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// What is not resolved is little (at most one for each endpoint) and lies in alerts_open_key, all of which is read.
const listUnresolvedSQL = `
SELECT ` + columns + ` FROM alerts a
WHERE a.state <> 'resolved' AND a.shard = ANY (@shards::smallint[]) AND a.state = ANY (@states::text[]::alert_state[])
    AND (@kinds::text[] IS NULL OR a.kind = ANY (@kinds::text[]::alert_kind[])) AND (@tenant::bigint = 0 OR a.tenant_id = @tenant) AND (a.id, a.shard) < (@before::bigint, @before_shard::smallint)
ORDER BY a.id DESC, a.shard DESC LIMIT @limit`

// With resolved ones, which pile up: the newest of each bucket from the end of the primary key's range, then the newest
// of those.
const listAllSQL = `
SELECT ` + columns + `
FROM unnest(@shards::smallint[]) b(shard) CROSS JOIN LATERAL (
    SELECT * FROM alerts a
    WHERE a.shard = b.shard AND a.id < @before::bigint + CASE WHEN b.shard < @before_shard THEN 1 ELSE 0 END
        AND a.state = ANY (@states::text[]::alert_state[]) AND (@tenant::bigint = 0 OR a.tenant_id = @tenant)
        AND (@kinds::text[] IS NULL OR a.kind = ANY (@kinds::text[]::alert_kind[]))
    ORDER BY a.id DESC LIMIT @limit) a
ORDER BY a.id DESC, a.shard DESC LIMIT @limit`

// All buckets at once, by alerts_by_id, which is of id + 0: the newest 50 of each of them would be thousands.
const listEveryonesSQL = `
SELECT ` + columns + ` FROM alerts a
 WHERE a.id + 0 <= @before::bigint AND (a.id, a.shard) < (@before::bigint, @before_shard::smallint)
   AND a.state = ANY (@states::text[]::alert_state[]) AND (@kinds::text[] IS NULL OR a.kind = ANY (@kinds::text[]::alert_kind[]))
 ORDER BY (a.id + 0) DESC, a.shard DESC LIMIT @limit`

// Filter says which alerts are looked for.
type Filter struct {
	States []State // none: in whatever state
	Kinds  []Kind  // none: of whatever kind
	Tenant *id.ID  // nil: of all tenants, and of the service
}

// List gives the newest alerts that a filter lets through, made before the one named (zero: from the newest).
func (d *Desk) List(ctx context.Context, f Filter, limit int, before id.ID) ([]Alert, error) {
	if len(f.States) == 0 {
		f.States = States()
	}
	if before.IsZero() {
		before.N = math.MaxInt64
	}
	var found []Alert
	var err error
	ofEndpoints, ofService := split(f.Kinds)
	if len(f.Kinds) == 0 || ofEndpoints != nil {
		if found, err = d.listOfEndpoints(ctx, f, ofEndpoints, limit, before); err != nil {
			return nil, err
		}
	}
	if f.Tenant != nil || len(f.Kinds) > 0 && ofService == nil {
		return found, nil
	}
	service, err := d.listOfService(ctx, f, ofService, limit, before)
	if err != nil || len(service) == 0 {
		return found, err
	}
	found = append(found, service...)
	slices.SortFunc(found, func(a, b Alert) int {
		return cmp.Or(cmp.Compare(b.ID.N, a.ID.N), cmp.Compare(b.ID.Shard, a.ID.Shard))
	})
	return found[:min(len(found), limit)], nil
}

// split gives the names of the kinds of endpoints' alerts and of the service's; nil: none.
func split(kinds []Kind) (ofEndpoints, ofService []string) {
	for _, k := range kinds {
		if k.OfService() {
			ofService = append(ofService, k.String())
		} else {
			ofEndpoints = append(ofEndpoints, k.String())
		}
	}
	return ofEndpoints, ofService
}

func (d *Desk) listOfEndpoints(ctx context.Context, f Filter, kinds []string, limit int, before id.ID) ([]Alert, error) {
	args := pgx.StrictNamedArgs{
		"shards": allShards, "states": names(f.States), "kinds": kinds, "tenant": int64(0), "limit": limit,
		"before": before.N, "before_shard": before.Shard,
	}
	if f.Tenant != nil {
		args["shards"], args["tenant"] = []int16{f.Tenant.Shard}, f.Tenant.N
	}
	sql := listAllSQL
	switch {
	case !slices.Contains(f.States, Resolved):
		sql = listUnresolvedSQL
	case f.Tenant == nil:
		sql = listEveryonesSQL
		delete(args, "shards")
		delete(args, "tenant")
	}
	return d.read(ctx, sql, args)
}

// Index alerts_open_key, of which an endpoint has one at most.
const ofEndpointSQL = `SELECT ` + columns + ` FROM alerts a WHERE a.shard = @shard AND a.endpoint_id = @endpoint AND a.state <> 'resolved'`

// OfEndpoint gives the alert about an endpoint that is not resolved: one, or none.
func (d *Desk) OfEndpoint(ctx context.Context, endpoint id.ID) ([]Alert, error) {
	return d.read(ctx, ofEndpointSQL, pgx.StrictNamedArgs{"shard": endpoint.Shard, "endpoint": endpoint.N})
}

// read runs a statement that gives alerts.
func (d *Desk) read(ctx context.Context, sql string, args pgx.StrictNamedArgs) ([]Alert, error) {
	rows, err := d.db.Query(ctx, sql, args)
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("list alerts: %w", err))
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[row])
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("list alerts: %w", err))
	}
	out := make([]Alert, 0, len(found))
	for _, r := range found {
		a, err := r.alert()
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// allShards names every bucket; nobody writes to it.
var allShards = id.AllBuckets()

func names(states []State) []string {
	out := make([]string, len(states))
	for i, s := range states {
		out[i] = string(s)
	}
	return out
}
