package subscriptions

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// TenantNames gives what tenants are called, deleted ones too, for lists that show them. It asks for each once, by
// tenants_pkey.
func (s *Store) TenantNames(ctx context.Context, tenants []id.ID) (map[id.ID]string, error) {
	const query = `
SELECT t.shard, t.id, t.name
  FROM unnest(@shards::smallint[], @ids::bigint[]) AS w(shard, id)
  JOIN tenants t ON t.shard = w.shard AND t.id = w.id`
	names, err := s.texts(ctx, query, tenants)
	if err != nil {
		return nil, fmt.Errorf("read tenants' names: %w", err)
	}
	return names, nil
}

// EndpointURLs gives where endpoints are now, deleted ones too. It asks for each once, by endpoints_pkey.
func (s *Store) EndpointURLs(ctx context.Context, endpoints []id.ID) (map[id.ID]string, error) {
	const query = `
SELECT e.shard, e.id, e.url
  FROM unnest(@shards::smallint[], @ids::bigint[]) AS w(shard, id)
  JOIN endpoints e ON e.shard = w.shard AND e.id = w.id`
	urls, err := s.texts(ctx, query, endpoints)
	if err != nil {
		return nil, fmt.Errorf("read endpoints' URLs: %w", err)
	}
	return urls, nil
}

// texts runs a query that gives a text for each of the ids.
func (s *Store) texts(ctx context.Context, query string, wanted []id.ID) (map[id.ID]string, error) {
	out := make(map[id.ID]string, len(wanted))
	for _, w := range wanted {
		out[w] = ""
	}
	if len(out) == 0 {
		return out, nil
	}
	shards, ids := make([]int16, 0, len(out)), make([]int64, 0, len(out))
	for w := range out {
		shards, ids = append(shards, w.Shard), append(ids, w.N)
	}
	rows, err := s.db.Query(ctx, query, pgx.StrictNamedArgs{"shards": shards, "ids": ids})
	if err != nil {
		return nil, pg.Fault(err)
	}
	var found id.ID
	var text string
	if _, err := pgx.ForEachRow(rows, []any{&found.Shard, &found.N, &text}, func() error {
		out[found] = text
		return nil
	}); err != nil {
		return nil, pg.Fault(err)
	}
	return out, nil
}
