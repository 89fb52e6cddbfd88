package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// What the database of the part pages holds: a month of a busy installation, with much that is frequent and a little of
// each kind that somebody might look for.
const (
	pagesTenants   = 10_000
	pagesEndpoints = 10 // of each tenant
	pagesSpan      = 30 * 24 * time.Hour
	pagesChunk     = 250_000
	// The beginnings of what the fill makes, as in fillEventsSQL.
	rareType, rareText, frequentText = "legal.hold", "needle-in-hay", "vip-customer"
)

// A hundredth of the tenants has half of all deliveries. Each statement works out the same h, tenant and endpoint from
// the number of the event, so that the tables fit together. An id is a time, and the next ones are what belongs to it.
const (
	fillTenantsSQL = `
INSERT INTO tenants (shard, id, uid, name, created_at, updated_at)
SELECT get_byte(sha256(int8send(t.id)), 0), t.id, 'customer-' || t.n, 'Customer ' || md5(t.n::text), @now::timestamptz, @now::timestamptz
  FROM (SELECT n, @base::bigint + n * 4194304 AS id FROM generate_series(0, @tenants::bigint - 1) n) t`
	fillEndpointsSQL = `
INSERT INTO endpoints (shard, id, tenant_id, uid, url, scheme, status_changed_at, created_at, updated_at)
SELECT t.shard, t.id + 1 + k, t.id, 'hook-' || t.uid || '-' || k, 'https://' || md5(t.uid) || '.example/hooks/' || k,
       'standard', @now::timestamptz, @now::timestamptz, @now::timestamptz
  FROM tenants t, generate_series(0, @endpoints::bigint - 1) k WHERE t.uid LIKE 'customer-%'`
	fillPickSQL = `
SELECT i, i * @step::bigint + @base::bigint AS id, h, get_byte(sha256(int8send(tenant)), 0)::smallint AS shard, tenant,
       tenant + 1 + h / 3 % @endpoints::bigint AS endpoint
  FROM (SELECT i, h, @first::bigint + CASE WHEN h % 2 = 0 THEN h / 2 % (@tenants::bigint / 100) ELSE h / 2 % @tenants::bigint END * 4194304 AS tenant
          FROM (SELECT i, hashint8(i)::bigint + 2147483648 AS h FROM generate_series(@from::bigint, @to::bigint) i) x) y`
	fillEventsSQL = `
INSERT INTO events (shard, id, tenant_id, uid, type, content_type, payload, delivery_ids)
SELECT p.shard, p.id, p.tenant, 'ord-' || p.i,
       CASE WHEN p.i % (@n::bigint / 12) = 7 THEN 'legal.hold' ELSE 'order.step' || p.h / 100003 % 20 END, 'application/json',
       convert_to(format('{"order":%s,"customer":"%s","note":"%s","address":"%s"}', p.i, md5(p.i::text),
           CASE WHEN p.i % (@n::bigint / 10) = 3 THEN 'needle-in-hay' WHEN p.i % 1000 = 3 THEN 'vip-customer' ELSE '' END,
           md5(p.h::text)), 'UTF8'), ARRAY[p.id + 1]
  FROM (` + fillPickSQL + `) p`
	// One in a hundred failed, one in a thousand was cancelled, some thirty by a fault of TLS.
	fillFinishedSQL = `
INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, last_outcome, last_status,
       finished_at, reason)
SELECT shard, id + 1, tenant, id, endpoint, k.state::delivery_state, CASE WHEN h % 4 = 0 THEN 2 ELSE 1 END,
       CASE k.state WHEN 'succeeded' THEN 'succeeded' WHEN 'failed' THEN CASE WHEN i % (@n::bigint / 30) = 11 THEN 'tls_error'
           ELSE (ARRAY['retryable', 'timeout', 'rejected', 'connect_error'])[1 + h / 100043 % 4] END END::outcome,
       CASE WHEN k.state = 'succeeded' THEN 200 END, @now::timestamptz,
       CASE k.state WHEN 'failed' THEN 'exhausted' WHEN 'cancelled' THEN 'cancelled_by_user' END
  FROM (` + fillPickSQL + `) p, LATERAL (SELECT CASE WHEN h / 100019 % 100 = 0 OR i % (@n::bigint / 30) = 11 THEN 'failed'
       WHEN h / 100019 % 1000 = 1 THEN 'cancelled' ELSE 'succeeded' END AS state) k`
	fillAttemptsSQL = `
INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, status, outcome,
       first_byte_us, total_us, address, signature, response_headers, response_body)
SELECT shard, id + 1 + a, id + 1, endpoint, extract(epoch FROM @now::timestamptz)::bigint, 1, a, 200, 'succeeded', 400, 500,
       '127.0.0.1:40000', 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=', 'Date: Mon, 30 Nov 2026 12:00:00 GMT', ''
  FROM (` + fillPickSQL + `) p, generate_series(1, CASE WHEN h % 4 = 0 THEN 2 ELSE 1 END) a`
	// Beside what is finished, some thousands that wait for next week.
	fillWaitingSQL = `
WITH p AS MATERIALIZED (` + fillPickSQL + `), e AS (
    INSERT INTO events (shard, id, tenant_id, uid, type, content_type, payload, delivery_ids)
    SELECT p.shard, p.id, p.tenant, 'ord-' || p.i, 'order.step1', 'application/json', '{}', ARRAY[p.id + 1] FROM p)
INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, next_retry_at)
SELECT shard, id + 1, tenant, id, endpoint, 'scheduled', @now::timestamptz + interval '7 days' FROM p`
	// Every tenth is open.
	fillAlertsSQL = `
INSERT INTO alerts (shard, id, tenant_id, endpoint_id, kind, state, detail, last_notice_id, opened_at, last_at, resolved_at)
SELECT p.shard, p.id + 9, p.tenant, p.endpoint, 'delivery.failing', k.state::alert_state, 'five failed in a row', 1, @now::timestamptz, @now::timestamptz,
       CASE k.state WHEN 'resolved' THEN @now::timestamptz END
  FROM (` + fillPickSQL + `) p, LATERAL (SELECT CASE WHEN p.i % 10 = 0 THEN 'open' ELSE 'resolved' END AS state) k
ON CONFLICT DO NOTHING`
	fillAuditSQL = `
INSERT INTO audit_log (shard, id, tenant_id, action, object_kind, object_id, actor, actor_name, details)
SELECT shard, id + 8, tenant, CASE WHEN i % 5000 = 0 THEN 'endpoint.deleted' ELSE 'delivery.retried' END, 'dlv', id + 1, 'cli',
       'ops', '{}'
  FROM (` + fillPickSQL + `) p`
)

