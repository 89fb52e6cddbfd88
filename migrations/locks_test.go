package migrations_test

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/migrations"
)

// From 0020 on, a migration runs while the version before it serves. That is what these forms get in the way of, each with why.
var obstructive = []struct {
	form string
	why  string
}{
	{`\bALTER (COLUMN )?\w+ (SET DATA )?TYPE\b`, "rewrites the table, and its indexes, under an exclusive lock"},
	{`\bALTER (COLUMN )?\w+ SET NOT NULL\b`, "reads the whole table under an exclusive lock: add a CHECK … NOT VALID, validate it, then this"},
	{`\bADD COLUMN (IF NOT EXISTS )?\w+ [^,;]*\bNOT NULL\b`, "the version before inserts without it: give it a DEFAULT, a constant"},
	{`\bADD COLUMN (IF NOT EXISTS )?\w+ [^,;]*\bDEFAULT [^,;]*\(`, "a default that is not a constant rewrites the table"},
	{`\bADD COLUMN (IF NOT EXISTS )?\w+ [^,;]*\b(GENERATED|UNIQUE|PRIMARY KEY)\b`, "rewrites the table or builds an index under an exclusive lock"},
	{`\bADD (CONSTRAINT \w+ )?(CHECK|FOREIGN KEY)\b`, "reads the whole table under its lock: NOT VALID, and VALIDATE CONSTRAINT in a migration of its own"},
	{`\bADD (CONSTRAINT \w+ )?(UNIQUE|PRIMARY KEY|EXCLUDE)\b`, "builds an index under an exclusive lock: CREATE UNIQUE INDEX CONCURRENTLY, and USING INDEX"},
	{`\bCREATE (UNIQUE )?INDEX\b`, "keeps writes off the table while it builds: CONCURRENTLY, in a migration with NO TRANSACTION"},
	{`\bDROP COLUMN\b`, "the version before reads it"},
	{`\bRENAME\b`, "the version before knows the old name"},
	{`\bDROP (TABLE|TYPE|FUNCTION|VIEW|SCHEMA|INDEX)\b`, "the version before uses it"},
	{`\bREINDEX\b|\bCLUSTER\b|\bVACUUM FULL\b|\bTRUNCATE\b|\bLOCK TABLE\b`, "an exclusive lock for as long as it takes"},
	{`\bUPDATE\b|\bDELETE FROM\b`, "locks rows of a table for as long as the migration's transaction lasts, and makes as many dead ones"},
}

// harmless says where a form is nothing of the kind, by "<file>: <statement's beginning>", each with the reason. One that is not
// needed fails the test as well.
var harmless = map[string]string{
	"0021_alert_channels.sql: LOCK TABLE alerts IN ACCESS EXCLUSIVE MODE": "the constraint's end locks it anyhow; so it is in the order of those who raise alerts",
}

var (
	comment  = regexp.MustCompile(`(?m)--.*$`)
	body     = regexp.MustCompile(`(?s)\$(\w*)\$.*?\$(\w*)\$`) // of a function: it is not run
	created  = regexp.MustCompile(`(?i)\bCREATE TABLE (?:IF NOT EXISTS )?(\w+)`)
	onTable  = regexp.MustCompile(`(?i)\b(?:ALTER TABLE (?:IF EXISTS )?(?:ONLY )?|CREATE (?:UNIQUE )?INDEX (?:CONCURRENTLY )?(?:IF NOT EXISTS )?\w* ?ON (?:ONLY )?|UPDATE |DELETE FROM )(\w+)`)
	constant = regexp.MustCompile(`(?i)\bADD COLUMN (?:IF NOT EXISTS )?\w+ [^,;]*\bDEFAULT (?:'[^']*'(?:::\w+)?|[\w.+-]+)(?:[ ,;]|$)`)
)

// obstacles gives what a migration does on its way up that would hold up the version before it, by statement.
func obstacles(text string) map[string]string {
	_, up, _ := strings.Cut(text, "-- +goose Up")
	up, _, _ = strings.Cut(up, "-- +goose Down")
	up = body.ReplaceAllString(comment.ReplaceAllString(up, ""), "''")
	own := map[string]bool{} // tables that nobody knows yet
	for _, m := range created.FindAllStringSubmatch(up, -1) {
		own[m[1]] = true
	}
	found := map[string]string{}
	for statement := range strings.SplitSeq(up, ";") {
		statement = strings.Join(strings.Fields(statement), " ")
		if m := onTable.FindStringSubmatch(statement); m != nil && own[m[1]] {
			continue
		}
		if created.MatchString(statement) {
			continue
		}
		for clause := range clauses(statement) {
			for _, o := range obstructive {
				if regexp.MustCompile(`(?i)`+o.form).MatchString(clause) && !excused(clause) {
					found[statement[:min(len(statement), 60)]] = o.why
				}
			}
		}
	}
	return found
}

// clauses are the parts of ALTER TABLE, each of which is a change; of anything else, the whole.
func clauses(statement string) func(yield func(string) bool) {
	if !strings.HasPrefix(strings.ToUpper(statement), "ALTER TABLE") {
		return slices.Values([]string{statement})
	}
	return func(yield func(string) bool) {
		depth, from := 0, 0
		for i, c := range statement {
			switch {
			case c == '(':
				depth++
			case c == ')':
				depth--
			case c == ',' && depth == 0:
				if !yield(statement[from:i]) {
					return
				}
				from = i + 1
			}
		}
		yield(statement[from:])
	}
}

