package migrations_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/migrations"
)

// What Citus refuses of a class, as a query for what breaks it.
const (
	ourTables = `SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`
	// A distributed table's unique keys have to hold the bucket.
	keysWithoutBucket = `
SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
 WHERE c.relname = ANY ($1) AND c.relnamespace = current_schema()::regnamespace AND i.indisunique
   AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'shard' AND a.attnum = ANY (i.indkey))`
	// Its foreign keys go to a reference table, or from bucket to bucket.
	foreignKeys = `
SELECT k.conname::text AS name, c.relname::text AS of, t.relname::text AS to, EXISTS (
           SELECT FROM generate_subscripts(k.conkey, 1) n
             JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[n] AND a.attname = 'shard'
             JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = k.confkey[n] AND b.attname = 'shard') AS bucket
  FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_class t ON t.oid = k.confrelid
 WHERE k.contype = 'f' AND k.connamespace = current_schema()::regnamespace`
)

type foreignKey struct {
	Name, Of, To string
	Bucket       bool
}

// Every table has its place on a Citus cluster, and one that it can have there.
func TestEachTableHasItsPlace(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	tables := collect(t, pool, ourTables, pgx.RowTo[string])
	var distributed []string
	for _, name := range tables {
		switch migrations.Classes[name] {
		case "":
			t.Errorf("nobody has said where the rows of %s belong: migrations/distribute.go", name)
		case migrations.Distributed:
			distributed = append(distributed, name)
		case migrations.Reference, migrations.Local:
		}
	}
	for name := range migrations.Classes {
		if !slices.Contains(tables, name) {
			t.Errorf("there is no table %s", name)
		}
	}
	if bad := collect(t, pool, keysWithoutBucket, pgx.RowTo[string], distributed); len(bad) > 0 {
		t.Errorf("unique without the bucket: %v", bad)
	}
	for _, k := range collect(t, pool, foreignKeys, pgx.RowToStructByName[foreignKey]) {
		of, to := migrations.Classes[k.Of], migrations.Classes[k.To]
		switch {
		case to == migrations.Reference, of == migrations.Distributed && to == migrations.Distributed && k.Bucket:
		case of == to && of == migrations.Local:
		default:
			t.Errorf("%s points from a %s table to a %s one", k.Name, of, to)
		}
	}
	if bad := collect(t, pool, keysWithoutBucket, pgx.RowTo[string], []string{"tenants"}); !slices.Equal(bad, []string{"tenants_uid_key"}) {
		t.Errorf("the look for keys without the bucket finds %v of tenants", bad)
	}
}

// citus is what we call of Citus, in a schema that stands before PostgreSQL's own: each call is written down, and what it refuses twice
// it refuses here.
const citus = `
CREATE TABLE calls (n int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, call text NOT NULL);
CREATE TABLE pg_dist_partition (logicalrelid oid PRIMARY KEY);
CREATE FUNCTION place(what text, of regclass) RETURNS void LANGUAGE sql AS $$
    INSERT INTO citus.pg_dist_partition VALUES (of); INSERT INTO citus.calls (call) VALUES (what) $$;
CREATE FUNCTION create_distributed_table(of regclass, by text, colocate_with text) RETURNS void LANGUAGE sql AS $$
    SELECT citus.place(format('%s by %s beside %s', of, by, colocate_with), of) $$;
CREATE FUNCTION create_reference_table(of regclass) RETURNS void LANGUAGE sql AS $$ SELECT citus.place(format('%s everywhere', of), of) $$;
CREATE FUNCTION citus_add_local_table_to_metadata(of regclass) RETURNS void LANGUAGE sql AS $$ SELECT citus.place(format('%s here', of), of) $$;`

func installCitus(t *testing.T, pool *pgxpool.Pool) (url string) {
	t.Helper()
	for _, sql := range []string{`CREATE SCHEMA citus`, `SET LOCAL search_path = citus; ` + citus} {
		if _, err := pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	return pgtest.URL(t) + "&search_path=postrider,citus"
}

func TestDistribute(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	if _, err := migrations.Distribute(t.Context(), pgtest.URL(t), false); !errors.Is(err, migrations.ErrNoCitus) {
		t.Errorf("without Citus: %v", err)
	}
	url := installCitus(t, pool)
	calls := func() []string {
		t.Helper()
		return collect(t, pool, `SELECT call FROM citus.calls ORDER BY n`, pgx.RowTo[string])
	}
	planned, err := migrations.Distribute(t.Context(), url, true)
	if err != nil || len(planned) != len(migrations.Classes) || len(calls()) > 0 {
		t.Errorf("a dry run plans %d statements for %d tables, and has made %d calls: %v", len(planned), len(migrations.Classes), len(calls()), err)
	}
	const serve = `UPDATE nodes SET owner = $1, leased_until = now() + interval '1 minute' WHERE node = 0`
	if _, err := pool.Exec(t.Context(), `INSERT INTO nodes (node, owner, leased_until) VALUES (0, 1, now() + interval '1 minute')
	    ON CONFLICT (node) DO UPDATE SET owner = 1, leased_until = excluded.leased_until`); err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Distribute(t.Context(), url, false); err == nil || !strings.Contains(err.Error(), "stop them") || len(calls()) > 0 {
		t.Errorf("beside a process: %v, %d calls", err, len(calls()))
	}
	if _, err := pool.Exec(t.Context(), serve, nil); err != nil {
		t.Fatal(err)
	}
	done, err := migrations.Distribute(t.Context(), url, false)
	if err != nil || !slices.Equal(done, planned) {
		t.Fatalf("%v: %q, planned were %q", err, done, planned)
	}
	made := calls()
	before := func(one, other string) {
		t.Helper()
		if a, b := slices.Index(made, one), slices.Index(made, other); a < 0 || b < a {
			t.Errorf("%s is call %d, %s is call %d of %q", one, a, other, b, made)
		}
	}
	before("tenants everywhere", "endpoints by shard beside none")
	before("endpoints by shard beside none", "deliveries by shard beside endpoints")
	before("endpoints by shard beside none", "endpoint_versions by shard beside endpoints")
	before("tenants everywhere", "api_keys everywhere")
	before("tenants everywhere", "nodes here")
	if again, err := migrations.Distribute(t.Context(), url, false); err != nil || len(again) > 0 || len(calls()) != len(made) {
		t.Errorf("a second time: %v, %q", err, again)
	}
	if _, err := pool.Exec(t.Context(), `DELETE FROM citus.pg_dist_partition WHERE logicalrelid = 'jobs'::regclass`); err != nil {
		t.Fatal(err)
	}
	want := []string{"SELECT create_distributed_table('jobs', 'shard', colocate_with => 'endpoints')"}
	if rest, err := migrations.Distribute(t.Context(), url, false); err != nil || !slices.Equal(rest, want) {
		t.Errorf("of what was not done: %v, %q", err, rest)
	}
	if _, err := migrations.Down(t.Context(), pgtest.URL(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Distribute(t.Context(), url, false); err == nil || !strings.Contains(err.Error(), "migrate up") {
		t.Errorf("an older schema: %v", err)
	}
}
