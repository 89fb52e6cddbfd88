package e2e

import (
	"net/http"
	"sync"
	"testing"

	"github.com/postrider/postrider/internal/pgcluster"
)

// The answer comes after the commit: with PostgreSQL away it is a 503, and nothing is half-made when it is back.
func TestNothingIsAcceptedWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	cluster, err := pgcluster.Start(t.Context(), pgcluster.Options{Ephemeral: true, Settings: map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", // it is going to be killed
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	r := receive(t, always(200))
	p := serve(t, settings{"DATABASE_URL": cluster.URL()})
	tenant := p.tenant()
	p.endpoint(tenant, r.url("/hook"), nil)
	before := p.send(tenant, "a", "before")
	p.await(before, "succeeded")

	if err := cluster.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/events/a", "/events", "/events:batch"} {
		body := map[string]string{
			"/events/a": `"raw"`, "/events": `{"type":"a","payload":1}`, "/events:batch": `{"events":[{"type":"a","payload":1}]}`,
		}[path]
		got := p.do(http.MethodPost, "/v1/tenants/"+tenant+path, "application/json", []byte(body))
		if got.status != http.StatusServiceUnavailable || got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s with the database away: status %d: %s", path, got.status, got.body)
		}
	}
	if got := p.do(http.MethodGet, "/readyz", "", nil); got.status != http.StatusServiceUnavailable {
		t.Errorf("/readyz with the database away: %d", got.status)
	}
	if got := p.do(http.MethodGet, "/livez", "", nil); got.status != http.StatusOK {
		t.Errorf("/livez with the database away: %d", got.status)
	}

	if err := cluster.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	var after string
	eventually(t, func() string {
		got := p.do(http.MethodPost, "/v1/tenants/"+tenant+"/events", "application/json", []byte(`{"type":"a","payload":"after"}`))
		if got.status != http.StatusAccepted {
			return string(got.body)
		}
		after = got.object(t).text("id")
		return ""
	})
	p.await(after, "succeeded")
	if n := len(p.get("/v1/tenants/" + tenant + "/events").list("data")); n != 2 {
		t.Errorf("%d events are there, want the two that were accepted", n)
	}
	if n := r.count(); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// 50 posts at the same moment with one Idempotency-Key make one event and get 50 equal answers.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	r := receive(t, always(200))
	p := serve(t, nil)
	tenant := p.tenant()
	p.endpoint(tenant, r.url("/hook"), nil)
	const posts = 50
	answers := make([]reply, posts)
	body := []byte(`{"type":"a","payload":{"n":1}}`)
	var wg sync.WaitGroup
	for i := range posts {
		wg.Go(func() {
			answers[i], _ = p.try(http.MethodPost, "/v1/tenants/"+tenant+"/events", "application/json", body, "Idempotency-Key", "k-1")
		})
	}
	wg.Wait()
	replayed := 0
	for i, a := range answers {
		if a.status != http.StatusAccepted || string(a.body) != string(answers[0].body) || a.header.Get("Location") != answers[0].header.Get("Location") {
			t.Errorf("answer %d: %d %s; the first: %s", i, a.status, a.body, answers[0].body)
		}
		if a.header.Get("Idempotent-Replayed") == "true" {
			replayed++
		}
	}
	if replayed != posts-1 {
		t.Errorf("%d of %d answers say that they are replays", replayed, posts)
	}
	p.await(answers[0].object(t).text("id"), "succeeded")
	if n := r.count(); n != 1 {
		t.Errorf("%d requests", n)
	}
	other := p.do(http.MethodPost, "/v1/tenants/"+tenant+"/events", "application/json",
		[]byte(`{"type":"a","payload":{"n":2}}`), "Idempotency-Key", "k-1")
	if other.status != http.StatusUnprocessableEntity {
		t.Errorf("the same key with other content: %d %s", other.status, other.body)
	}
}

// A process on a database whose schema is older says so in one line and ends.
func TestServeRefusesAnOlderSchema(t *testing.T) {
	t.Parallel()
	cluster, err := pgcluster.Start(t.Context(), pgcluster.Options{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	env := settings{"DATABASE_URL": cluster.URL(), "SECRETS_KEYS": sealKey, "HTTP_ADDR": "127.0.0.1:0"}
	if code := command(t, env, "serve"); code != 1 {
		t.Errorf("serve on an empty database: exit code %d", code)
	}
	if code := command(t, env, "migrate", "up"); code != 0 {
		t.Errorf("migrate up: exit code %d", code)
	}
	if code := command(t, env, "migrate", "status"); code != 0 {
		t.Errorf("migrate status: exit code %d", code)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  settings
		args []string
		code int
	}{
		"version":         {nil, []string{"version"}, 0},
		"no such command": {nil, []string{"servve"}, 2},
		"no such flag":    {nil, []string{"version", "--nope"}, 2},
		"unknown key":     {settings{"DELIVERY_TIMOUT": "3s"}, []string{"config", "check"}, 1},
		"bad value":       {settings{"DELIVERY_TIMEOUT": "fast"}, []string{"config", "check"}, 1},
		"nobody there":    {settings{"URL": "http://127.0.0.1:1", "API_KEY": "x"}, []string{"deliveries", "list"}, 1},
	} {
		if code := command(t, c.env, c.args...); code != c.code {
			t.Errorf("%s: exit code %d, want %d", name, code, c.code)
		}
	}
}
