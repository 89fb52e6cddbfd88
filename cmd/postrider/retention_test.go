package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/upkeep"
)

func TestRetentionSaysWhatItWouldDoAndDoesIt(t *testing.T) {
	t.Parallel()
	env := []string{"POSTRIDER_DATABASE_URL=" + pgtest.URL(t)}
	db, err := pg.Open(t.Context(), pgtest.URL(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	old := time.Now().UTC().Add(-20 * 24 * time.Hour)
	if err := upkeep.EnsurePartitions(t.Context(), db, old); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `INSERT INTO events (shard, id, tenant_id, type, content_type, payload, delivery_ids)
		VALUES (1, $1, 1, 'a', 'b', '', '{}')`, id.Floor(old)); err != nil {
		t.Fatal(err)
	}
	line := "events " + old.Format(time.DateOnly)
	has := func(what string, run retentionRun, want string) {
		t.Helper()
		for _, p := range run.Partitions {
			if p.Table+" "+p.Day == line {
				if p.Action != want || p.Rows != 1 {
					t.Errorf("%s: %+v, want %s", what, p, want)
				}
				return
			}
		}
		t.Errorf("%s: %s is not there: %+v", what, line, run)
	}
	plan := func(args ...string) (run retentionRun) {
		t.Helper()
		if err := json.Unmarshal([]byte(must(t, env, append([]string{"retention", "--dry-run", "--json"}, args...)...)), &run); err != nil {
			t.Fatal(err)
		}
		return run
	}
	has("a shorter time", plan("--retention.events", "10d", "--retention.attempts", "10d"), "drop")
	if text := must(t, env, "retention", "--dry-run", "--retention.events", "10d"); !strings.Contains(text, "WHY") || !strings.Contains(text, "over") {
		t.Errorf("it prints\n%s", text)
	}
	if text := must(t, env, "retention", "--retention.events", "10d", "--retention.attempts", "10d"); !strings.Contains(text, "partitions were dropped") {
		t.Errorf("it prints\n%s", text)
	}
	for _, p := range plan().Partitions {
		if p.Table+" "+p.Day == line {
			t.Errorf("it is still there: %+v", p)
		}
	}
}

func TestSizesForPeople(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 30: "3.0 GiB", 2 << 50: "2048.0 TiB"} {
		if got := sizeText(bytes); got != want {
			t.Errorf("%d is %s, want %s", bytes, got, want)
		}
	}
}
