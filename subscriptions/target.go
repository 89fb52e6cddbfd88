package subscriptions

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/clienttls"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/signer"
)

// Target is an endpoint as an attempt needs it. What it points to is shared between readers, and may not be changed.
type Target struct {
	Endpoint, Tenant id.ID
	URL              string
	Headers          []signer.Header
	Scheme           signer.Scheme
	SignatureHeader  string        // "": the scheme's own
	Secrets          []TimedSecret // newest first; none only if Deleted or Err
	MaxInFlight      int           // 0: the default
	RateLimit        RateLimit     // zero: none
	Timeout          time.Duration // 0: the default
	Format           Format
	TraceContext     bool                // its receiver is told in which trace an attempt is
	RetrySchedule    []time.Duration     // nil: the default
	TLS              *clienttls.Identity // nil: nothing of its own
	Status           Status
	Deleted          bool
	Version          int
	FailingSince     *time.Time
	// Its pace; times are zero where there are none.
	Breaker      Breaker
	Trips        int       // how often the breaker opened since it was closed last
	BreakerUntil time.Time // open: no probe before; half-open: when the probe's turn ends at the latest
	PausedUntil  time.Time // the receiver's wish
	NextSlotAt   time.Time // of the rate limit: no attempt but those whose slots are reserved may start before
	// Err says why nothing can be sent to this endpoint although it is not deleted: something of it is sealed under a
	// key that we do not have. It concerns this endpoint alone.
	Err error
}

// TimedSecret is a secret and when it stops signing. Who keeps a Target for a while looks at that each time.
type TimedSecret struct {
	signer.Secret
	ExpiresAt *time.Time // nil: the current one
}

// Valid gives the secrets that sign at now, newest first.
func (t Target) Valid(now time.Time) []signer.Secret {
	out := make([]signer.Secret, 0, len(t.Secrets))
	for _, s := range t.Secrets {
		if s.ExpiresAt == nil || s.ExpiresAt.After(now) {
			out = append(out, s.Secret)
		}
	}
	return out
}

// targetsSQL reads by the primary keys of endpoints, endpoint_secrets and endpoint_pace. It is one statement, so that an
// endpoint's scheme and its secrets are of one moment. An endpoint has a row for each of its secrets, nearly always one,
// the newest first; expired ones are left out.
const targetsSQL = `
SELECT e.id, e.tenant_id, e.url, coalesce(e.headers_key_id, ''), e.headers_sealed, e.scheme, e.signature_header,
       coalesce(e.max_in_flight, 0), coalesce(e.rate_limit, 0), coalesce(e.rate_per_ms, 0), coalesce(e.timeout_ms, 0),
       e.retry_schedule_ms, e.status::text, e.deleted_at IS NOT NULL, e.version, e.failing_since, e.format::text, e.trace_context,
       coalesce(e.tls_ca, ''), coalesce(e.tls_certificate, ''), coalesce(e.tls_key_id, ''), e.tls_key_sealed,
       coalesce(p.breaker, 'closed')::text, coalesce(p.trips, 0), p.breaker_until, p.paused_until, p.next_slot_at,
       coalesce(k.key_id, ''), k.sealed, k.expires_at
  FROM endpoints e
  LEFT JOIN endpoint_pace p ON p.shard = @shard AND p.endpoint_id = e.id
  LEFT JOIN endpoint_secrets k
    ON k.shard = @shard AND k.endpoint_id = e.id AND (k.expires_at IS NULL OR k.expires_at > @now)
 WHERE e.shard = @shard AND e.id = ANY (@endpoints)
 ORDER BY e.id, k.id DESC`

// Targets gives endpoints, also deleted ones: one statement a bucket, all in one round trip.
func (s *Store) Targets(ctx context.Context, wanted []id.ID) (map[id.ID]Target, error) {
	byShard := map[int16][]int64{}
	for _, e := range wanted {
		byShard[e.Shard] = append(byShard[e.Shard], e.N)
	}
	now, batch := s.now(), &pgx.Batch{}
	out := make(map[id.ID]Target, len(wanted))
	for shard, endpoints := range byShard {
		batch.Queue(targetsSQL, pgx.StrictNamedArgs{"shard": shard, "endpoints": endpoints, "now": now}).
			Query(func(rows pgx.Rows) error { return s.readTargets(shard, rows, out) })
	}
	if err := s.db.SendBatch(ctx, batch).Close(); err != nil {
		return nil, pg.Fault(fmt.Errorf("read where to deliver: %w", err))
	}
	return out, nil
}
