package api_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/stats"
)

func TestStatsOfAnEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant("acme")
	ep := w.endpoint(tenant, "")
	path := "/v1/tenants/" + tenant + "/endpoints/" + ep + "/stats"

	none := w.must(200, request{method: "GET", path: path})
	if got := fmt.Sprint(none["attempts_total"], none["success_rate"], none["latency"], none["oldest_due_at"]); got != "0 <nil> map[p50_ms:<nil> p95_ms:<nil> p99_ms:<nil>] <nil>" {
		t.Errorf("of nothing: %s", got)
	}
	if counts, _ := none["attempts"].(map[string]any); len(counts) != dispatcher.OutcomeCount {
		t.Errorf("outcomes: %v", counts)
	}

	now := w.clock.Now()
	tally := stats.NewTally(stats.TallyDeps{DB: w.db, IDs: w.ids, Now: w.clock.Now, Log: zerolog.New(w.log)})
	of := mustParse(t, id.Endpoint, ep)
	for range 3 {
		tally.Attempt(of, dispatcher.Succeeded, 20*time.Millisecond, now)
	}
	tally.Attempt(of, dispatcher.Timeout, 15*time.Second, now.Add(-30*time.Hour))
	if err := tally.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.event(tenant, "order.paid") // its delivery is due, and nobody sends it
	some := w.must(200, request{method: "GET", path: path})
	counts, _ := some["attempts"].(map[string]any)
	latency, _ := some["latency"].(map[string]any)
	if got := fmt.Sprint(some["attempts_total"], counts["succeeded"], counts["timeout"], some["success_rate"]); got != "3 3 0 1" {
		t.Errorf("of a day: %s", got)
	}
	if p50, _ := latency["p50_ms"].(float64); p50 < 17 || p50 > 24 {
		t.Errorf("latency %v", latency)
	}
	if due := fmt.Sprint(some["oldest_due_at"]); !isStamp(due) {
		t.Errorf("oldest due at %s", due)
	}
	since := now.Add(-48 * time.Hour).UTC()
	more := w.must(200, request{method: "GET", path: path + "?since=" + since.Format(time.RFC3339)})
	if got := fmt.Sprint(more["attempts_total"], more["success_rate"]); got != "4 0.75" {
		t.Errorf("of two days: %s", got)
	}
	if from, want := more.text("since"), since.Truncate(15*time.Minute).Format("2006-01-02T15:04:05.000Z"); from != want {
		t.Errorf("since %s, want %s", from, want)
	}
	for _, wrong := range []string{"yesterday", "2026-13-01T00:00:00Z", now.Add(time.Hour).UTC().Format(time.RFC3339)} {
		if p := w.refused(422, request{method: "GET", path: path + "?since=" + wrong}); !p.pointsTo("?since") {
			t.Errorf("%s: %+v", wrong, p)
		}
	}
	w.must(200, request{method: "GET", path: path + "?since=1999-01-01T00:00:00Z"}) // there is just less
}
