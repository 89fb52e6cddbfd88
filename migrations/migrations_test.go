package migrations_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// exempt are the keys and indexes that do not begin with the bucket, each with the reason. One that is not there any
// more, or begins with it after all, fails the test as well.
var exempt = map[string]string{
	"tenants_uid_key":                      "a tenant's uid is unique over all buckets",
	"tenants_by_id":                        "the list of tenants goes over all buckets",
	"deliveries_finished_unhappy":          "the review of failures goes over all buckets",
	"deliveries_late":                      "the review of deliveries goes over all buckets",
	"deliveries_finished_late":             "the review of deliveries goes over all buckets",
	"events_summary":                       "it tells of pages, and a page has events of all buckets",
	"alerts_by_id":                         "the list of alerts goes over all buckets",
	"canary_pkey":                          "the canary is one row, and no tenant's",
	"audit_log_by_id":                      "the audit log is looked into over all buckets",
	"audit_log_by_action":                  "the audit log is looked into over all buckets",
	"audit_log_by_actor":                   "the audit log is looked into over all buckets",
	"audit_log_by_key":                     "the audit log is looked into over all buckets",
	"audit_log_by_tenant":                  "a tenant's entries lie in its bucket, and those of its keys in 0",
	"schedules_due":                        "what is due is looked for over all buckets",
	"endpoints_by_id":                      "the list of endpoints goes over all buckets",
	"endpoints_by_uid":                     "the search for endpoints goes over all buckets",
	"event_types_pkey":                     "the catalogue of event types is the operator's, no tenant's",
	"event_types_id_key":                   "the same",
	"api_keys_pkey":                        "keys are the operator's, and looked up before a tenant is known",
	"api_keys_hash_key":                    "a key is found by its hash, whatever tenant it is bound to",
	"api_keys_tenant_shard_tenant_id_fkey": "it points to (shard, id); on this side the bucket is called tenant_shard",
	"user_agents_pkey":                     "our own, no tenant's",
	"user_agents_name_key":                 "our own, no tenant's",
	"nodes_pkey":                           "the register of processes, no tenant's",
	"seal_keys_pkey":                       "the register of the operator's keys, no tenant's",
	"sessions_pkey":                        "a session is found by its token's hash, before a tenant is known",
	"sessions_by_end":                      "upkeep drops what has ended, of all tenants and of none",
	"portal_links_pkey":                    "a link is found by its token's hash, before a tenant is known",
	"portal_links_by_end":                  "upkeep drops what has ended, of all tenants",
	"events_unrouted_pkey":                 "the fan-out takes the oldest of all buckets, in the order in which they were enqueued",
	"intake_settings_pkey":                 "of the configuration, no tenant's",
	"job_leases_pkey":                      "the scheduler's jobs, no tenant's",
	"history_days_pkey":                    "partitions, which hold days of all tenants",
	"traffic_pkey":                         "figures over all tenants, no tenant's",
	"schema_compatibility_pkey":            "about the schema, no tenant's",
	"goose_db_version_pkey":                "goose's own table",
}

// foreign are the tables in our schema that are not made by our migrations.
var foreign = []string{"goose_db_version"}

// One row for each primary, unique and foreign key and each index of the schema, with its first column or
// expression; for a foreign key also the first column that it points to. Partitions have theirs too; an index that one has from its parent goes by the parent's
// name.
const keys = `
SELECT c.conname AS name, c.conrelid::regclass::text AS on_table,
       (SELECT attname FROM pg_attribute WHERE attrelid = c.conrelid AND attnum = c.conkey[1]) AS first,
       coalesce((SELECT attname FROM pg_attribute WHERE attrelid = c.confrelid AND attnum = c.confkey[1]), 'shard') AS target
  FROM pg_constraint c
 WHERE c.connamespace = current_schema()::regnamespace AND c.contype IN ('p', 'u', 'f', 'x')
UNION
SELECT coalesce((SELECT h.inhparent FROM pg_inherits h WHERE h.inhrelid = i.indexrelid), i.indexrelid)::regclass::text,
       i.indrelid::regclass::text,
       coalesce((SELECT attname FROM pg_attribute WHERE attrelid = i.indrelid AND attnum = i.indkey[0]),
                pg_get_indexdef(i.indexrelid, 1, true)), 'shard'
  FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
 WHERE t.relnamespace = current_schema()::regnamespace
 ORDER BY name`

// spelledBuckets are the ways in which an index may spell the bucket: 0002_lanes.sql says why there are several.
var spelledBuckets = []string{"shard", "(shard::integer)", "(shard::bigint)"}

// leading is a row of keys.
type leading struct{ Name, OnTable, First, Target string }

func TestTheBucketLeadsEveryKeyAndIndex(t *testing.T) {
	t.Parallel()
	found := collect(t, pgtest.Pool(t), keys, pgx.RowToStructByName[leading])
	if len(found) < 40 {
		t.Errorf("only %d keys and indexes were found", len(found))
	}
	used := map[string]bool{}
	for _, k := range found {
		leads := slices.Contains(spelledBuckets, k.First) && k.Target == "shard"
		if _, ok := exempt[k.Name]; ok {
			used[k.Name] = !leads
			continue
		}
		if !leads {
			t.Errorf("%s on %s begins with %q, not with the bucket", k.Name, k.OnTable, k.First)
		}
	}
	for name := range exempt {
		if !used[name] {
			t.Errorf("%s is exempt for nothing", name)
		}
	}
}

