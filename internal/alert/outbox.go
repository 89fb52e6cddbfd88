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
	recent int // see story
}

// claimed is a notice as the outbox has it.
type claimed struct {
	Shard    int16
	ID       int64
	Alert    int64
	Verb     string  // notice_kind
	About    *string // the alert's kind then; nil: see subject
	Detail   string
	Attempts int
	SentTo   []string
	Roads    map[string]progress
}

// progress is how it stands with a road that a notice has not got through on.
type progress struct {
	Tries int       `json:"tries"`
	Next  time.Time `json:"next"`
}

// subject is the alert that a notice is about, as it stands now.
type subject struct {
	Tenant      int64 // 0: it is about the service itself
	TenantName  string
	TenantUID   *string
	Contact     *string
	Endpoint    int64
	EndpointUID *string
	EndpointURL string // "": it has none
	Kind        string
	Count       int
	OpenedAt    time.Time
	ResolvedAt  *time.Time
	ResolvedBy  *string
	Delivery    *int64
}

// At idle this is all that is done: one look into alert_notices_unsent, which is empty then, instead of 256.
const dueBucketsSQL = `
SELECT DISTINCT shard FROM alert_notices WHERE sent_at IS NULL AND given_up_at IS NULL AND next_try_at <= @now`

// All notices of an alert that are not through go together, as soon as one of them is due, so that what came meanwhile is told as
// one. The oldest of them stands for them all: who has its row has the others, and nobody takes them while it is leased.
//
// Through alert_notices_unsent once, and then by arrays: an outage may have thousands in a bucket, of which no statistics know yet, so
// that joins would look through all of them for each. A notice whose last try ended with its process is tried once more.
const claimNoticesSQL = `
WITH unsent AS MATERIALIZED (
    SELECT n.id, n.leased_until, min(n.id) OVER alert AS first, min(n.next_try_at) OVER alert AS due
    FROM alert_notices n
    WHERE n.shard = @shard AND n.sent_at IS NULL AND n.given_up_at IS NULL
    WINDOW alert AS (PARTITION BY n.alert_id)
), due AS MATERIALIZED (
    SELECT n.alert_id FROM alert_notices n
    WHERE n.shard = @shard AND n.sent_at IS NULL AND n.given_up_at IS NULL AND (n.leased_until IS NULL OR n.leased_until <= @now)
        AND n.id = ANY (ARRAY(SELECT u.id FROM unsent u
            WHERE u.id = u.first AND u.due <= @now AND (u.leased_until IS NULL OR u.leased_until <= @now)
            ORDER BY u.due, u.id LIMIT @limit))
    FOR UPDATE OF n SKIP LOCKED
)
UPDATE alert_notices n SET attempts = least(n.attempts + 1, 32767), next_try_at = @leased_until, leased_until = @leased_until
WHERE n.shard = @shard AND n.alert_id = ANY (ARRAY(SELECT d.alert_id FROM due d)) AND n.sent_at IS NULL AND n.given_up_at IS NULL
RETURNING n.shard, n.id, n.alert_id AS alert, n.kind::text AS verb, n.about::text AS about, n.detail, n.attempts, n.sent_to, n.roads`

// By the primary keys.
const subjectsSQL = `
SELECT a.id, a.tenant_id AS tenant, t.name AS tenant_name, t.uid AS tenant_uid, CASE WHEN t.deleted_at IS NULL THEN t.contact_email END AS contact, a.endpoint_id AS endpoint,
    e.uid AS endpoint_uid, coalesce(e.url, '') AS endpoint_url, a.kind::text AS kind, a.count, a.opened_at, a.resolved_at,
    a.resolved_by, a.last_delivery_id AS delivery
FROM alerts a JOIN tenants t ON t.shard = @shard AND t.id = a.tenant_id
    JOIN endpoints e ON e.shard = @shard AND e.id = a.endpoint_id
WHERE a.shard = @shard AND a.id = ANY (@alerts::bigint[])
UNION ALL
SELECT s.id, 0, '', NULL, NULL, 0, NULL, '', s.kind::text, s.count, s.opened_at, s.resolved_at, s.resolved_by, NULL
FROM service_alerts s WHERE s.shard = @shard AND s.id = ANY (@alerts::bigint[])`