// fillPages fills the tables. What @n means: so many deliveries, and a quarter more attempts.
func (w *world) fillPages(ctx context.Context, n int) error {
	now := w.clock.Now()
	span := pagesSpan.Milliseconds()
	const idBits = 22
	base := (w.ids.Next() >> idBits << idBits) - span<<idBits
	args := pgx.NamedArgs{ // not strict: they are of several statements
		"now": now, "tenants": int64(pagesTenants), "endpoints": int64(pagesEndpoints), "n": int64(n), "base": base - int64(pagesTenants)<<idBits,
	}
	if err := w.pagesPartitions(ctx, base); err != nil {
		return err
	}
	for _, sql := range []string{fillTenantsSQL, fillEndpointsSQL} {
		if _, err := w.db.Exec(ctx, sql, args); err != nil {
			return err
		}
	}
	args["first"], args["base"] = args["base"], base
	for _, f := range []struct {
		sql string
		n   int
	}{
		{fillEventsSQL, n},
		{fillFinishedSQL, n},
		{fillAttemptsSQL, n},
		{fillAlertsSQL, n / 200},
		{fillAuditSQL, n / 20},
		{fillQuietSQL, n / 4},
	} {
		args["step"] = (span / int64(f.n)) << idBits
		for from := 0; from < f.n; from += pagesChunk {
			args["from"], args["to"] = int64(from), int64(min(from+pagesChunk, f.n)-1)
			if _, err := w.db.Exec(ctx, f.sql, args); err != nil {
				return err
			}
		}
	}
	// What waits lies between the last of what is finished.
	args["step"], args["from"], args["to"] = (span/int64(n))<<idBits, int64(n-20_000), int64(n-1)
	args["base"] = base + 4
	if _, err := w.db.Exec(ctx, fillWaitingSQL, args); err != nil {
		return err
	}
	if err := w.fillFigures(ctx, args); err != nil {
		return err
	}
	if _, err := w.db.Exec(ctx, `VACUUM (ANALYZE)`); err != nil {
		return err
	}
	return checkpoint(ctx)
}

// pagesPartitions makes a month's daily partitions, as upkeep made them day by day.
func (w *world) pagesPartitions(ctx context.Context, base int64) error {
	const idBits = 22
	day := (24 * time.Hour).Milliseconds() << idBits
	for _, table := range []string{"events", "deliveries_finished", "attempts"} {
		for from := base / day * day; from < w.ids.Next()-2*day; from += day {
			sql := fmt.Sprintf("CREATE TABLE %[1]s_old%[2]d PARTITION OF %[1]s FOR VALUES FROM (%[2]d) TO (%[3]d)", table, from, from+day)
			if _, err := w.db.Exec(ctx, sql); err != nil {
				return err
			}
		}
	}
	return nil
}
