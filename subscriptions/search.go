package subscriptions

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Found is a page of a search over all tenants, the newest first. It may be short, even empty, with more to come: a search
// that finds little stops after some time.
type Found[T any] struct {
	Things []T
	Next   id.ID // where the next page begins; zero: that was all
}

const (
	// searchBudget is how long a page may look, so that the whole answer takes no more than 50 ms.
	searchBudget = 30 * time.Millisecond
	// lookAt is how many rows are looked at before the time is: some milliseconds' worth.
	lookAt = 2000
	// maxSearch bounds a text, in bytes.
	maxSearch = 500
)

const (
	// endpoints_by_id, whose key is spelled id + 0. Queries are not searched: they are hidden where URLs are shown, and a search
	// that finds parts of them tells all of them, letter by letter.
	lookAtEndpointsSQL = `
WITH looked AS MATERIALIZED (
    SELECT e.shard, e.id, e.deleted_at IS NULL AND (@text = '' OR starts_with(e.uid, @text)
        OR position(@text IN split_part(e.url, '?', 1)) > 0) AS fits
    FROM endpoints e WHERE e.id + 0 <= @below AND (e.id < @below OR e.shard < @below_shard)
    ORDER BY (e.id + 0) DESC, e.shard DESC LIMIT @look)` + lookedSQL
	// tenants_by_id
	lookAtTenantsSQL = `
WITH looked AS MATERIALIZED (
    SELECT t.shard, t.id, @text = '' OR starts_with(t.uid, @text) OR position(lower(@text) IN lower(t.name)) > 0 AS fits
    FROM tenants t WHERE t.deleted_at IS NULL AND t.id <= @below AND (t.id < @below OR t.shard < @below_shard)
    ORDER BY t.id DESC, t.shard DESC LIMIT @look)` + lookedSQL
	// What fits, and after it the last one looked at.
	lookedSQL = `
(SELECT shard, id, true FROM looked WHERE fits ORDER BY id DESC, shard DESC LIMIT @limit)
UNION ALL (SELECT shard, id, false FROM looked ORDER BY id, shard LIMIT 1)`
)

// theseEndpointsSQL reads endpoints of several buckets, each by its primary key.
var theseEndpointsSQL = strings.ReplaceAll(selectEndpoint, "@shard", "e.shard") + `
 JOIN unnest(@shards::smallint[], @ids::bigint[]) AS these(shard, id) ON e.shard = these.shard AND e.id = these.id
 ORDER BY e.id DESC, e.shard DESC`

// SearchEndpoints gives endpoints of all tenants whose uid begins with the text or whose URL, up to its query, contains it
// ("": all), those
// that come after before (zero: from the newest). It stops after some 30 ms.
func (s *Store) SearchEndpoints(ctx context.Context, text string, limit int, before id.ID) (Found[Endpoint], error) {
	if head, _, has := strings.Cut(text, "?"); has && strings.TrimSpace(head) != "" {
		text = head // a whole URL, query and all, finds its endpoint
	}
	ids, next, err := s.look(ctx, lookAtEndpointsSQL, text, limit, before)
	if err != nil || len(ids) == 0 {
		return Found[Endpoint]{Next: next}, err
	}
	rows, err := s.db.Query(ctx, theseEndpointsSQL, keysOf(ids))
	if err != nil {
		return Found[Endpoint]{}, pg.Fault(fmt.Errorf("read endpoints: %w", err))
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[endpointRow])
	if err != nil {
		return Found[Endpoint]{}, pg.Fault(fmt.Errorf("read endpoints: %w", err))
	}
	out := Found[Endpoint]{Next: next}
	for _, r := range found {
		e, err := s.endpoint(r)
		if err != nil {
			return Found[Endpoint]{}, err
		}
		out.Things = append(out.Things, e)
	}
	return out, nil
}

// SearchTenants gives tenants whose uid begins with the text or whose name contains it in whatever case ("": all), those
// that come after before (zero: from the newest). It stops after some 30 ms.
func (s *Store) SearchTenants(ctx context.Context, text string, limit int, before id.ID) (Found[Tenant], error) {
	ids, next, err := s.look(ctx, lookAtTenantsSQL, text, limit, before)
	if err != nil || len(ids) == 0 {
		return Found[Tenant]{Next: next}, err
	}
	const query = `
SELECT ` + tenantColumns + `
  FROM tenants JOIN unnest(@shards::smallint[], @ids::bigint[]) AS k(of_shard, of_id) ON shard = of_shard AND id = of_id
 ORDER BY id DESC, shard DESC` // the primary key
	rows, err := s.db.Query(ctx, query, keysOf(ids))
	if err != nil {
		return Found[Tenant]{}, pg.Fault(fmt.Errorf("read tenants: %w", err))
	}
	found, err := pgx.CollectRows(rows, scanTenant)
	if err != nil {
		return Found[Tenant]{}, pg.Fault(fmt.Errorf("read tenants: %w", err))
	}
	return Found[Tenant]{Things: found, Next: next}, nil
}

func keysOf(ids []id.ID) pgx.StrictNamedArgs {
	shards, numbers := make([]int16, len(ids)), make([]int64, len(ids))
	for i, k := range ids {
		shards[i], numbers[i] = k.Shard, k.N
	}
	return pgx.StrictNamedArgs{"shards": shards, "ids": numbers}
}

// look looks at some rows after some until it has enough, there are no more, or the time is up.
func (s *Store) look(ctx context.Context, sql, text string, limit int, before id.ID) (found []id.ID, next id.ID, err error) {
	text, limit = strings.TrimSpace(text), max(limit, 1)
	if len(text) > maxSearch || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil, id.ID{}, fault.New(fault.Invalid, "the search text must be UTF-8 without NUL, of at most %d bytes", maxSearch)
	}
	at := before
	if at.IsZero() {
		at = id.ID{N: math.MaxInt64}
	}
	look := s.lookAt
	if text == "" {
		look = limit + 1 // all of them fit, but endpoints that were deleted
	}
	for begun := time.Now(); len(found) <= limit; {
		args := pgx.StrictNamedArgs{
			"text": text, "below": at.N, "below_shard": at.Shard, "look": look, "limit": limit + 1 - len(found),
		}
		more, last, err := s.lookOnce(ctx, sql, args)
		if err != nil {
			return nil, id.ID{}, pg.Fault(fmt.Errorf("search: %w", err))
		}
		if last.IsZero() {
			return found, id.ID{}, nil
		}
		found, at = append(found, more...), last
		if time.Since(begun) > searchBudget {
			break
		}
	}
	if len(found) > limit {
		found = found[:limit]
		at = found[limit-1]
	}
	return found, at, nil
}

// lookOnce gives what fits and the last one looked at (zero: there was none).
func (s *Store) lookOnce(ctx context.Context, sql string, args pgx.StrictNamedArgs) (found []id.ID, last id.ID, err error) {
	rows, err := s.db.Query(ctx, sql, args)
	if err != nil {
		return nil, id.ID{}, err
	}
	var k id.ID
	var fits bool
	_, err = pgx.ForEachRow(rows, []any{&k.Shard, &k.N, &fits}, func() error {
		if fits {
			found = append(found, k)
		} else {
			last = k
		}
		return nil
	})
	return found, last, err
}
