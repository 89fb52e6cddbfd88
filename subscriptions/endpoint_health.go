package subscriptions

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Health says in one word how an endpoint is, as CountEndpoints counts them.
func (e Endpoint) Health() string {
	switch {
	case e.Status != Enabled:
		return string(e.Status)
	case e.Pace.holds():
		return healthPaused
	case e.FailingSince != nil:
		return healthFailing
	}
	return healthWell
}

const (
	healthWell    = "healthy"
	healthFailing = "failing"
	healthPaused  = "paused"
)

// unwell finds the endpoints that are not well, each kind through an index that has no others: endpoints_failing,
// endpoint_pace (few have a row there), endpoints_not_enabled.
var unwell = map[string]string{
	healthFailing: `SELECT e.shard, e.id FROM endpoints e WHERE e.failing_since IS NOT NULL AND e.status = 'enabled' AND e.deleted_at IS NULL
    AND NOT EXISTS (SELECT FROM endpoint_pace p WHERE p.shard = e.shard AND p.endpoint_id = e.id AND (p.breaker <> 'closed' OR p.paused_until > @now))`,
	// OFFSET keeps the look at each endpoint by itself, by its key, so that no more of them are read than the page needs.
	healthPaused: `SELECT e.shard, e.id FROM (
        SELECT p.shard, p.endpoint_id AS id FROM endpoint_pace p WHERE p.breaker <> 'closed' OR p.paused_until > @now
         ORDER BY p.endpoint_id DESC, p.shard DESC OFFSET 0) e, LATERAL (
        SELECT FROM endpoints o WHERE o.shard = e.shard AND o.id = e.id AND o.status = 'enabled' AND o.deleted_at IS NULL OFFSET 0) o
    WHERE true`,
	string(Disabled): `SELECT e.shard, e.id FROM endpoints e WHERE e.status <> 'enabled' AND e.status = 'disabled' AND e.deleted_at IS NULL
    AND @now::timestamptz IS NOT NULL`,
	string(Dead): `SELECT e.shard, e.id FROM endpoints e WHERE e.status <> 'enabled' AND e.status = 'dead' AND e.deleted_at IS NULL
    AND @now::timestamptz IS NOT NULL`,
}

// EndpointsThatAre gives the endpoints of all tenants that are failing, paused, disabled or dead, the newest first, those that
// come after before (zero: from the newest). It fails with Invalid when health is none of these.
func (s *Store) EndpointsThatAre(ctx context.Context, health string, limit int, before id.ID) (found Found[Endpoint], err error) {
	which, ok := unwell[health]
	if !ok {
		return found, fault.InvalidAt("/health", "is none of failing, paused, disabled, dead")
	}
	if before.IsZero() {
		before = id.ID{N: math.MaxInt64}
	}
	query := strings.ReplaceAll(selectEndpoint, "@shard", "e.shard") + ` JOIN (` + which + `
    AND (e.id < @below OR e.id = @below AND e.shard < @below_shard) ORDER BY e.id DESC, e.shard DESC LIMIT @limit) these
 ON e.shard = these.shard AND e.id = these.id ORDER BY e.id DESC, e.shard DESC`
	rows, err := s.db.Query(ctx, query, pgx.StrictNamedArgs{
		"now": s.now(), "below": before.N, "below_shard": before.Shard, "limit": limit + 1,
	})
	if err != nil {
		return found, pg.Fault(fmt.Errorf("list endpoints by health: %w", err))
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[endpointRow])
	if err != nil {
		return found, pg.Fault(fmt.Errorf("list endpoints by health: %w", err))
	}
	for _, r := range list {
		e, err := s.endpoint(r)
		if err != nil {
			return found, err
		}
		found.Things = append(found.Things, e)
	}
	if len(found.Things) > limit {
		found.Things = found.Things[:limit]
		found.Next = found.Things[limit-1].ID
	}
	return found, nil
}
