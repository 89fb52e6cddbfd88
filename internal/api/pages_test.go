package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/auth"
)

// What holds for all answers holds for those of pages beside the API.
func TestPagesBesideTheAPI(t *testing.T) {
	t.Parallel()
	pages := http.NewServeMux()
	pages.HandleFunc("POST /console/who/{name}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		_, _ = io.Copy(w, r.Body)
		_, _ = io.WriteString(w, " at "+auth.ClientOf(r.Context()).String())
	})
	pages.HandleFunc("GET /console/broken", func(http.ResponseWriter, *http.Request) { panic("a page is broken") })
	w := newWorld(t, func(d *api.Deps) { d.Pages = map[string]http.Handler{"/console/": pages} })

	res := w.do(request{method: "POST", path: "/console/who/canary", body: "hello", key: "none"})
	if res.status != http.StatusOK || string(res.body) != "hello at 127.0.0.1" {
		t.Errorf("%d %s", res.status, res.body)
	}
	if h := res.header; h.Get("Content-Security-Policy") != "default-src 'self'" || h.Get("X-Request-Id") == "" ||
		h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%v", h)
	}
	w.refused(http.StatusInternalServerError, request{method: "GET", path: "/console/broken", key: "none"})
	// To their root, where they say themselves that nothing is there.
	if res := w.do(request{method: "GET", path: "/console", key: "none"}); string(res.body) != "404 page not found\n" {
		t.Errorf("/console: %d %s", res.status, res.body)
	}
	w.refused(http.StatusNotFound, request{method: "GET", path: "/consoles", key: "none"})
	log := w.log.String()
	for _, want := range []string{`"route":"POST /console/who/{name}"`, `"route":"GET /console/broken"`, "a page is broken"} {
		if !strings.Contains(log, want) {
			t.Errorf("%s is not in the log:\n%s", want, log)
		}
	}
	if strings.Contains(log, "canary") {
		t.Errorf("a path's value is in the log:\n%s", log)
	}
}
