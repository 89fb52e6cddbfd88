package upkeep

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pgtest"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func list(t *testing.T, db *pgxpool.Pool, table string) []string {
	t.Helper()
	names, err := partitionsOf(t.Context(), db, table)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func TestPartitionsReachFromYesterdayToAWeekAhead(t *testing.T) {
	t.Parallel()
	db := pgtest.Pool(t)
	for _, turn := range []struct {
		at   time.Time
		made int64
	}{{noon, 3 * 9}, {noon.Add(11 * time.Hour), 0}, {noon.Add(12 * time.Hour), 3}} {
		if made, err := ensurePartitions(t.Context(), db, turn.at); made != turn.made || err != nil {
			t.Errorf("at %v: made %d, %v; want %d", turn.at, made, err, turn.made)
		}
	}
	for _, table := range partitioned {
		got := list(t, db, table)
		if len(got) != 11 || got[0] != table+"_20261129" || got[9] != table+"_20261208" || got[10] != table+"_default" {
			t.Errorf("%s: %v", table, got)
		}
	}
}

// A row's id says which day's partition it goes to, to the millisecond, and indexes and checks are the parent's.
func TestRowsGoToTheirDay(t *testing.T) {
	t.Parallel()
	db := pgtest.Pool(t)
	if err := EnsurePartitions(t.Context(), db, noon); err != nil {
		t.Fatal(err)
	}
	midnight := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for n, want := range map[int64]string{
		id.Floor(midnight) - 1:                    "attempts_20261130",
		id.Floor(midnight):                        "attempts_20261201",
		id.Floor(noon.Add(-100 * 24 * time.Hour)): "attempts_default",
		id.Floor(noon.Add(100 * 24 * time.Hour)):  "attempts_default",
	} {
		var got string
		err := db.QueryRow(t.Context(), `INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp,
			endpoint_version, attempt, outcome) VALUES (1, $1, 1, 1, 1, 1, 1, 'timeout') RETURNING tableoid::regclass::text`, n).Scan(&got)
		if err != nil || got != want {
			t.Errorf("%v goes to %s (%v), want %s", id.TimeOf(n), got, err, want)
		}
	}
	_, err := db.Exec(t.Context(), `INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts,
		finished_at) VALUES (1, $1, 1, 1, 1, 'failed', 1, now())`, id.Floor(noon))
	if err == nil || !strings.Contains(err.Error(), "deliveries_finished_reason") {
		t.Errorf("a partition checks less than its parent: %v", err)
	}
	var odd []string
	err = db.QueryRow(t.Context(), `SELECT coalesce(array_agg(DISTINCT p.relname), '{}')::text[] FROM pg_inherits i
		JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
		WHERE p.relkind = 'p' AND (SELECT count(*) FROM pg_index x WHERE x.indrelid = c.oid)
			<> (SELECT count(*) FROM pg_index x WHERE x.indrelid = p.oid)`).Scan(&odd)
	if err != nil || len(odd) > 0 {
		t.Errorf("partitions of %v have other indexes than their parent (%v)", odd, err)
	}
}

// What lies in the default partition because a day came without one of its own is moved when it gets it.
func TestRowsInTheDefaultPartitionMove(t *testing.T) {
	t.Parallel()
	db := pgtest.Pool(t)
	for n, at := range []time.Time{noon, noon.Add(time.Hour), noon.Add(-90 * day)} {
		if _, err := db.Exec(t.Context(), `INSERT INTO events (shard, id, tenant_id, type, content_type, payload, delivery_ids)
			VALUES (1, $1, 1, 'a', 'b', $2, '{}')`, id.Floor(at)+int64(n), []byte{byte(n)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := EnsurePartitions(t.Context(), db, noon); err != nil {
		t.Fatal(err)
	}
	rows, err := db.Query(t.Context(), `SELECT tableoid::regclass::text || get_byte(payload, 0) FROM events ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if want := "[events_default2 events_202611300 events_202611301]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v, %v; want %s", got, err, want)
	}
}

func TestSeveralProcessesMakeThemAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.Pool(t)
	var all sync.WaitGroup
	var made [4]int64
	for i := range made {
		all.Go(func() {
			var err error
			if made[i], err = ensurePartitions(t.Context(), db, noon); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := list(t, db, "events"); len(got) != 10 {
		t.Errorf("got %v", got)
	}
}

// A table that somebody will not let go of costs its own partitions only, after a while, and the next run makes them.
func TestALockThatDoesNotComeIsNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	db := pgtest.Pool(t)
	reader, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Rollback(t.Context())
	if _, err := reader.Exec(t.Context(), `SELECT FROM events`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // it tries more than once: when it is waiting for the second time, enough is seen
		defer cancel()
		waitForLock(t, db)
	}()
	p := partition{table: "events", day: noon.Truncate(day)}
	if err := p.ensure(ctx, db); err == nil {
		t.Error("the lock came")
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := EnsurePartitions(t.Context(), db, noon); err != nil {
		t.Error(err)
	}
}

// waitForLock returns when somebody waits for a lock on a table of this database.
func waitForLock(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	for {
		var waiting int
		err := db.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&waiting)
		if err != nil || waiting > 0 {
			return
		}
	}
}
