package api_test

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/api"
)

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{
		"/", "/v1", "/v1/", "/v1/nix", "/v1/tenants/", "/v1//tenants", "/v1/./tenants", "/V1/tenants", "/v1/tenants/a/endpoints/b/nix",
		"/v1/tenants/a/events:nix", "/docs/nix.js", "/docs/index.html", "/docs/README.md", "/docs/..%2fdocs.go", "/openapi.yaml", "/schemas/Tenant.json",
	} {
		w.refused(http.StatusNotFound, request{method: "GET", path: path})
	}
	for path, allow := range map[string]string{
		"/v1/tenants": "GET, HEAD, POST", "/v1/tenants/a/events:batch": "POST", "/v1/deliveries/x/retry": "POST",
		"/v1/api-keys/x": "DELETE, GET, HEAD", "/livez": "GET, HEAD", "/metrics": "GET, HEAD", "/docs": "GET, HEAD",
	} {
		for _, key := range []string{"", "none"} {
			r := request{method: "PUT", path: path, body: "{}", key: key}
			w.refused(http.StatusMethodNotAllowed, r)
			if got := w.do(r).header.Get("Allow"); got != allow {
				t.Errorf("%s allows %q, not %q", path, got, allow)
			}
		}
	}
}

func TestHeadersOfAllAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/v1/tenants", "/v1/nix", "/v1/tenants/nix", "/livez", "/readyz", "/metrics", "/docs", "/docs/docs.js", "/openapi.json"} {
		for _, key := range []string{"", "none"} {
			h := w.do(request{method: "GET", path: path, key: key}).header
			if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Request-Id") == "" ||
				!strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") ||
				!strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
				t.Errorf("%s: %v", path, h)
			}
			if strings.HasPrefix(path, "/v1/") && h.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: Cache-Control %q", path, h.Get("Cache-Control"))
			}
		}
	}
	own := w.do(request{method: "GET", path: "/livez", header: map[string]string{"X-Request-Id": "my-id.1"}})
	if got := own.header.Get("X-Request-Id"); got != "my-id.1" {
		t.Errorf("the caller's id became %q", got)
	}
	forged := w.do(request{method: "GET", path: "/livez", header: map[string]string{"X-Request-Id": `x" "level":"error`}})
	if got := forged.header.Get("X-Request-Id"); strings.Contains(got, "level") {
		t.Errorf("taken for an id: %q", got)
	}
}

// One line for each request, with nothing in it that was sent but ids.
func TestLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant("acme")
	const canary = "canary-7f3a9"
	w.do(request{method: "GET", path: "/v1/deliveries?q=" + canary})
	w.do(request{method: "GET", path: "/v1/deliveries?" + canary + "=1"})
	w.do(request{method: "GET", path: "/v1/tenants", key: canary})
	w.do(request{method: "GET", path: "/v1/tenants", key: "prk_" + canary + strings.Repeat("x", 30)})
	w.do(request{method: "POST", path: "/v1/tenants", body: `{"name":1,"metadata":"` + canary + `"`})
	w.do(request{method: "POST", path: "/v1/tenants", body: `{"name":["` + canary + `"]}`})
	w.do(request{
		method: "POST", path: "/v1/tenants/" + tenant + "/endpoints",
		body: `{"url":"https://` + canary + `.example/","headers":{"X-A":"` + canary + `"},"signature":{"secret":"` + canary + `"}}`,
	})
	w.do(request{
		method: "POST", path: "/v1/tenants/" + tenant + "/endpoints",
		body: `{"url":"https://a.example/` + canary + `","headers":{"X-A":"` + canary + `"}}`,
	})
	w.do(request{method: "POST", path: "/v1/tenants/" + tenant + "/events", body: `{"type":"a","payload":"` + canary + `"}`})
	log := w.log.String()
	for line := range strings.Lines(log) {
		if strings.Contains(line, canary) && !strings.Contains(line, "unknown query parameter") {
			t.Errorf("what was sent is in the log: %s", line)
		}
	}
	if strings.Contains(log, adminKey) {
		t.Error("an API key is in the log")
	}
	if !strings.Contains(log, `"ids":["`+tenant+`"]`) {
		t.Errorf("an act is to be told with what it was done to:\n%s", log)
	}
	created := regexp.MustCompile(`(?m)^.*"route":"POST /v1/tenants","status":201.*$`).FindString(log)
	for _, part := range []string{`"request_id":"`, `"method":"POST"`, `"key_id":"key_`, `"duration_ms":`, `"message":"http.request"`} {
		if !strings.Contains(created, part) {
			t.Errorf("%s is not in %s", part, created)
		}
	}
}

