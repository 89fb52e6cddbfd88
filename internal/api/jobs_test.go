package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// A job is made at once, says where it is to be asked after, and shows how far it is.
func TestRetryInBulk(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	if _, err := s.db.Exec(t.Context(), `WITH gone AS (DELETE FROM deliveries RETURNING *)
		INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, reason, finished_at)
		SELECT shard, id, tenant_id, event_id, endpoint_id, 'failed', 1, 'exhausted', now() FROM gone`); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		`{}`, `{"state":"failed,cancelled"}`, `{"state":["failed"],"tenant":"first"}`, `{"ids":["` + s.ids["dlv"] + `"]}`,
		`{"tenant":"first","endpoint":"` + s.ids["ep"] + `","event_type":"order.paid","q":"order","since":"2026-01-01T00:00:00Z"}`,
	} {
		dry := strings.Replace(strings.Replace(body, "}", `,"dry_run":true}`, 1), "{,", "{", 1)
		got := s.must(http.StatusOK, request{method: "POST", path: "/v1/deliveries/retry", body: dry})
		if got["matched"] != 1.0 || got["matched_at_least"] != false || got["id"] != nil {
			t.Errorf("%s: %v", dry, got)
		}
	}
	res := s.do(request{method: "POST", path: "/v1/deliveries/retry", body: `{"tenant":"first","state":"failed"}`})
	made := res.tree(t)
	if res.status != http.StatusAccepted || res.header.Get("Location") != "/v1/jobs/"+made.text("id") || res.header.Get("Retry-After") != "1" {
		t.Errorf("%d %v", res.status, res.header)
	}
	if made.text("state") != "queued" || made["matched"] != 1.0 || made.text("kind") != "retry" || made.object("filter").text("tenant") != s.ids["tenant"] {
		t.Errorf("got %v", made)
	}
	for range 10 { // its own, and the stage's
		if _, err := s.jobs.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := s.must(http.StatusOK, request{method: "GET", path: res.header.Get("Location")})
	if got.text("state") != "succeeded" || got["matched"] != got["done"].(float64)+got["skipped"].(float64) || got.text("finished_at") == "" {
		t.Errorf("got %v", got)
	}
	if d := s.must(http.StatusOK, request{method: "GET", path: "/v1/deliveries/" + s.ids["dlv"]}); d.text("state") != "pending" {
		t.Errorf("got %v", d)
	}
}

func TestBulkBodiesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, c := range []struct{ path, body, pointer string }{
		{"/v1/deliveries/retry", `{"state":"in_flight"}`, "/state"},
		{"/v1/deliveries/retry", `{"state":"nix"}`, "/state"},
		{"/v1/deliveries/retry", `{"state":1}`, "/state"},
		{"/v1/deliveries/retry", `{"outcome":["nix"]}`, "/outcome"},
		{"/v1/deliveries/retry", `{"ids":[]}`, "/ids"},
		{"/v1/deliveries/retry", `{"ids":["nix"]}`, "/ids/0"},
		{"/v1/deliveries/retry", `{"ids":["dlv_00076ez91zp0r3f"]}`, "/ids/0"},
		{"/v1/deliveries/retry", `{"ids":["` + s.ids["dlv"] + `"],"q":"x"}`, "/ids"},
		{"/v1/deliveries/cancel", `{"state":"failed"}`, "/state"},
		{"/v1/tenants/first/endpoints/" + s.ids["ep"] + "/replay", `{}`, "/since"},
		{"/v1/tenants/first/endpoints/" + s.ids["ep"] + "/replay", `{"since":"2026-01-01T00:00:00Z","states":["held"]}`, "/states/0"},
		{"/v1/tenants/first/endpoints/" + s.ids["ep"] + "/replay", `{"since":"2026-01-01T00:00:00Z","types":["a b"]}`, "/types/0"},
	} {
		if p := s.refused(http.StatusUnprocessableEntity, request{method: "POST", path: c.path, body: c.body}); !p.pointsTo(c.pointer) {
			t.Errorf("%s: %+v", c.body, p)
		}
	}
	s.refused(http.StatusNotFound, request{method: "POST", path: "/v1/deliveries/retry", body: `{"tenant":"nix"}`})
}

// A key that is bound to a tenant makes jobs about that one's deliveries, whatever it asks for, and sees no other's.
func TestJobsOfABoundKey(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	other := s.must(http.StatusOK, request{method: "GET", path: "/v1/tenants/second"}).text("id")
	key := s.apiKey(other, "deliveries:write", "deliveries:read")
	made := s.must(http.StatusAccepted, request{method: "POST", path: "/v1/deliveries/cancel", key: key, body: `{}`})
	if made.text("tenant_id") != other || made["matched"] != 0.0 {
		t.Errorf("got %v", made)
	}
	s.refused(http.StatusNotFound, request{method: "POST", path: "/v1/deliveries/cancel", key: key, body: `{"tenant":"first"}`})
	s.refused(http.StatusUnprocessableEntity, request{
		method: "POST", path: "/v1/deliveries/cancel", key: key, body: `{"ids":["` + s.ids["dlv"] + `"]}`,
	})
	everybodys := s.must(http.StatusAccepted, request{method: "POST", path: "/v1/deliveries/retry", body: `{}`})
	for _, job := range []string{s.ids["job"], everybodys.text("id")} {
		s.refused(http.StatusNotFound, request{method: "GET", path: "/v1/jobs/" + job, key: key})
		s.refused(http.StatusNotFound, request{method: "POST", path: "/v1/jobs/" + job + "/cancel", key: key})
	}
	list := s.must(http.StatusOK, request{method: "GET", path: "/v1/jobs", key: key}).list("data")
	if len(list) != 1 || list[0].text("id") != made.text("id") {
		t.Errorf("it sees %v", list)
	}
}
