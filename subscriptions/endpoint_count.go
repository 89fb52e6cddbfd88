package subscriptions

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// EndpointCounts says how many endpoints there are by how they are: each is in one of them.
type EndpointCounts struct {
	Well     int64 // enabled, and its last attempt succeeded or there was none
	Failing  int64 // enabled, and its last attempt failed
	Paused   int64 // enabled, and nothing is sent just now but a probe: its breaker is not closed, or its receiver asked for a pause
	Disabled int64
	Dead     int64
}

// All gives how many there are.
func (c EndpointCounts) All() int64 { return c.Well + c.Failing + c.Paused + c.Disabled + c.Dead }

// Of gives how many there are of a health, one of Healths.
func (c EndpointCounts) Of(health string) int64 {
	return [...]int64{c.Well, c.Failing, c.Paused, c.Disabled, c.Dead}[slices.Index(Healths(), health)]
}

// Healths names the ways in which an endpoint can be, as metrics have them.
func Healths() []string { return []string{"healthy", "failing", "paused", "disabled", "dead"} }

// countEndpointsSQL reads no rows of endpoints but of those that are paused or failing: the others are counted in the indexes
// endpoints_by_tenant and endpoints_not_enabled, these are found through endpoint_pace, which is narrow and has few, and
// endpoints_failing.
const countEndpointsSQL = `
WITH paused AS MATERIALIZED (
    SELECT e.shard, e.id
      FROM endpoint_pace p JOIN endpoints e ON e.shard = p.shard AND e.id = p.endpoint_id
     WHERE (p.breaker <> 'closed' OR p.paused_until > @now) AND e.status = 'enabled' AND e.deleted_at IS NULL %[1]s
), counted AS (
    SELECT (SELECT count(*) FROM endpoints e WHERE e.deleted_at IS NULL %[1]s) AS every,
        (SELECT count(*) FROM paused) AS paused,
        (SELECT count(*) FROM endpoints e
          WHERE e.failing_since IS NOT NULL AND e.status = 'enabled' AND e.deleted_at IS NULL %[1]s
            AND NOT EXISTS (SELECT FROM paused p WHERE p.shard = e.shard AND p.id = e.id)) AS failing,
        (SELECT count(*) FROM endpoints e
          WHERE e.status <> 'enabled' AND e.status = 'disabled' AND e.deleted_at IS NULL %[1]s) AS disabled,
        (SELECT count(*) FROM endpoints e
          WHERE e.status <> 'enabled' AND e.status = 'dead' AND e.deleted_at IS NULL %[1]s) AS dead
)
SELECT every - paused - failing - disabled - dead AS well, failing, paused, disabled, dead FROM counted`

var (
	countAllEndpointsSQL = fmt.Sprintf(countEndpointsSQL, "")
	countEndpointsOfSQL  = fmt.Sprintf(countEndpointsSQL, "AND e.shard = @shard AND e.tenant_id = @tenant")
)

// CountEndpoints counts the endpoints of a tenant that are not deleted, or of all tenants (nil). Of all, it may give what it counted
// last: see pg.Resting.
func (s *Store) CountEndpoints(ctx context.Context, tenant *id.ID) (EndpointCounts, error) {
	args := pgx.StrictNamedArgs{"now": s.now()}
	if tenant != nil {
		args["shard"], args["tenant"] = tenant.Shard, tenant.N
		return s.countEndpoints(ctx, countEndpointsOfSQL, args)
	}
	return s.counted.Read(func() (EndpointCounts, error) { return s.countEndpoints(ctx, countAllEndpointsSQL, args) })
}

func (s *Store) countEndpoints(ctx context.Context, sql string, args pgx.StrictNamedArgs) (EndpointCounts, error) {
	rows, err := s.db.Query(ctx, sql, args)
	if err != nil {
		return EndpointCounts{}, pg.Fault(fmt.Errorf("count endpoints: %w", err))
	}
	c, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[EndpointCounts])
	if err != nil {
		return EndpointCounts{}, pg.Fault(fmt.Errorf("count endpoints: %w", err))
	}
	return c, nil
}
