package subscriptions

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// KeyUse is what is known of an encryption key.
type KeyUse struct {
	ID          string
	Values      int        // how many are sealed under it
	FirstUsedAt *time.Time // nil: nothing ever was, as far as the register goes
	Lost        bool       // given up by GiveUpKey
}

// KeyUses counts what is sealed, by key: those of the register, and those that are found beside it. It reads everything
// sealed, a bucket at a time.
func (s *Store) KeyUses(ctx context.Context) ([]KeyUse, error) {
	keys, err := s.readSealKeys(ctx)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, shard := range id.AllBuckets() {
		if err := keyUses(ctx, s.db, shard, counts); err != nil {
			return nil, err
		}
	}
	var uses []KeyUse
	for _, k := range keys {
		uses = append(uses, KeyUse{ID: k.ID, Values: counts[k.ID], FirstUsedAt: utc(&k.FirstUsedAt), Lost: k.LostAt != nil})
		delete(counts, k.ID)
	}
	for key, n := range counts {
		uses = append(uses, KeyUse{ID: key, Values: n})
	}
	slices.SortFunc(uses[len(keys):], func(a, b KeyUse) int { return b.Values - a.Values })
	return uses, nil
}

// EndpointsUnder gives the endpoints, with their tenants, that have something sealed under a key.
func (s *Store) EndpointsUnder(ctx context.Context, keyID string) ([]EndpointOf, error) {
	var all []EndpointOf
	for _, shard := range id.AllBuckets() {
		found := map[int64]bool{}
		for _, c := range sealedColumns {
			query := fmt.Sprintf(`
SELECT t.%[2]s, e.tenant_id FROM %[1]s t JOIN endpoints e ON e.shard = @shard AND e.id = t.%[2]s
 WHERE t.shard = @shard AND t.%[3]s = @key ORDER BY 1`, c.table, c.endpoint, c.keyID)
			rows, err := s.db.Query(ctx, query, pgx.StrictNamedArgs{"shard": shard, "key": keyID})
			var endpoint, tenant int64
			if err == nil {
				_, err = pgx.ForEachRow(rows, []any{&endpoint, &tenant}, func() error {
					if !found[endpoint] {
						all = append(all, EndpointOf{Tenant: id.ID{Shard: shard, N: tenant}, Endpoint: id.ID{Shard: shard, N: endpoint}})
					}
					found[endpoint] = true
					return nil
				})
			}
			if err != nil {
				return nil, pg.Fault(fmt.Errorf("look for what is encrypted under a key: %w", err))
			}
		}
	}
	return all, nil
}

// EndpointOf is an endpoint's id with its tenant's.
type EndpointOf struct{ Tenant, Endpoint id.ID }
