package alert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// notice is a claimed notice with what there is to tell about its alert.
type notice struct {
	claimed
	subject
}

// claimed is a notice as the outbox has it.
type claimed struct {
	Shard    int16
	ID       int64
	Alert    int64
	Verb     string // notice_kind
	Detail   string
	Attempts int
	SentTo   []string
}

// subject is the alert that a notice is about, as it stands now.
type subject struct {
	Tenant     int64 // 0: it is about the service itself
	TenantName string
	Endpoint   int64
	Kind       string
	Count      int
	OpenedAt   time.Time
	ResolvedAt *time.Time
}

// At idle this is all that is done: one look into alert_notices_unsent, which is empty then, instead of 256.
const dueBucketsSQL = `
SELECT DISTINCT shard FROM alert_notices WHERE sent_at IS NULL AND given_up_at IS NULL AND next_try_at <= @now`

// Through alert_notices_unsent twice: for what is due, and for an earlier notice of the same alert that is not through
// and not given up, which holds the later ones back. A notice whose last try ended with its process is tried once more.
const claimNoticesSQL = `
WITH due AS MATERIALIZED (
    SELECT n.id FROM alert_notices n
    WHERE n.shard = @shard AND n.sent_at IS NULL AND n.given_up_at IS NULL AND n.next_try_at <= @now
        AND NOT EXISTS (SELECT FROM alert_notices e WHERE e.shard = @shard AND e.sent_at IS NULL
            AND e.given_up_at IS NULL AND e.alert_id = n.alert_id AND e.id < n.id)
    ORDER BY n.next_try_at, n.id LIMIT @limit FOR UPDATE OF n SKIP LOCKED
)
UPDATE alert_notices n SET attempts = n.attempts + 1, next_try_at = @leased_until, leased_until = @leased_until
FROM due d
WHERE n.shard = @shard AND n.id = d.id
RETURNING n.shard, n.id, n.alert_id AS alert, n.kind::text AS verb, n.detail, n.attempts, n.sent_to`

// By the primary keys.
const subjectsSQL = `
SELECT a.id, a.tenant_id AS tenant, t.name AS tenant_name, a.endpoint_id AS endpoint, a.kind::text AS kind, a.count, a.opened_at,
    a.resolved_at
FROM alerts a JOIN tenants t ON t.shard = @shard AND t.id = a.tenant_id
WHERE a.shard = @shard AND a.id = ANY (@alerts::bigint[])
UNION ALL
SELECT s.id, 0, '', 0, s.kind::text, s.count, s.opened_at, s.resolved_at
FROM service_alerts s WHERE s.shard = @shard AND s.id = ANY (@alerts::bigint[])`

// claim takes up to roundSize due notices. A bucket that cannot be read does not keep the others waiting: its error
// comes back only when no other bucket has work.
func (s *Sender) claim(ctx context.Context) ([]notice, error) {
	now := s.now()
	rows, err := s.db.Query(ctx, dueBucketsSQL, pgx.StrictNamedArgs{"now": now})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("look for notices: %w", err))
	}
	shards, err := pgx.CollectRows(rows, pgx.RowTo[int16])
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("look for notices: %w", err))
	}
	var out []notice
	var errs error
	for _, shard := range shards {
		if len(out) >= roundSize {
			break
		}
		rows, err := s.db.Query(ctx, claimNoticesSQL, pgx.StrictNamedArgs{
			"shard": shard, "now": now, "limit": roundSize - len(out), "leased_until": now.Add(noticeLease),
		})
		if err == nil {
			var some []claimed
			some, err = pgx.CollectRows(rows, pgx.RowToStructByName[claimed])
			if err == nil && len(some) > 0 {
				var all []notice
				all, err = s.describe(ctx, shard, some)
				out = append(out, all...)
			}
		}
		if err != nil {
			errs = errors.Join(errs, pg.Fault(fmt.Errorf("claim notices of bucket %d: %w", shard, err)))
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, errs
}

// describe adds what the notices of a bucket are about. One whose alert is gone (old alerts go with their notices) is left out.
func (s *Sender) describe(ctx context.Context, shard int16, some []claimed) ([]notice, error) {
	alerts := make([]int64, len(some))
	for i, n := range some {
		alerts[i] = n.Alert
	}
	rows, err := s.db.Query(ctx, subjectsSQL, pgx.StrictNamedArgs{"shard": shard, "alerts": alerts})
	if err != nil {
		return nil, fmt.Errorf("read what notices are about: %w", err)
	}
	type keyed struct {
		ID int64
		subject
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[keyed])
	if err != nil {
		return nil, fmt.Errorf("read what notices are about: %w", err)
	}
	about := make(map[int64]subject, len(found))
	for _, f := range found {
		about[f.ID] = f.subject
	}
	out := make([]notice, 0, len(some))
	for _, n := range some {
		if a, ok := about[n.Alert]; ok {
			out = append(out, notice{n, a})
		}
	}
	return out, nil
}

const markSentSQL = `
UPDATE alert_notices SET sent_at = @now, given_up_at = NULL, sent_to = '{}', last_error = NULL
WHERE shard = @shard AND id = @id`

// The number of tries guards against an owner that comes back after its claim ended and another process took over.
const markFailedSQL = `
UPDATE alert_notices SET next_try_at = @next, given_up_at = @given_up, sent_to = @sent_to, last_error = @error
WHERE shard = @shard AND id = @id AND sent_at IS NULL AND given_up_at IS NULL AND attempts = @attempts`

func (s *Sender) settle(ctx context.Context, results []result) error {
	now := s.now()
	b := &pgx.Batch{}
	for _, r := range results {
		if r.done() {
			b.Queue(markSentSQL, pgx.StrictNamedArgs{"now": now, "shard": r.Shard, "id": r.ID})
			continue
		}
		next := now.Add(retryDelay(r.Attempts))
		var givenUp *time.Time
		if r.Attempts >= maxTries {
			givenUp = &now
		}
		b.Queue(markFailedSQL, pgx.StrictNamedArgs{
			"shard": r.Shard, "id": r.ID, "attempts": r.Attempts, "next": next,
			"given_up": givenUp, "sent_to": r.SentTo, "error": r.err.Error(),
		})
		line := s.log.Warn().Str("alert", id.Alert.Format(id.ID{Shard: r.Shard, N: r.Alert})).Int("try", r.Attempts).Err(r.err)
		if givenUp == nil {
			line.Time("next_try", next).Msg("alert.notice_failed")
		} else {
			line.Msg("alert.notice_given_up")
		}
	}
	if err := s.db.SendBatch(ctx, b).Close(); err != nil {
		return pg.Fault(fmt.Errorf("write down what was sent: %w", err))
	}
	return nil
}

// retryDelay is the wait after the given number of tries: 30 s, doubling, to an hour at most.
func retryDelay(tries int) time.Duration {
	const first, most = 30 * time.Second, time.Hour
	if tries > 7 { // 30 s × 2^7 is past the hour
		return most
	}
	return min(first<<max(tries-1, 0), most)
}
