package intake_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgcluster"
	"github.com/postrider/postrider/migrations"
)

// Commits wait for a standby. An event whose commit was broken off in that wait can be read, and is gone when the standby
// takes over: who repeats it is not told that it was accepted before the standby has it.
func TestARepetitionWaitsForTheStandbyToo(t *testing.T) {
	t.Parallel()
	cluster, err := pgcluster.Start(t.Context(), pgcluster.Options{Ephemeral: true, Settings: map[string]string{
		"synchronous_standby_names": "away",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	if _, err := migrations.Up(t.Context(), cluster.URL()); err != nil {
		t.Fatal(err)
	}
	unfinished := deskOn(t, poolAt(t, cluster.URL()), 1) // what it commits is here, and not on the standby
	ten := unfinished.tenant(t)
	event := order(1)
	event.UID = "u"
	unfinished.accept(t, ten, "key", event)

	waiting := deskOn(t, poolAt(t, cluster.URL()+"&synchronous_commit=on"), 2)
	admin := poolAt(t, cluster.AdminURL())
	for _, key := range []string{"key", ""} { // by the key, and by the uid
		ctx, cancel := context.WithCancel(t.Context())
		said := make(chan error, 1)
		go func() {
			_, _, err := waiting.Accept(ctx, ten, key, []intake.Event{event})
			said <- err
		}()
		const waits = `SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`
		for pid := 0; pid == 0 && len(said) == 0; {
			if err := admin.QueryRow(t.Context(), waits).Scan(&pid); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if err := <-said; !fault.Is(err, fault.Unavailable) {
			t.Errorf("with key %q: %v", key, err)
		}
		if _, err := admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`); err != nil {
			t.Fatal(err)
		}
	}
}

func poolAt(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	db, err := pg.Open(t.Context(), url, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}
