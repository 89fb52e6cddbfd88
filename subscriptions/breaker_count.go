package subscriptions

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// Breakers names the states of a circuit breaker, as the database has them.
func Breakers() []string { return []string{"closed", "open", "half_open"} }

// countBreakersSQL reads endpoint_pace, which has a row for an endpoint that was once in trouble or has a rate limit.
const countBreakersSQL = `
SELECT p.breaker::text, count(*) FROM endpoint_pace p
  JOIN endpoints e ON e.shard = p.shard AND e.id = p.endpoint_id
 WHERE p.breaker <> 'closed' AND e.status = 'enabled' AND e.deleted_at IS NULL GROUP BY 1`

// CountBreakers counts the circuit breakers of enabled endpoints by state. All endpoints have one: those that are not open or half
// open are closed. It may give what it counted last: see pg.Resting.
func (s *Store) CountBreakers(ctx context.Context) (map[string]int64, error) {
	endpoints, err := s.CountEndpoints(ctx, nil)
	if err != nil {
		return nil, err
	}
	return s.breakers.Read(func() (map[string]int64, error) {
		counts := map[string]int64{}
		for _, state := range Breakers() {
			counts[state] = 0
		}
		rows, err := s.db.Query(ctx, countBreakersSQL)
		if err == nil {
			var state string
			var n int64
			_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error {
				counts[state] = n
				return nil
			})
		}
		if err != nil {
			return nil, pg.Fault(fmt.Errorf("count breakers: %w", err))
		}
		counts["closed"] = max(endpoints.Well+endpoints.Failing+endpoints.Paused-counts["open"]-counts["half_open"], 0)
		return counts, nil
	})
}
