package migrations_test

import (
	"testing"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/migrations"
)

func look(t *testing.T, db pg.Querier) migrations.Fit {
	t.Helper()
	fit, err := migrations.Look(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return fit
}

// A binary of before that is restarted in an upgrade runs on the newer schema, unless a migration says that it is too old for it.
func TestANewerSchemaSaysWhoRunsOnIt(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	if fit := look(t, pool); !fit.Runs() || fit.Older() || fit.Newer() || fit.Has != fit.Knows {
		t.Errorf("our own schema: %+v", fit)
	}
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO goose_db_version (version_id, is_applied) SELECT max(version_id) + 1, true FROM goose_db_version`)
	if fit := look(t, pool); !fit.Runs() || !fit.Newer() {
		t.Errorf("a compatible one: %+v", fit)
	}
	exec(`UPDATE schema_compatibility SET oldest = $1`, look(t, pool).Has)
	if fit := look(t, pool); fit.Runs() || !fit.Newer() {
		t.Errorf("one that wants a newer binary: %+v", fit)
	}
	exec(`DROP TABLE schema_compatibility`)
	if fit := look(t, pool); fit.Runs() || !fit.Newer() {
		t.Errorf("one that does not say: %+v", fit)
	}
}

func TestAnOlderSchemaIsSeen(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	if _, err := migrations.Down(t.Context(), pgtest.URL(t)); err != nil {
		t.Fatal(err)
	}
	if fit := look(t, pool); !fit.Older() || fit.Runs() || fit.Has == 0 {
		t.Errorf("one step down: %+v", fit)
	}
	if _, err := pool.Exec(t.Context(), `DROP SCHEMA postrider CASCADE`); err != nil {
		t.Fatal(err)
	}
	if fit := look(t, pool); !fit.Older() || fit.Runs() || fit.Has != 0 {
		t.Errorf("an empty database: %+v", fit)
	}
}
