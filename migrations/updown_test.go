package migrations_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/migrations"
)

// catalogue describes all that stands in a schema: columns, constraints, indexes, types and sequences.
const catalogue = `
SELECT format('column %s.%s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
              pg_get_expr(d.adbin, d.adrelid))
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
 WHERE c.relnamespace = $1::text::regnamespace AND c.relkind IN ('r', 'p')
UNION ALL
SELECT format('constraint %s %s', conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = $1::text::regnamespace
UNION ALL
SELECT format('relation %s %s %s', relname, relkind, reloptions) FROM pg_class WHERE relnamespace = $1::text::regnamespace
   AND relname NOT LIKE 'goose_db_version_id_seq%' -- gets another name when several make goose's own table at once
UNION ALL
SELECT format('function %s %s %s', proname, pg_get_function_arguments(oid), prosecdef) FROM pg_proc WHERE pronamespace = $1::text::regnamespace
UNION ALL
SELECT format('type %s %s', t.typname, e.enumlabel) FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid
 WHERE t.typnamespace = $1::text::regnamespace
 ORDER BY 1`

func TestDownTakesBackWhatUpMade(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	u := pgtest.URL(t)
	there := func() []string { return collect(t, pool, catalogue, pgx.RowTo[string], "postrider") }
	first := there()
	if len(first) < 200 {
		t.Fatalf("the schema is %v", first)
	}
	all, err := migrations.List(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if !all[i].Applied || i > 0 && all[i].Version <= all[i-1].Version {
			t.Errorf("the template has %+v", all[i])
		}
		state, err := migrations.Down(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		if n := pending(t, u); n != i+1 || applied(state) != len(all)-i-1 {
			t.Errorf("after %d steps down %d are pending", i+1, n)
		}
	}
	for _, left := range there() {
		if !strings.Contains(left, "goose_db_version") {
			t.Errorf("left behind: %s", left)
		}
	}
	if _, err := migrations.Down(t.Context(), u); err != nil {
		t.Errorf("a step below the ground: %v", err)
	}
	state, err := migrations.Up(t.Context(), u)
	if err != nil || applied(state) != len(all) || pending(t, u) != 0 {
		t.Fatalf("up again: %v, %v", state, err)
	}
	compare(t, there(), first)
	if _, err := migrations.Up(t.Context(), u); err != nil {
		t.Errorf("up with nothing to do: %v", err)
	}
}

// Processes that start together all migrate: one works, the others wait. Names are unqualified, so the schema is the
// one that the URL names.
func TestManyMigrateAtOnceIntoAnotherSchema(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("search_path", "elsewhere")
	u.RawQuery = query.Encode()
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() {
			_, err := migrations.Up(t.Context(), u.String())
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	pool := pgtest.Pool(t)
	elsewhere := collect(t, pool, catalogue, pgx.RowTo[string], "elsewhere")
	for i, line := range elsewhere { // of a schema that is not in the search path, PostgreSQL says the name
		elsewhere[i] = strings.ReplaceAll(line, "elsewhere.", "")
	}
	compare(t, elsewhere, collect(t, pool, catalogue, pgx.RowTo[string], "postrider"))
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("too much: %s", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("missing: %s", line)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
}

// pending counts what the database lacks.
func pending(t *testing.T, url string) int {
	t.Helper()
	state, err := migrations.List(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return len(state) - applied(state)
}

func applied(state []migrations.Status) int {
	n := 0
	for _, s := range state {
		if s.Applied {
			n++
		}
	}
	return n
}
