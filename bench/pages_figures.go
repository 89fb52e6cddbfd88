package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// What the database of the part pages holds beside its history: figures, endpoints that are not well, and some of all else that
// has a page.
const (
	// Of a hundred endpoints two or three each are failing, paused and disabled, and one is dead.
	fillUnwellSQL = `
WITH numbered AS MATERIALIZED (
    SELECT shard, id, (tenant_id - @first::bigint) / 4194304 * 10 + id - tenant_id - 1 AS n FROM endpoints WHERE uid LIKE 'hook-%'
), paced AS (
    INSERT INTO endpoint_pace (shard, endpoint_id, breaker, trips, breaker_until, breaker_changed_at)
    SELECT shard, id, 'open', 1, @now::timestamptz + interval '1 hour', @now::timestamptz FROM numbered WHERE n % 40 = 1)
UPDATE endpoints e SET
       consecutive_failures = CASE WHEN n % 40 < 2 THEN 7 ELSE 0 END,
       failing_since = CASE WHEN n % 40 < 2 THEN @now::timestamptz END, last_error = CASE WHEN n % 40 < 2 THEN 'answered 503' END,
       status = CASE WHEN n % 40 = 2 THEN 'disabled' WHEN n % 100 = 33 THEN 'dead' ELSE 'enabled' END::endpoint_status,
       status_reason = CASE WHEN n % 40 = 2 THEN 'by_user' WHEN n % 100 = 33 THEN 'gone' END
  FROM numbered m WHERE e.shard = m.shard AND e.id = m.id AND (n % 40 < 3 OR n % 100 = 33)`
	// By the hour for a month, by the quarter and the minute for two days, by three processes, of six outcomes.
	fillTrafficSQL = `
INSERT INTO traffic (minutes, starts, id, outcome, attempts, finished, latency_from, latency)
SELECT g.minutes, date_trunc('hour', @now::timestamptz) - make_interval(mins => g.minutes * (k - 1)), o.n * 4 + process, o.name::outcome,
       1000, 900, 4, decode(repeat('a101', 30), 'hex')
  FROM (VALUES (1, 2880), (15, 192), (60, 720)) g (minutes, many), generate_series(1, g.many) k, generate_series(1, 3) process,
       unnest(ARRAY['succeeded', 'retryable', 'timeout', 'rejected', 'connect_error', 'tls_error']) WITH ORDINALITY AS o (name, n)`
	// The busiest endpoints have something of three outcomes by two processes in each quarter of an hour.
	fillBusySQL = `
INSERT INTO endpoint_traffic (shard, endpoint_id, starts, id, outcome, attempts, finished, latency_from, latency)
SELECT e.shard, e.id, to_timestamp((extract(epoch FROM @now::timestamptz)::bigint / 900 - k) * 900), o.n * 4 + process, o.name::outcome, 100, 90, 4,
       decode(repeat('05', 20), 'hex')
  FROM endpoints e, generate_series(0, 2879) k, generate_series(1, 2) process,
       unnest(ARRAY['succeeded', 'retryable', 'timeout']) WITH ORDINALITY AS o (name, n)
 WHERE e.uid LIKE 'hook-customer-0-%' OR e.uid LIKE 'hook-customer-1-%'`
	// The others have a row for every fourth delivery.
	fillQuietSQL = `
INSERT INTO endpoint_traffic (shard, endpoint_id, starts, id, outcome, attempts, finished, latency_from, latency)
SELECT shard, endpoint, to_timestamp((id >> 22) / 900000 * 900), id, 'succeeded', 1, 1, 16, '\x01'
  FROM (` + fillPickSQL + `) p`
	// One delivery of the first endpoint was tried 40 times.
	fillTriedSQL = `
WITH one AS (
    UPDATE deliveries_finished SET attempts = 40
     WHERE (shard, id) = (SELECT d.shard, d.id FROM deliveries_finished d JOIN endpoints e ON e.shard = d.shard AND e.id = d.endpoint_id
                           WHERE e.uid = 'hook-customer-0-3' ORDER BY d.id DESC LIMIT 1)
    RETURNING *)
INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, status, outcome,
       first_byte_us, total_us, address, signature, response_headers, response_body)
SELECT shard, id + a, id, endpoint_id, extract(epoch FROM @now::timestamptz)::bigint, 1, a, 503, 'retryable', 400, 500, '127.0.0.1:40000',
       'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=', 'Content-Type: application/json', convert_to(repeat('{"busy":true}', 300), 'UTF8')
  FROM one, generate_series(3, 40) a`
	// One event went to 250 endpoints.
	fillWideSQL = `
WITH t AS (SELECT shard, id FROM tenants WHERE uid = 'customer-0'), e AS MATERIALIZED (
    SELECT e.shard, t.id AS tenant, e.id AS endpoint, row_number() OVER () AS n FROM t JOIN endpoints e ON e.shard = t.shard LIMIT 250
), made AS (
    INSERT INTO events (shard, id, tenant_id, uid, type, content_type, payload, delivery_ids)
    SELECT shard, @wide::bigint, tenant, 'wide', 'order.step1', 'application/json', '{"a":1}', array_agg(@wide::bigint + n) FROM e GROUP BY 1, 2, 3)
INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, last_outcome, last_status, finished_at)
SELECT shard, @wide::bigint + n, tenant, @wide::bigint, endpoint, 'succeeded', 1, 'succeeded', 200, @now::timestamptz FROM e`
	fillTypesSQL = `
INSERT INTO event_types (id, name, description, schema, example, created_at, updated_at)
SELECT n, CASE WHEN n < 20 THEN 'order.step' || n ELSE 'thing' || n || '.changed' END, 'Something changed.',
       '{"type":"object","properties":{"order":{"type":"integer"}}}', '{"order":1}', @now::timestamptz, @now::timestamptz FROM generate_series(1, 300) n`
	fillKeysSQL = `
INSERT INTO api_keys (id, name, hash, hint, scopes, created_at)
SELECT @wide::bigint + n, 'key ' || n, sha256(int8send(n)), 'pr_abc', '{events:write}', @now::timestamptz FROM generate_series(1000, 1300) n`
	fillJobsSQL = `
INSERT INTO jobs (shard, id, kind, state, spec, created_by, matched, done, gathered, next_at, started_at, finished_at)
SELECT 0, @wide::bigint + n, 'retry', 'succeeded', '{"filter":{"state":["failed"]}}', 'ops', 1000, 1000, true, @now::timestamptz, @now::timestamptz, @now::timestamptz
  FROM generate_series(1, 500) n`
)

// fillFigures fills the tables beside those of history, with the arguments of their fill.
func (w *world) fillFigures(ctx context.Context, args pgx.NamedArgs) error {
	args["wide"] = w.ids.Next() - time.Hour.Milliseconds()<<22
	for _, sql := range []string{fillUnwellSQL, fillTrafficSQL, fillBusySQL, fillTriedSQL, fillWideSQL, fillTypesSQL, fillKeysSQL, fillJobsSQL} {
		if _, err := w.db.Exec(ctx, sql, args); err != nil {
			return err
		}
	}
	return nil
}
