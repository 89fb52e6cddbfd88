package migrations_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/migrations"
)

// Data of version 1: two events, one with four deliveries of all kinds and one with none; attempts under two names and,
// lost with their process, under none; rows in a day's partitions and in the default ones.
const versionOne = `
CREATE TABLE events_20250102            PARTITION OF events              FOR VALUES FROM (100) TO (200);
CREATE TABLE deliveries_finished_20250102 PARTITION OF deliveries_finished FOR VALUES FROM (100) TO (200);
CREATE TABLE attempts_20250102          PARTITION OF attempts            FOR VALUES FROM (100) TO (200);

INSERT INTO events (shard, id, tenant_id, type, content_type, payload, group_key, fan_out) VALUES
    (3, 101, 1, 'a.b', 'text/plain', '\x00ff', 'g', 7), (3, 501, 1, 'a.c', 'text/plain', '', NULL, 0), (4, 101, 2, 'a.b', 'text/plain', '', NULL, 1);

INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, attempts, failures, rescues, next_retry_at,
    lease_owner, leased_until, cancel_reason, last_outcome, last_status) VALUES
    (3, 110, 1, 101, 9, 'pending',   0, 0, 0, '2026-01-01 10:00Z', NULL, NULL, NULL, NULL, NULL),
    (3, 111, 1, 101, 8, 'pending',   3, 2, 1, '2026-01-01 11:00Z', NULL, NULL, NULL, 'retryable', 503),
    (3, 112, 1, 101, 7, 'in_flight', 1, 0, 0, '2026-01-01 12:00Z', 77, '2026-01-01 12:01Z', 'cancelled', NULL, NULL),
    (3, 113, 1, 101, 6, 'scheduled', 0, 0, 0, '2027-01-01 12:00Z', NULL, NULL, NULL, NULL, NULL),
    (4, 110, 2, 101, 5, 'in_flight', 2, 1, 0, '2026-01-01 12:00Z', 78, '2026-01-01 12:01Z', NULL, 'timeout', NULL);
INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, reason, last_outcome,
    last_status, finished_at) VALUES
    (3, 114, 1, 101, 4, 'succeeded', 1, NULL,        'succeeded', 200, '2026-01-01 10:00Z'),
    (3, 515, 1, 101, 3, 'failed',    6, 'exhausted', 'retryable', 500, '2026-01-01 10:00Z'),
    (3, 516, 1, 101, 2, 'cancelled', 0, 'endpoint_dead', NULL, NULL, '2026-01-01 10:00Z');
INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, status, outcome,
    dns_us, connect_us, tls_us, first_byte_us, total_us, address, user_agent, signature, error, response_headers,
    response_body, response_truncated) VALUES
    (3, 120, 114, 4, 1767261600, 2, 1, 200,  'succeeded', 1, 2, 3, 4, 5, '192.0.2.1:443', 'Postrider/1.0', 'v1,x', NULL, 'A: b', '\x00ff', true),
    (3, 520, 515, 3, 1767261601, 1, 1, 500,  'retryable', NULL, NULL, NULL, NULL, 9, NULL, 'Postrider/2.0', 'v1,y', 'it said 500', NULL, NULL, false),
    (3, 121, 111, 8, 1767261602, 1, 2, NULL, 'unknown',   NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'lost', NULL, NULL, false),
    (4, 120, 110, 5, 1767261603, 1, 1, NULL, 'timeout',   NULL, NULL, NULL, NULL, 9, NULL, 'Postrider/1.0', NULL, 'too late', NULL, NULL, false);`

// All that version 1 holds, whatever the order of columns; the partition that each row is in comes with it.
const allRows = `
SELECT 'events ' || tableoid::regclass || (to_jsonb(e) - 'fan_out')::text FROM events e
UNION ALL SELECT 'deliveries ' || to_jsonb(d)::text FROM deliveries d
UNION ALL SELECT 'finished ' || tableoid::regclass || to_jsonb(f)::text FROM deliveries_finished f
UNION ALL SELECT 'attempts ' || tableoid::regclass || to_jsonb(a)::text FROM attempts a
ORDER BY 1`

