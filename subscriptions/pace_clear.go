package subscriptions

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
)

// outdated is what of an endpoint's pace a change by its owner takes away.
type outdated struct {
	breaker bool // and the pause: both are about a receiver that is another one now, or is said to be well
	slot    bool // of a rate limit that does not hold any more
}

// outdates says what does not hold any more once before became e. Asking for enabled counts also if that is what the
// endpoint is: it is how an owner says that the receiver is well again.
func (p EndpointPatch) outdates(before, e Endpoint) outdated {
	return outdated{
		breaker: p.Status != nil && *p.Status == Enabled || before.URL != e.URL || !reflect.DeepEqual(before.TLS, e.TLS),
		slot:    !reflect.DeepEqual(before.RateLimit, e.RateLimit),
	}
}

// clearPace takes away what is outdated. The caller has locked the endpoint.
func clearPace(ctx context.Context, tx pgx.Tx, e id.ID, o outdated, now time.Time) error {
	const query = `
UPDATE endpoint_pace
   SET breaker = CASE WHEN @breaker THEN 'closed' ELSE breaker END,
       trips = CASE WHEN @breaker THEN 0 ELSE trips END,
       breaker_until = CASE WHEN NOT @breaker THEN breaker_until END,
       breaker_changed_at = CASE WHEN @breaker AND breaker <> 'closed' THEN @now ELSE breaker_changed_at END,
       paused_until = CASE WHEN NOT @breaker THEN paused_until END,
       next_slot_at = CASE WHEN NOT @slot THEN next_slot_at END
 WHERE shard = @shard AND endpoint_id = @endpoint
   AND (@breaker AND (breaker <> 'closed' OR paused_until IS NOT NULL) OR @slot AND next_slot_at IS NOT NULL)`
	if o == (outdated{}) {
		return nil
	}
	_, err := tx.Exec(ctx, query, pgx.StrictNamedArgs{
		"shard": e.Shard, "endpoint": e.N, "breaker": o.breaker, "slot": o.slot, "now": now,
	})
	if err != nil {
		return fmt.Errorf("clear an endpoint's pace: %w", err)
	}
	return nil
}

// deletePace takes away the pace of endpoints of one bucket that are being deleted.
func deletePace(ctx context.Context, tx pgx.Tx, shard int16, endpoints ...int64) error {
	const query = `
DELETE FROM endpoint_pace WHERE shard = @shard AND endpoint_id = ANY (@endpoints)` // the primary key
	if _, err := tx.Exec(ctx, query, pgx.StrictNamedArgs{"shard": shard, "endpoints": endpoints}); err != nil {
		return fmt.Errorf("delete the pace of endpoints: %w", err)
	}
	return nil
}