// excused are the forms that look like one of those and are not.
func excused(clause string) bool {
	up := strings.ToUpper(clause)
	switch {
	case strings.Contains(up, "NOT VALID"), strings.Contains(up, "CONCURRENTLY"), strings.Contains(up, " USING INDEX "):
		return true
	case strings.Contains(up, "ADD COLUMN") && constant.MatchString(clause) && !strings.Contains(up, "UNIQUE") && !strings.Contains(up, "GENERATED"):
		return true
	case strings.HasPrefix(up, "CREATE FUNCTION"), strings.HasPrefix(up, "CREATE OR REPLACE FUNCTION"), strings.HasPrefix(up, "GRANT"):
		return true
	}
	return false
}

func TestNewMigrationsHoldUpNobody(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, name := range names {
		if name < "0020" {
			continue // those came before there was anybody to hold up
		}
		text, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		for statement, why := range obstacles(string(text)) {
			key := fmt.Sprintf("%s: %s", name, statement)
			if used[key] = true; harmless[key] == "" {
				t.Errorf("%s…: %s", key, why)
			}
		}
	}
	for key := range maps.Keys(harmless) {
		if !used[key] {
			t.Errorf("%s is let through for nothing", key)
		}
	}
}

// Every form is found, and what takes its place is let through.
func TestObstaclesAreFound(t *testing.T) {
	t.Parallel()
	for sql, found := range map[string]bool{
		`ALTER TABLE endpoints ALTER COLUMN url TYPE varchar`:                                   true,
		`ALTER TABLE endpoints ALTER url SET NOT NULL`:                                          true,
		`ALTER TABLE endpoints ADD COLUMN a int NOT NULL`:                                       true,
		`ALTER TABLE endpoints ADD COLUMN a timestamptz NOT NULL DEFAULT now()`:                 true,
		`ALTER TABLE endpoints ADD COLUMN a int UNIQUE`:                                         true,
		`ALTER TABLE endpoints ADD COLUMN a int, ADD COLUMN b int NOT NULL`:                     true,
		`ALTER TABLE endpoints ADD CONSTRAINT x CHECK (a > 0)`:                                  true,
		`ALTER TABLE endpoints ADD CONSTRAINT x FOREIGN KEY (shard, a) REFERENCES t (shard, a)`: true,
		`ALTER TABLE endpoints ADD CONSTRAINT x UNIQUE (shard, a)`:                              true,
		`CREATE INDEX x ON endpoints (shard, url)`:                                              true,
		`ALTER TABLE endpoints DROP COLUMN url`:                                                 true,
		`ALTER TABLE endpoints RENAME COLUMN url TO uri`:                                        true,
		`DROP TABLE alerts`:             true,
		`TRUNCATE alerts`:               true,
		`UPDATE endpoints SET url = ''`: true,
		`CREATE TABLE mine (a int); ALTER TABLE endpoints DROP COLUMN url`: true,

		`ALTER TABLE endpoints ADD COLUMN a int`:                                                             false,
		`ALTER TABLE endpoints ADD COLUMN a int NOT NULL DEFAULT 0`:                                          false,
		`ALTER TABLE endpoints ADD COLUMN a text NOT NULL DEFAULT 'x', ADD COLUMN b boolean DEFAULT false`:   false,
		`ALTER TABLE endpoints ADD CONSTRAINT x CHECK (a > 0) NOT VALID`:                                     false,
		`ALTER TABLE alerts DROP CONSTRAINT x`:                                                               false,
		`CREATE UNIQUE INDEX CONCURRENTLY x ON endpoints (shard, url)`:                                       false,
		`CREATE TABLE mine (a int NOT NULL, UNIQUE (a)); CREATE INDEX x ON mine (a); UPDATE mine SET a = 1`:  false,
		`CREATE TYPE kind AS ENUM ('a'); ALTER TYPE kind ADD VALUE 'b'`:                                      false,
		`CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $$ UPDATE endpoints SET url = ''; DROP TABLE x $$`: false,
		"-- DROP TABLE alerts\nSELECT 1":                                                                     false,
	} {
		if got := obstacles("-- +goose Up\n" + sql + ";\n-- +goose Down\nDROP TABLE mine;"); (len(got) > 0) != found {
			t.Errorf("%s: %v", sql, got)
		}
	}
}

// A migration that has to wait for a lock gives up soon, so that nobody waits behind it for long, and says what to do.
func TestAMigrationDoesNotWaitForALockForLong(t *testing.T) {
	t.Parallel()
	pool, url := pgtest.Pool(t), pgtest.URL(t)+"&lock_timeout=10ms"
	for next := ""; !strings.Contains(next, "0019_formats"); { // which changes a table
		state, err := migrations.Down(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		next = state[applied(state)].Name
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `SELECT FROM endpoints`); err != nil { // and stays open
		t.Fatal(err)
	}
	if _, err := migrations.Up(t.Context(), url); err == nil || !strings.Contains(err.Error(), "end it and run this again") {
		t.Errorf("beside a transaction that stays open: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if state, err := migrations.Up(t.Context(), url); err != nil || applied(state) != len(state) {
		t.Errorf("after it has ended: %v %v", state, err)
	}
}
