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

const (
	// resealBatch is how many values are rewritten by a transaction: little enough that whoever waits for one of their rows
	// waits for some milliseconds.
	resealBatch = 200
	// resealPasses is how often a bucket is gone through until nothing in it is left to rewrite.
	resealPasses = 3
)

// Resealed is what Reseal has come to.
type Resealed struct {
	Buckets int // gone through, of id.Buckets
	Values  int // rewritten
	// Unreadable are the endpoints with a value that one of our keys should open and does not. It stays as it is.
	Unreadable []id.ID
}

// Reseal encrypts everything anew that is sealed under another of our keys than the first one. progress, which may be nil,
// hears after each bucket.
//
// Each batch is a commit of its own, in one bucket, and nothing else remembers how far it came: what is under the first key
// already is passed over, so that it may be broken off and begun again, and several may run. Processes may serve meanwhile:
// a row that somebody else holds is passed over, and one that somebody has changed since it was read stays changed. What
// was missed so is found by the next pass, and what several passes miss by the next call.
func (s *Store) Reseal(ctx context.Context, progress func(Resealed)) (Resealed, error) {
	var done Resealed
	if len(s.box.keys.KeyIDs()) > 1 {
		for _, shard := range id.AllBuckets() {
			if err := s.resealBucket(ctx, shard, &done); err != nil {
				return done, err
			}
			done.Buckets++
			if progress != nil {
				progress(done)
			}
		}
	}
	return done, nil
}

func (s *Store) resealBucket(ctx context.Context, shard int16, done *Resealed) error {
	for _, c := range sealedColumns {
		for pass, missed := 0, 1; missed > 0 && pass < resealPasses; pass++ {
			var err error
			if missed, err = s.resealColumn(ctx, c, shard, done); err != nil {
				return fmt.Errorf("re-encrypt %s.%s in bucket %d: %w", c.table, c.sealed, shard, err)
			}
		}
	}
	return nil
}

// resealColumn goes through a bucket's part of a column once, and says how many values it read and did not get to rewrite.
func (s *Store) resealColumn(ctx context.Context, c sealedColumn, shard int16, done *Resealed) (missed int, err error) {
	var last sealedValue
	for {
		values, err := s.staleValues(ctx, c, shard, last)
		if err != nil || len(values) == 0 {
			return missed, err
		}
		last = values[len(values)-1]
		values = s.opened(c, shard, values, done)
		n, err := s.rewrite(ctx, c, shard, values)
		if err != nil {
			return missed, err
		}
		done.Values += n
		missed += len(values) - n
	}
}

// opened gives those of the values that open, each with what it opens to.
func (s *Store) opened(c sealedColumn, shard int16, values []sealedValue, done *Resealed) []sealedValue {
	out := make([]sealedValue, 0, len(values))
	for _, v := range values {
		endpoint := id.ID{Shard: shard, N: v.Endpoint}
		var err error
		if v.plain, err = s.box.Open(v.KeyID, v.Sealed, c.boundTo(endpoint)); err != nil {
			done.unreadable(endpoint)
			continue
		}
		out = append(out, v)
	}
	return out
}

func (r *Resealed) unreadable(endpoint id.ID) {
	if !slices.Contains(r.Unreadable, endpoint) {
		r.Unreadable = append(r.Unreadable, endpoint)
	}
}

// sealedValue is one value of a sealedColumn.
type sealedValue struct {
	Endpoint int64
	Row      int64
	KeyID    string
	Sealed   []byte
	plain    []byte
}

// staleValues reads the next values behind last that are sealed under one of our keys but the first. It goes by the primary key.
func (s *Store) staleValues(ctx context.Context, c sealedColumn, shard int16, last sealedValue) ([]sealedValue, error) {
	query := fmt.Sprintf(`
SELECT %[2]s AS endpoint, %[3]s AS row, %[4]s AS key_id, %[5]s AS sealed
  FROM %[1]s
 WHERE shard = @shard AND (%[2]s, %[3]s) > (@endpoint::bigint, @row::bigint) AND %[4]s = ANY (@stale::text[])
 ORDER BY %[2]s, %[3]s LIMIT @limit`, c.table, c.endpoint, c.row, c.keyID, c.sealed)
	rows, err := s.db.Query(ctx, query, pgx.StrictNamedArgs{
		"shard": shard, "endpoint": last.Endpoint, "row": last.Row, "stale": s.box.keys.KeyIDs()[1:], "limit": resealBatch,
	})
	var values []sealedValue
	if err == nil {
		values, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (v sealedValue, err error) {
			return v, row.Scan(&v.Endpoint, &v.Row, &v.KeyID, &v.Sealed)
		})
	}
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read what is encrypted: %w", err))
	}
	return values, nil
}

// rewrite seals values anew, each only where it is still the one that was read, and says how many it was. Rows are locked in
// the order of the primary key, and those that somebody else holds left out, so that it never waits for anybody.
func (s *Store) rewrite(ctx context.Context, c sealedColumn, shard int16, values []sealedValue) (n int, err error) {
	if len(values) == 0 {
		return 0, nil
	}
	query := fmt.Sprintf(`
WITH new AS MATERIALIZED (
    SELECT * FROM unnest(@endpoints::bigint[], @rows::bigint[], @keys::text[], @olds::bytea[], @news::bytea[])
      AS n(endpoint, row, key_id, old, new)
), mine AS MATERIALIZED (
    SELECT t.%[2]s AS endpoint, t.%[3]s AS row, n.new
      FROM new n JOIN %[1]s t ON t.shard = @shard AND t.%[2]s = n.endpoint AND t.%[3]s = n.row
     WHERE t.%[4]s = n.key_id AND t.%[5]s = n.old
     ORDER BY t.%[2]s, t.%[3]s FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE %[1]s t SET %[4]s = @key, %[5]s = m.new
  FROM mine m WHERE t.shard = @shard AND t.%[2]s = m.endpoint AND t.%[3]s = m.row`, c.table, c.endpoint, c.row, c.keyID, c.sealed)
	err = s.inTx(ctx, func(tx pgx.Tx, now time.Time) error {
		var endpoints, rows []int64
		var keys []string
		var olds, news [][]byte
		first := s.box.keys.KeyIDs()[0]
		if err := s.box.register(ctx, tx, first, now); err != nil {
			return err
		}
		for _, v := range values {
			_, sealed, err := s.box.keys.Seal(v.plain, c.boundTo(id.ID{Shard: shard, N: v.Endpoint}))
			if err != nil {
				return err
			}
			endpoints, rows, keys = append(endpoints, v.Endpoint), append(rows, v.Row), append(keys, v.KeyID)
			olds, news = append(olds, v.Sealed), append(news, sealed)
		}
		tag, err := tx.Exec(ctx, query, pgx.StrictNamedArgs{
			"shard": shard, "endpoints": endpoints, "rows": rows, "keys": keys, "olds": olds, "news": news, "key": first,
		})
		if err != nil {
			return fmt.Errorf("write what was encrypted anew: %w", err)
		}
		n = int(tag.RowsAffected())
		return nil
	})
	return n, err
}