// When alerts about these endpoints opened lately, by the end of the primary key: ids tell when they were made.
const recentSQL = `
SELECT a.endpoint_id, array_agg(a.opened_at) FROM alerts a
WHERE a.shard = @shard AND a.id >= @from AND a.endpoint_id = ANY (@endpoints::bigint[])
GROUP BY 1 HAVING count(*) > 1`

// claim takes what is due, up to roundSize alerts. A bucket that cannot be read does not keep the others waiting: its
// error comes back only when no other bucket has work.
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
				all, err = s.describe(ctx, shard, some, now)
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
func (s *Sender) describe(ctx context.Context, shard int16, some []claimed, now time.Time) ([]notice, error) {
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
	endpoints := make([]int64, 0, len(found))
	oldest := now
	for _, f := range found {
		about[f.ID] = f.subject
		endpoints = append(endpoints, f.Endpoint)
		if f.OpenedAt.Before(oldest) {
			oldest = f.OpenedAt
		}
	}
	// What opened days ago is not damped any more, and not worth reading all that came since.
	if yesterday := now.Add(-24 * time.Hour); oldest.Before(yesterday) {
		oldest = yesterday
	}
	opened, err := s.openedLately(ctx, shard, endpoints, oldest.Add(-flapSpan))
	if err != nil {
		return nil, err
	}
	out := make([]notice, 0, len(some))
	for _, n := range some {
		a, ok := about[n.Alert]
		if !ok {
			continue
		}
		recent := 0
		for _, at := range opened[a.Endpoint] {
			if before := a.OpenedAt.Sub(at); before > 0 && before < flapSpan {
				recent++
			}
		}
		out = append(out, notice{claimed: n, subject: a, recent: recent})
	}
	return out, nil
}

func (s *Sender) openedLately(ctx context.Context, shard int16, endpoints []int64, from time.Time) (map[int64][]time.Time, error) {
	rows, err := s.db.Query(ctx, recentSQL, pgx.StrictNamedArgs{"shard": shard, "from": id.Floor(from), "endpoints": endpoints})
	if err != nil {
		return nil, fmt.Errorf("read how often endpoints were in trouble: %w", err)
	}
	out := map[int64][]time.Time{}
	var endpoint int64
	var at []time.Time
	_, err = pgx.ForEachRow(rows, []any{&endpoint, &at}, func() error {
		out[endpoint] = at
		at = nil
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read how often endpoints were in trouble: %w", err)
	}
	return out, nil
}

// The number of claims guards against an owner that comes back after its claim ended and another process took over.
const (
	markSentSQL = `
UPDATE alert_notices SET sent_at = @now, given_up_at = NULL, sent_to = '{}', last_error = NULL, leased_until = NULL, roads = NULL
WHERE shard = @shard AND id = @id`

	markWaitingSQL = `
UPDATE alert_notices SET next_try_at = @next, given_up_at = @given_up, sent_to = @sent_to, last_error = coalesce(@error, last_error),
    leased_until = NULL, roads = @roads
WHERE shard = @shard AND id = @id AND sent_at IS NULL AND given_up_at IS NULL AND attempts = @attempts`
)

// settle writes down how it stands with the notices.
func (s *Sender) settle(ctx context.Context, ns []*outcome) error {
	now := s.now()
	b := &pgx.Batch{}
	for _, n := range ns {
		if n.through() {
			b.Queue(markSentSQL, pgx.StrictNamedArgs{"now": now, "shard": n.Shard, "id": n.ID})
			continue
		}
		next, over := n.next(now)
		var givenUp *time.Time
		if over {
			givenUp = &now
		}
		var text *string
		if n.err != "" {
			text = &n.err
		}
		b.Queue(markWaitingSQL, pgx.StrictNamedArgs{
			"shard": n.Shard, "id": n.ID, "attempts": n.Attempts, "next": next, "given_up": givenUp, "sent_to": n.SentTo,
			"error": text, "roads": n.Roads,
		})
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
