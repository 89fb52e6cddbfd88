package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/signer"
)

// Target is an endpoint as an attempt needs it.
type Target struct {
	Endpoint, Tenant id.ID
	URL              string
	Headers          []signer.Header
	Scheme           signer.Scheme
	SignatureHeader  string          // "": the scheme's own
	Secrets          []TimedSecret   // newest first; none only if Deleted or Err
	MaxInFlight      int             // 0: the default
	Timeout          time.Duration   // 0: the default
	RetrySchedule    []time.Duration // nil: the default
	Status           Status
	Deleted          bool
	Version          int
	FailingSince     *time.Time
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

// targetsSQL reads by the primary keys of endpoints and endpoint_secrets. It is one statement, so that an endpoint's
// scheme and its secrets are of one moment; expired secrets are left out.
const targetsSQL = `
SELECT e.id, e.tenant_id, e.url, e.headers_key_id, e.headers_sealed, e.scheme, e.signature_header, e.max_in_flight,
       e.timeout_ms, e.retry_schedule_ms, e.status::text, e.deleted_at IS NOT NULL AS deleted, e.version,
       e.failing_since, k.key_ids, k.sealed, k.ends
  FROM endpoints e
  LEFT JOIN LATERAL (
       SELECT array_agg(x.key_id ORDER BY x.id DESC) AS key_ids, array_agg(x.sealed ORDER BY x.id DESC) AS sealed,
              array_agg(x.expires_at ORDER BY x.id DESC) AS ends
         FROM endpoint_secrets x
        WHERE x.shard = @shard AND x.endpoint_id = e.id AND (x.expires_at IS NULL OR x.expires_at > @now)) k ON true
 WHERE e.shard = @shard AND e.id = ANY (@endpoints)`

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
			Query(func(rows pgx.Rows) error {
				found, err := pgx.CollectRows(rows, pgx.RowToStructByName[targetRow])
				for _, r := range found {
					out[id.ID{Shard: shard, N: r.ID}] = s.target(shard, r)
				}
				return err
			})
	}
	if err := s.db.SendBatch(ctx, batch).Close(); err != nil {
		return nil, pg.Fault(fmt.Errorf("read where to deliver: %w", err))
	}
	return out, nil
}

type targetRow struct {
	ID, TenantID    int64
	URL             string
	HeadersKeyID    *string
	HeadersSealed   []byte
	Scheme          string
	SignatureHeader string
	MaxInFlight     *int
	TimeoutMS       *int64
	RetryScheduleMS []int64
	Status          string
	Deleted         bool
	Version         int
	FailingSince    *time.Time
	KeyIDs          []string
	Sealed          [][]byte
	Ends            []*time.Time
}

func (s *Store) target(shard int16, r targetRow) Target {
	t := Target{
		Endpoint: id.ID{Shard: shard, N: r.ID}, Tenant: id.ID{Shard: shard, N: r.TenantID}, URL: r.URL,
		Scheme: signer.Scheme(r.Scheme), SignatureHeader: r.SignatureHeader,
		RetrySchedule: fromMilliseconds(r.RetryScheduleMS), Status: Status(r.Status), Deleted: r.Deleted,
		Version: r.Version, FailingSince: utc(r.FailingSince),
	}
	if r.MaxInFlight != nil {
		t.MaxInFlight = *r.MaxInFlight
	}
	if timeout := fromMillisecond(r.TimeoutMS); timeout != nil {
		// It was in bounds when it was saved; the lease may have been made shorter since.
		t.Timeout = min(*timeout, s.rules.maxTimeout)
	}
	if r.Deleted {
		return t
	}
	if t.Headers, t.Err = s.openHeaders(t.Endpoint, r.HeadersKeyID, r.HeadersSealed); t.Err != nil {
		return t
	}
	t.Secrets, t.Err = s.openSecrets(t.Endpoint, t.Scheme, r)
	return t
}

// openSecrets gives what can sign. An old secret that does not open is done without, so that it takes nothing down with
// it; the current one has to open, since it is the one that receivers are to know.
func (s *Store) openSecrets(e id.ID, scheme signer.Scheme, r targetRow) ([]TimedSecret, error) {
	if len(r.KeyIDs) == 0 || r.Ends[0] != nil {
		return nil, errors.New("the endpoint has no current secret")
	}
	out := make([]TimedSecret, 0, len(r.KeyIDs))
	for i, keyID := range r.KeyIDs {
		secret, err := s.openSecret(e, scheme, keyID, r.Sealed[i])
		if err != nil && i == 0 {
			return nil, err
		}
		if err == nil {
			out = append(out, TimedSecret{Secret: secret, ExpiresAt: utc(r.Ends[i])})
		}
	}
	return out, nil
}
