package intake_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
)

const scan = "Seq Scan"

// The plans of the statements, on tables large enough that a scan of all rows would be the worse one: 12,000 events of
// 20 tenants in three partitions, a few unfinished and failed among their deliveries.
func TestStatementsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ten := d.tenant(t)
	fill(t, d, ten)
	for name, test := range map[string]struct {
		sql  string
		args pgx.NamedArgs
		want []string // index names that the plan has
		not  []string
	}{
		"an event by id": {
			intake.ByRefSQL,
			pgx.NamedArgs{"id": int64(6_000) << 22, "uid": ""},
			[]string{"Index Scan using events_p2", "deliveries_pkey", "finished_p2_pkey"},
			[]string{"events_p1", "finished_p1", scan},
		},
		"an event by uid": {
			intake.ByRefSQL,
			pgx.NamedArgs{"id": nil, "uid": "u-6000"},
			[]string{"Index Scan using events_p2", "idempotency_keys_pkey"},
			[]string{"events_p1", "events_p3", scan},
		},
		"a page": {
			intake.ListSQL,
			pgx.NamedArgs{"since": 0, "until": int64(1<<63 - 1), "type": "", "status": "", "limit": 50},
			[]string{"events_p3_shard_tenant_id_id_idx", "deliveries_pkey"},
			[]string{scan, "->  Sort"},
		},
		"a page of a time range": {
			intake.ListSQL,
			pgx.NamedArgs{"since": int64(5_000) << 22, "until": int64(5_200) << 22, "type": "t", "status": "", "limit": 50},
			[]string{"events_p2_shard_tenant_id_id_idx"},
			[]string{scan, "events_p1", "events_p3"},
		},
		"what failed": {
			intake.ListByStatusSQL("failed"),
			pgx.NamedArgs{"since": 0, "until": int64(1<<63 - 1), "type": "", "status": "failed", "limit": 50},
			[]string{"finished_p2_shard_tenant_id_id_idx"},
			[]string{scan},
		},
		"what is queued": {
			intake.ListByStatusSQL("queued"),
			pgx.NamedArgs{"since": 0, "until": int64(1<<63 - 1), "type": "", "status": "queued", "limit": 50},
			[]string{"events_p3"},
			[]string{"Seq Scan on events_p"},
		},
		"expired keys": {
			intake.KeysSQL,
			pgx.NamedArgs{"before": start, "batch": 1000, "tenant": nil},
			[]string{"idempotency_keys_by_age", "Tid Scan"},
			[]string{scan},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.args["shard"] = ten.Shard
			if _, given := test.args["tenant"]; !given {
				test.args["tenant"] = ten.N
			}
			plan := explain(t, d, test.sql, test.args)
			for _, index := range test.want {
				if !strings.Contains(plan, index) {
					t.Errorf("the plan does not use %s:\n%s", index, plan)
				}
			}
			for _, other := range test.not {
				if strings.Contains(executed(plan), other) {
					t.Errorf("the plan has %s:\n%s", other, plan)
				}
			}
		})
	}
}

func explain(t *testing.T, d *desk, sql string, args pgx.NamedArgs) string {
	t.Helper()
	rows, err := d.db.Query(t.Context(), `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) `+sql, args)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// executed leaves out what the plan holds for partitions that are empty or were never looked at.
func executed(plan string) string {
	var lines []string
	for line := range strings.Lines(plan) {
		if !strings.Contains(line, "never executed") && !strings.Contains(line, "_default") { // those are empty
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func fill(t *testing.T, d *desk, ten id.ID) {
	t.Helper()
	conn, err := d.db.Acquire(t.Context()) // one: it has a temporary table
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range []string{
		`CREATE TABLE events_p1 PARTITION OF events FOR VALUES FROM (0) TO ((4000::bigint << 22))`,
		`CREATE TABLE events_p2 PARTITION OF events FOR VALUES FROM ((4000::bigint << 22)) TO ((8000::bigint << 22))`,
		`CREATE TABLE events_p3 PARTITION OF events FOR VALUES FROM ((8000::bigint << 22)) TO ((16000::bigint << 22))`,
		`CREATE TABLE finished_p1 PARTITION OF deliveries_finished FOR VALUES FROM (0) TO ((4000::bigint << 22))`,
		`CREATE TABLE finished_p2 PARTITION OF deliveries_finished FOR VALUES FROM ((4000::bigint << 22)) TO ((16000::bigint << 22))`,
		`INSERT INTO endpoints (shard, id, tenant_id, url, scheme, status_changed_at, created_at, updated_at)
			SELECT @shard::smallint, n, @tenant, 'https://example.com/', 'standard', now(), now(), now() FROM generate_series(1, 2000) n`,
		`CREATE TEMP TABLE n AS SELECT n, n::bigint << 22 AS id, CASE WHEN n % 20 = 0 THEN @tenant::bigint ELSE n % 20 END AS tenant
			FROM generate_series(1, 12000) n`,
		`INSERT INTO events (shard, id, tenant_id, uid, type, content_type, payload, delivery_ids)
			SELECT @shard::smallint, id, tenant, 'u-' || n, 't', 'text/plain', '{}', ARRAY[id + 1] FROM n`,
		`INSERT INTO idempotency_keys (shard, tenant_id, kind, key, digest, event_ids, created_at)
			SELECT @shard::smallint, tenant, 'uid', 'u-' || n, ''::bytea, ARRAY[id], to_timestamp(n) FROM n
			UNION ALL SELECT @shard::smallint, tenant, 'key', 'k-' || n, ''::bytea, ARRAY[id], @now::timestamptz + n * interval '1 s' FROM n`,
		`INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, reason, last_outcome, finished_at)
			SELECT @shard::smallint, id + 1, tenant, id, 1, CASE WHEN n % 200 = 0 THEN 'failed' ELSE 'succeeded' END::delivery_state, 1,
				CASE WHEN n % 200 = 0 THEN 'exhausted' END, CASE WHEN n % 200 = 0 THEN 'retryable' ELSE 'succeeded' END::outcome,
				now() FROM n WHERE n < 9000`,
		`INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, next_retry_at)
			SELECT @shard::smallint, id + 1, tenant, id, 1, 'pending', now() FROM n WHERE n >= 9000`,
	} {
		args := pgx.NamedArgs{"shard": ten.Shard, "tenant": ten.N, "now": start}
		if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol, args); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	d.exec(t, `ANALYZE events, idempotency_keys, deliveries, deliveries_finished, endpoints`)
}

// fillGroups gives another tenant of the same bucket 50 groups at three endpoints, 60 deliveries in each.
func fillGroups(t *testing.T, d *desk, neighbour id.ID) id.ID {
	t.Helper()
	ten := d.neighbour(t, neighbour)
	var eps []int64
	for range 3 {
		eps = append(eps, d.endpoint(t, ten, "").N)
	}
	d.exec(t, `UPDATE endpoints SET ordering = 'group' WHERE id = ANY ($1)`, eps)
	d.exec(t, `INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, next_retry_at, lane, group_id)
		SELECT $1, n::bigint << 22 | 2, $2, 1, ($3::bigint[])[n % 3 + 1], 'pending', now(), 2, n % 50 FROM generate_series(1, 9000) n`,
		ten.Shard, ten.N, eps)
	d.exec(t, `ANALYZE deliveries, endpoints`)
	return ten
}
