package subscriptions

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
)

// targetRow is a row of targetsSQL, by position: it is read for every endpoint that is sent to, again and again, and by
// name costs more than twice as much.
type targetRow struct {
	id, tenant                            int64
	url, headersKeyID                     string
	headers                               []byte
	scheme, signatureHeader               string
	maxInFlight, limit                    int
	perMS, timeoutMS                      int64
	scheduleMS                            []int64
	status                                string
	deleted                               bool
	version                               int
	failingSince                          *time.Time
	format                                string
	traceContext                          bool
	tls                                   sealedTLS
	breaker                               string
	trips                                 int
	breakerUntil, pausedUntil, nextSlotAt *time.Time
	secretKeyID                           string // "": it has none
	secret                                []byte
	secretEnds                            *time.Time
}

func (r *targetRow) columns() []any {
	return []any{
		&r.id, &r.tenant, &r.url, &r.headersKeyID, &r.headers, &r.scheme, &r.signatureHeader, &r.maxInFlight, &r.limit,
		&r.perMS, &r.timeoutMS, &r.scheduleMS, &r.status, &r.deleted, &r.version, &r.failingSince, &r.format, &r.traceContext, &r.tls.ca, &r.tls.certificate,
		&r.tls.keyID, &r.tls.key, &r.breaker, &r.trips, &r.breakerUntil, &r.pausedUntil, &r.nextSlotAt, &r.secretKeyID, &r.secret,
		&r.secretEnds,
	}
}

// readTargets puts the endpoints of a bucket into out.
func (s *Store) readTargets(shard int16, rows pgx.Rows, out map[id.ID]Target) error {
	var r targetRow
	var t Target
	var parts sealedParts
	finish := func() {
		if t.Endpoint.N != 0 {
			s.unseal(&t, parts)
			out[t.Endpoint] = t
		}
	}
	columns := r.columns()
	for rows.Next() {
		if err := rows.Scan(columns...); err != nil {
			return fmt.Errorf("read a target: %w", err)
		}
		if r.id != t.Endpoint.N {
			finish()
			t = r.target(shard, s.rules.maxTimeout)
			parts = sealedParts{scheme: t.Scheme, headersKeyID: r.headersKeyID, headers: r.headers, tls: r.tls}
		}
		if r.secretKeyID != "" {
			parts.secrets = append(parts.secrets, sealedSecret{r.secretKeyID, r.secret, utc(r.secretEnds)})
		}
	}
	finish()
	return rows.Err()
}

// target gives all but what is sealed.
func (r *targetRow) target(shard int16, maxTimeout time.Duration) Target {
	return Target{
		Endpoint: id.ID{Shard: shard, N: r.id}, Tenant: id.ID{Shard: shard, N: r.tenant}, URL: r.url,
		Scheme: signer.Scheme(r.scheme), SignatureHeader: r.signatureHeader, MaxInFlight: r.maxInFlight,
		RateLimit: RateLimit{Limit: r.limit, Per: time.Duration(r.perMS) * time.Millisecond},
		// It was in bounds when it was saved; the lease may have been made shorter since.
		Timeout:       min(time.Duration(r.timeoutMS)*time.Millisecond, maxTimeout),
		RetrySchedule: fromMilliseconds(r.scheduleMS), Status: Status(r.status), Deleted: r.deleted, Version: r.version,
		FailingSince: utc(r.failingSince), Format: Format(r.format), TraceContext: r.traceContext, Breaker: Breaker(r.breaker), Trips: r.trips, BreakerUntil: orZero(r.breakerUntil),
		PausedUntil: orZero(r.pausedUntil), NextSlotAt: orZero(r.nextSlotAt),
	}
}

// orZero gives a time that may be null in UTC.
func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