// A panic is a 500 that tells nothing, and a log line that tells all.
func TestPanic(t *testing.T) {
	t.Parallel()
	log := &logBook{}
	server := httptest.NewServer(api.New(api.Deps{
		Ping: func(context.Context) error { panic("the reason") }, Logger: zerolog.New(log),
	}))
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusInternalServerError || res.Header.Get("Content-Type") != "application/problem+json" ||
		strings.Contains(string(body), "reason") || !strings.Contains(string(body), "X-Request-Id") {
		t.Errorf("%d %s %v", res.StatusCode, body, err)
	}
	if text := log.String(); !strings.Contains(text, "the reason") || !strings.Contains(text, "edge_test.go") ||
		!strings.Contains(text, `"level":"error"`) {
		t.Errorf("the log: %s", text)
	}
}

// With the database away everything is a 503 that says so and nothing else, except that the process is alive.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	w.db.Close()
	for _, r := range []request{
		{method: "GET", path: "/readyz"},
		{method: "GET", path: "/v1/tenants"},
		{method: "POST", path: "/v1/tenants/acme/events", body: `{"type":"a","payload":1}`},
		{method: "GET", path: "/v1/tenants", key: "prk_a_key_that_was_never_seen_before_00"},
	} {
		p := w.refused(http.StatusServiceUnavailable, r)
		if strings.Contains(p.Detail, "pool") {
			t.Errorf("%s %s: %s", r.method, r.path, p.Detail)
		}
		if after := w.do(r).header.Get("Retry-After"); after != "1" {
			t.Errorf("%s %s: Retry-After %q", r.method, r.path, after)
		}
	}
	w.must(200, request{method: "GET", path: "/livez", key: "none"})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := w.do(request{method: "GET", path: "/metrics", key: "none"}); got.status != 200 ||
		!strings.Contains(string(got.body), "\npostrider_in_flight 0\n") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// The reference is whole, comes from here alone and runs under a policy that lets in nothing else.
func TestDocs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	page := w.do(request{method: "GET", path: "/docs", key: "none"})
	policy := page.header.Get("Content-Security-Policy")
	if page.status != 200 || !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") ||
		strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("%d %v", page.status, page.header)
	}
	if regexp.MustCompile(`(?i)https?://|<script[^>]*>[^<]|<style| style=| on[a-z]+=`).Match(page.body) {
		t.Errorf("the page has what its policy forbids: %s", page.body)
	}
	for _, asset := range regexp.MustCompile(`(?:src|href)="(docs/[^"]+)"`).FindAllSubmatch(page.body, -1) {
		plain := w.do(request{method: "GET", path: "/" + string(asset[1]), header: map[string]string{"Accept-Encoding": "identity"}})
		if plain.status != 200 || len(plain.body) == 0 || plain.header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %d, %d bytes, %v", asset[1], plain.status, len(plain.body), plain.header)
		}
		packed := w.do(request{method: "GET", path: "/" + string(asset[1]), header: map[string]string{"Accept-Encoding": "gzip"}})
		if packed.header.Get("Content-Encoding") == "gzip" {
			r, err := gzip.NewReader(strings.NewReader(string(packed.body)))
			if err != nil {
				t.Fatal(err)
			}
			if packed.body, err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
		if string(packed.body) != string(plain.body) {
			t.Errorf("%s: packed it is something else", asset[1])
		}
	}
}
