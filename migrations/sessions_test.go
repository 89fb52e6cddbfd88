package migrations_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/migrations"
)

// An older version reads the log that a newer one has written, with all that is in it.
func TestDownKeepsWhatPeopleDidInBrowsers(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	for id, actor := range []string{"user", "portal", "api_key", "cli"} {
		if _, err := pool.Exec(t.Context(), `
INSERT INTO audit_log (shard, id, action, object_kind, object_id, actor, actor_key, actor_name, details)
VALUES (0, $1, 'session.started', 'ses', 1, $2::text::audit_actor, CASE WHEN $2 = 'api_key' THEN 1 END, 'Ada', '{}')`, id+1, actor); err != nil {
			t.Fatal(err)
		}
	}
	const version = 13
	for there := true; there; {
		state, err := migrations.Down(t.Context(), pgtest.URL(t))
		if err != nil {
			t.Fatal(err)
		}
		there = slices.ContainsFunc(state, func(s migrations.Status) bool { return s.Version == version && s.Applied })
	}
	got := collect(t, pool, `SELECT actor::text || ' ' || actor_name FROM audit_log ORDER BY id`, pgx.RowTo[string])
	if want := []string{"system Ada", "system Ada", "api_key Ada", "cli Ada"}; !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
}
