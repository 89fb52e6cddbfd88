package api_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// What the dispatchers found out about an endpoint shows wherever the endpoint does, until its owner says it is well.
func TestPaceIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	ep := w.endpoint("acme", `,"uid":"slow"`)
	path := "/v1/tenants/acme/endpoints/slow"
	endpoint, err := id.Endpoint.Parse(ep)
	if err != nil {
		t.Fatal(err)
	}
	shown := func(e tree) string { return fmt.Sprint(e["breaker"], " ", e["paused_until"]) }
	if got := shown(w.must(200, request{method: "GET", path: path})); got != "map[next_probe_at:<nil> since:<nil> state:closed] <nil>" {
		t.Errorf("at first it is %s", got)
	}
	now := w.clock.Now()
	probe, pause := now.Add(time.Hour), now.Add(2*time.Hour)
	b := &pgx.Batch{}
	subscriptions.QueuePace(b, endpoint.Shard, []subscriptions.PaceChange{
		{Endpoint: endpoint.N, Open: true, Until: probe, PausedUntil: pause},
	}, now)
	if err := w.db.SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
	const form = "2006-01-02T15:04:05.000Z"
	want := fmt.Sprintf("map[next_probe_at:%s since:%s state:open] %s", probe.UTC().Format(form), now.UTC().Format(form), pause.UTC().Format(form))
	for what, got := range map[string]tree{
		"read":           w.must(200, request{method: "GET", path: path}),
		"list":           w.must(200, request{method: "GET", path: "/v1/tenants/acme/endpoints"}).list("data")[0],
		"another change": w.must(200, request{method: "PATCH", path: path, body: `{"rate_limit":{"limit":7,"per":"500ms"}}`}),
	} {
		if shown(got) != want {
			t.Errorf("%s shows %s, want %s", what, shown(got), want)
		}
	}
	well := w.must(200, request{method: "PATCH", path: path, body: `{"status":"enabled"}`})
	if b, _ := well["breaker"].(map[string]any); b["state"] != "closed" || !isStamp(fmt.Sprint(b["since"])) ||
		b["next_probe_at"] != nil || well["paused_until"] != nil || fmt.Sprint(well["rate_limit"]) != "map[limit:7 per:500ms]" {
		t.Errorf("said to be well, it is %v", well)
	}
	for _, body := range []string{`{"breaker":{"state":"closed"}}`, `{"paused_until":null}`} {
		w.refused(422, request{method: "PATCH", path: path, body: body})
	}
}