const partitions = `
SELECT format('%s of %s %s', c.oid::regclass, i.inhparent::regclass, pg_get_expr(c.relpartbound, c.oid))
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE c.relkind = 'r' ORDER BY 1`

func TestLanesKeepWhatIsThere(t *testing.T) {
	t.Parallel()
	pool, u := pgtest.Pool(t), pgtest.URL(t)
	to := func(version int) {
		t.Helper()
		for {
			state, err := migrations.List(t.Context(), u)
			if err != nil {
				t.Fatal(err)
			}
			if applied(state) == version {
				break
			}
			if applied(state) > version {
				_, err = migrations.Down(t.Context(), u)
			} else {
				_, err = migrations.Up(t.Context(), u)
				version = len(state)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		pool.Reset() // what is prepared there is of other tables
	}
	to(1)
	if _, err := pool.Exec(t.Context(), versionOne); err != nil {
		t.Fatal(err)
	}
	rows, parts := collect(t, pool, allRows, pgx.RowTo[string]), collect(t, pool, partitions, pgx.RowTo[string])
	if len(rows) != 15 || !slices.ContainsFunc(rows, func(r string) bool { return strings.HasPrefix(r, "attempts attempts_default") }) {
		t.Fatalf("%d rows: %v", len(rows), rows)
	}

	to(2)
	for what, query := range map[string]string{
		"events with their deliveries": `SELECT string_agg(format('%s/%s %s', shard, id, delivery_ids), ', ' ORDER BY shard, id) FROM events`,
		"deliveries": `SELECT string_agg(format('%s/%s %s %s lane %s, %s of %s, %s, lease %s, %s %s %s', shard, id, state, endpoint_id,
			lane, failures, attempts, rescues, lease_owner, cancel_reason, last_outcome, last_status), ', ' ORDER BY shard, id) FROM deliveries
			WHERE group_id IS NULL`,
		"finished": `SELECT string_agg(format('%s/%s %s %s %s %s', shard, id, tableoid::regclass, state, reason, attempts), ', ' ORDER BY shard, id)
			FROM deliveries_finished WHERE group_id IS NULL`,
		"attempts": `SELECT string_agg(format('%s/%s %s %s %s %s %s', a.shard, a.delivery_id, a.id, a.tableoid::regclass, a.outcome, u.name,
			encode(a.response_body, 'hex')), ', ' ORDER BY a.shard, a.id) FROM attempts a LEFT JOIN user_agents u ON u.id = a.user_agent`,
	} {
		want := map[string]string{
			"events with their deliveries": "3/101 {110,111,112,113,114,515,516}, 3/501 {}, 4/101 {110}",
			"deliveries": "3/110 pending 9 lane 0, 0 of 0, 0, lease ,   , 3/111 pending 8 lane 1, 2 of 3, 1, lease ,  retryable 503, " +
				"3/112 in_flight 7 lane 0, 0 of 1, 0, lease 77, cancelled  , 3/113 scheduled 6 lane 0, 0 of 0, 0, lease ,   , " +
				"4/110 in_flight 5 lane 1, 1 of 2, 0, lease 78,  timeout ",
			"finished": "3/114 deliveries_finished_20250102 succeeded  1, 3/515 deliveries_finished_default failed exhausted 6, " +
				"3/516 deliveries_finished_default cancelled endpoint_dead 0",
			"attempts": "3/114 120 attempts_20250102 succeeded Postrider/1.0 00ff, 3/111 121 attempts_20250102 unknown  , " +
				"3/515 520 attempts_default retryable Postrider/2.0 , 4/110 120 attempts_20250102 timeout Postrider/1.0 ",
		}[what]
		if got := collect(t, pool, query, pgx.RowTo[string])[0]; got != want {
			t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
		}
	}
	compare(t, collect(t, pool, partitions, pgx.RowTo[string]), parts)

	to(1)
	compare(t, collect(t, pool, allRows, pgx.RowTo[string]), rows)
	compare(t, collect(t, pool, partitions, pgx.RowTo[string]), parts)
	if got := collect(t, pool, `SELECT fan_out FROM events ORDER BY shard, id`, pgx.RowTo[int]); !slices.Equal(got, []int{7, 0, 1}) {
		t.Errorf("fan_out: %v", got)
	}
}
