package subscriptions

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/seal"
)

// sealedColumn is a column that holds something sealed, under the key that another column names. A row without has null in both.
type sealedColumn struct {
	table    string
	endpoint string // the column with the endpoint's id
	row      string // what tells the endpoint's rows apart; with shard and endpoint the primary key
	keyID    string
	sealed   string
	boundTo  func(endpoint id.ID) []byte // the additional data: what is sealed opens nowhere else
}

// sealedColumns are all of them: what re-encrypting goes through, and what counting counts. A test holds the list against
// the database's catalogue.
var sealedColumns = []sealedColumn{
	{table: "endpoint_secrets", endpoint: "endpoint_id", row: "id", keyID: "key_id", sealed: "sealed", boundTo: seal.EndpointAD},
	{table: "endpoints", endpoint: "id", row: "id", keyID: "headers_key_id", sealed: "headers_sealed", boundTo: seal.EndpointAD},
	{table: "endpoints", endpoint: "id", row: "id", keyID: "tls_key_id", sealed: "tls_key_sealed", boundTo: seal.EndpointTLSKeyAD},
}

// keyUses counts, by key, what is sealed in one bucket.
func keyUses(ctx context.Context, db pg.Querier, shard int16, into map[string]int) error {
	b := &pgx.Batch{}
	for _, c := range sealedColumns {
		// Reads the bucket's part of the table: no index is by key, since nobody asks but now and then.
		query := fmt.Sprintf(`SELECT %[2]s, count(*) FROM %[1]s WHERE shard = @shard AND %[2]s IS NOT NULL GROUP BY 1`, c.table, c.keyID)
		b.Queue(query, pgx.StrictNamedArgs{"shard": shard}).Query(func(rows pgx.Rows) error {
			var key string
			var n int
			_, err := pgx.ForEachRow(rows, []any{&key, &n}, func() error {
				into[key] += n
				return nil
			})
			return err
		})
	}
	if err := db.SendBatch(ctx, b).Close(); err != nil {
		return pg.Fault(fmt.Errorf("count what is encrypted: %w", err))
	}
	return nil
}

// keyUsed reports whether anything is sealed under a key.
func keyUsed(ctx context.Context, db pg.Querier, keyID string) (bool, error) {
	for _, shard := range id.AllBuckets() {
		uses := map[string]int{}
		if err := keyUses(ctx, db, shard, uses); err != nil || uses[keyID] > 0 {
			return err == nil, err
		}
	}
	return false, nil
}
