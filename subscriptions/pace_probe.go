package subscriptions

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// TakeProbe gives one caller, over all processes, the right to send a probe to an endpoint whose breaker is open and may be
// probed: the breaker is half-open then. The right ends at until; whoever has it says by then, with Close or Reopen, what
// came of it, or else another may take it. false: the breaker is closed, it is too early, or another has the right.
func (s *Store) TakeProbe(ctx context.Context, endpoint id.ID, until time.Time) (bool, error) {
	// Nobody waits for a row that another has: it is the other's turn, or the breaker is just changing.
	const query = `
WITH mine AS MATERIALIZED (
     SELECT shard, endpoint_id FROM endpoint_pace
      WHERE shard = @shard AND endpoint_id = @endpoint AND breaker <> 'closed' AND breaker_until <= @now
        FOR UPDATE SKIP LOCKED)
UPDATE endpoint_pace p
   SET breaker = 'half_open', breaker_until = @until,
       breaker_changed_at = CASE breaker WHEN 'open' THEN @now ELSE breaker_changed_at END
  FROM mine
 WHERE p.shard = mine.shard AND p.endpoint_id = mine.endpoint_id`
	tag, err := s.db.Exec(ctx, query, pgx.StrictNamedArgs{
		"shard": endpoint.Shard, "endpoint": endpoint.N, "until": until, "now": s.now(),
	})
	if err != nil {
		return false, pg.Fault(fmt.Errorf("take the turn to probe: %w", err))
	}
	return tag.RowsAffected() == 1, nil
}

// GiveBackProbe gives up a turn to probe that ends at until and was not used: another may be taken at once.
func (s *Store) GiveBackProbe(ctx context.Context, endpoint id.ID, until time.Time) error {
	const query = `
UPDATE endpoint_pace SET breaker = 'open', breaker_until = @now, breaker_changed_at = @now
 WHERE shard = @shard AND endpoint_id = @endpoint AND breaker = 'half_open' AND breaker_until = @until`
	_, err := s.db.Exec(ctx, query, pgx.StrictNamedArgs{
		"shard": endpoint.Shard, "endpoint": endpoint.N, "until": until, "now": s.now(),
	})
	if err != nil {
		return pg.Fault(fmt.Errorf("give back the turn to probe: %w", err))
	}
	return nil
}