// The walk above finds a key that breaks the rule, of whatever kind.
func TestTheWalkSeesAKeyWithoutTheBucket(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	for _, sql := range []string{
		`CREATE TABLE bad_one (id bigint CONSTRAINT bad_primary PRIMARY KEY, shard smallint, CONSTRAINT bad_unique UNIQUE (id, shard))`,
		`CREATE TABLE bad_two (shard smallint, id bigint, PRIMARY KEY (shard, id),
			CONSTRAINT bad_foreign FOREIGN KEY (id) REFERENCES bad_one (id),
			CONSTRAINT bad_target FOREIGN KEY (shard, id) REFERENCES bad_one (id, shard))`,
		`CREATE INDEX bad_index ON deliveries (endpoint_id, shard)`,
		`CREATE INDEX bad_expression ON deliveries ((shard + 1))`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	bad := map[string]bool{}
	for _, k := range collect(t, pool, keys, pgx.RowToStructByName[leading]) {
		if !slices.Contains(spelledBuckets, k.First) || k.Target != "shard" {
			bad[k.Name] = true
		}
	}
	for _, name := range []string{"bad_primary", "bad_unique", "bad_foreign", "bad_target", "bad_index", "bad_expression"} {
		if !bad[name] {
			t.Errorf("%s goes unseen; seen are %v", name, slices.Sorted(maps.Keys(bad)))
		}
	}
}

// Every other rule that lets the schema be spread over several databases, as a query for what breaks it.
func TestNothingStandsInTheWayOfSpreading(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	const ours = ` c.relnamespace = current_schema()::regnamespace AND c.relname <> ALL ($1)`
	for name, query := range map[string]string{
		"a table without a primary key": `
SELECT c.relname FROM pg_class c
 WHERE` + ours + ` AND c.relkind IN ('r', 'p')
   AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'p')`,
		"a tenant's table whose bucket is no smallint or may be null": `
SELECT c.relname FROM pg_class c
 WHERE` + ours + ` AND c.relkind IN ('r', 'p') AND c.relname NOT IN ('event_types', 'api_keys', 'nodes', 'user_agents', 'seal_keys', 'traffic', 'sessions',
                                                                    'portal_links', 'intake_settings', 'schema_compatibility',
                                                                    'job_leases', 'history_days', 'canary')
   AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'shard' AND a.attnotnull
                                                AND a.atttypid = 'smallint'::regtype)`,
		"an identity column": `
SELECT c.relname || '.' || a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
 WHERE` + ours + ` AND a.attidentity <> ''`,
		"a default that is not a constant": `
SELECT c.relname || ' ' || pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d JOIN pg_class c ON c.oid = d.adrelid
 WHERE` + ours + ` AND pg_get_expr(d.adbin, d.adrelid) ~ '\(|CURRENT'`,
		"a trigger that does not belong to a foreign key": `
SELECT g.tgname FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
 WHERE` + ours + ` AND NOT g.tgisinternal`,
		"a rule": `
SELECT r.rulename FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE` + ours,
		"a foreign key that does more than refuse": `
SELECT k.conname FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
 WHERE` + ours + ` AND k.contype = 'f' AND (k.confdeltype <> 'a' OR k.confupdtype <> 'a')`,
		"a foreign key of or to what is written in masses": `
SELECT k.conname FROM pg_constraint k JOIN pg_class c ON c.oid IN (k.conrelid, k.confrelid)
 WHERE` + ours + ` AND k.contype = 'f' AND c.relname ~ '^(events|deliveries|attempts)'`,
	} {
		if broken := collect(t, pool, query, pgx.RowTo[string], foreign); len(broken) > 0 {
			t.Errorf("%s: %s", name, strings.Join(broken, ", "))
		}
	}
}

// The tables stand in the schema that search_path names, and the role that works on them owns them and is nothing more:
// what passes here passes in a database that somebody else runs.
func TestNoStatementNeedsASuperuser(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	if got := collect(t, pool, `
SELECT rolname FROM pg_roles
 WHERE rolname IN (current_user, session_user) AND (rolsuper OR rolcreaterole OR rolreplication OR rolbypassrls)`,
		pgx.RowTo[string]); len(got) > 0 {
		t.Errorf("%v may more than a user of a database should need", got)
	}
	if got := collect(t, pool, `
SELECT c.relname FROM pg_class c
 WHERE c.relnamespace = current_schema()::regnamespace AND c.relowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)`,
		pgx.RowTo[string]); len(got) > 0 {
		t.Errorf("%v were made by somebody else", got)
	}
	if got := collect(t, pool, `SELECT extname FROM pg_extension WHERE extname <> 'plpgsql'`, pgx.RowTo[string]); len(got) > 0 {
		t.Errorf("the extensions %v have to be there", got)
	}
}

func collect[T any](t *testing.T, pool *pgxpool.Pool, query string, read pgx.RowToFunc[T], args ...any) []T {
	t.Helper()
	rows, err := pool.Query(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	out, err := pgx.CollectRows(rows, read)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return out
}
