package alert

import (
	"context"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Through alerts_open_key, which has what is not resolved: of a tenant the stretch of its bucket.
const (
	countKindsSQL = `
SELECT a.kind::text, count(*) FROM alerts a WHERE a.state <> 'resolved' AND a.state = 'open' GROUP BY 1
UNION ALL
SELECT s.kind::text, count(*) FROM service_alerts s WHERE s.state <> 'resolved' AND s.state = 'open' GROUP BY 1`
	countKindsOfSQL = `
SELECT a.kind::text, count(*) FROM alerts a
WHERE a.state <> 'resolved' AND a.state = 'open' AND a.shard = @shard AND a.tenant_id = @tenant GROUP BY 1`
)

// CountOpenByKind counts the alerts that nobody looks after yet, of a tenant or of all tenants and the service (nil), by what they are
// about. Of all, it may give what it counted last: see pg.Resting.
func (d *Desk) CountOpenByKind(ctx context.Context, tenant *id.ID) (map[Kind]int64, error) {
	if tenant != nil {
		return d.countKinds(ctx, countKindsOfSQL, pgx.StrictNamedArgs{"shard": tenant.Shard, "tenant": tenant.N})
	}
	counts, err := d.open.Read(func() (map[Kind]int64, error) { return d.countKinds(ctx, countKindsSQL, pgx.StrictNamedArgs{}) })
	return maps.Clone(counts), err
}

func (d *Desk) countKinds(ctx context.Context, sql string, args pgx.StrictNamedArgs) (map[Kind]int64, error) {
	rows, err := d.db.Query(ctx, sql, args)
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("count open alerts: %w", err))
	}
	counts := map[Kind]int64{}
	var name string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		kind, err := ParseKind(name)
		counts[kind] = n
		return err
	})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("count open alerts: %w", err))
	}
	return counts, nil
}
