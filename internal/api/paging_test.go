package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
)

// Whoever pages sees all that was there when he began, once each, newest first, whatever is made meanwhile.
func TestPagingIsStable(t *testing.T) {
	t.Parallel()
	const things, page = 7, 3
	for name, list := range map[string]struct {
		path   string
		create func(w *world, n int) string
	}{
		"tenants": {"/v1/tenants", func(w *world, n int) string { return w.tenant(fmt.Sprintf("t%d", n)) }},
		"endpoints": {"/v1/tenants/acme/endpoints", func(w *world, n int) string {
			return w.endpoint("acme", fmt.Sprintf(`,"uid":"e%d","event_types":["x.y"]`, n))
		}},
		"events": {"/v1/tenants/acme/events", func(w *world, _ int) string { return w.event("acme", "a") }},
		"deliveries": {"/v1/deliveries", func(w *world, _ int) string {
			evt := w.must(http.StatusOK, request{method: "GET", path: "/v1/tenants/acme/events/" + w.event("acme", "a")})
			return evt.list("deliveries")[0].text("id")
		}},
		"alerts": {"/v1/alerts?state=open", func(w *world, _ int) string {
			return w.alert(w.acme, w.endpoint("acme", `,"event_types":["x.y"]`))
		}},
		"API keys": {"/v1/api-keys", func(w *world, _ int) string {
			w.apiKey("", "admin")
			return w.must(http.StatusOK, request{method: "GET", path: "/v1/api-keys"}).list("data")[0].text("id")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.acme = w.tenant("acme")
			if name != "endpoints" {
				w.endpoint("acme", `,"event_types":["a"]`)
			}
			var made []string
			for n := range things {
				made = append(made, list.create(w, n))
			}
			slices.Reverse(made)
			var seen []string
			for cursor, n := "", things; ; n++ {
				out := w.must(http.StatusOK, request{method: "GET", path: withQuery(list.path, page, cursor)})
				for _, item := range out.list("data") {
					seen = append(seen, item.text("id"))
				}
				if len(out.list("data")) > page {
					t.Fatalf("a page of %d", len(out.list("data")))
				}
				if cursor = out.text("next_cursor"); cursor == "" {
					break
				}
				list.create(w, n) // while he looks
			}
			if len(seen) < things || !slices.Equal(seen[:things], made) {
				t.Errorf("seen %v, made %v", seen, made)
			}
			for _, bad := range []string{"nix", "====", "ZZZZ", "a b", "' OR 1"} {
				if p := w.refused(422, request{method: "GET", path: withQuery(list.path, page, bad)}); !p.pointsTo("?cursor") {
					t.Errorf("%q: %+v", bad, p)
				}
			}
			for _, bad := range []int{0, -1, 251} {
				if p := w.refused(422, request{method: "GET", path: withQuery(list.path, bad, "")}); !p.pointsTo("?limit") {
					t.Errorf("%d: %+v", bad, p)
				}
			}
		})
	}
}

func withQuery(path string, limit int, cursor string) string {
	u, err := url.Parse(path)
	if err != nil {
		return path
	}
	q := u.Query()
	q.Set("limit", fmt.Sprint(limit))
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// A cursor belongs to its list.
func TestCursorOfAnotherList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("a")
	w.tenant("b")
	cursor := w.must(200, request{method: "GET", path: "/v1/tenants?limit=1"}).text("next_cursor")
	w.refused(422, request{method: "GET", path: "/v1/deliveries?cursor=" + cursor})
	if last := w.must(200, request{method: "GET", path: "/v1/tenants?limit=1&cursor=" + cursor}); last["next_cursor"] != nil {
		t.Errorf("a cursor after the last: %v", last)
	}
}

// PostgreSQL's text takes neither NUL nor what is not UTF-8: a query that holds such is the caller's fault, and not ours.
func TestQueriesOfBytesThatAreNoText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	for _, list := range []struct{ path, name string }{
		{"/v1/tenants/acme/events", "type"},
		{"/v1/deliveries", "event_type"},
		{"/v1/deliveries", "endpoint"},
		{"/v1/deliveries", "q"},
		{"/v1/audit-log", "actor"},
		{"/v1/audit-log", "object"},
	} {
		for _, value := range []string{"%00", "a%00b", "%FF", "a%C3"} {
			path := list.path + "?" + list.name + "=" + value
			if p := w.refused(http.StatusUnprocessableEntity, request{method: "GET", path: path}); !p.pointsTo("?" + list.name) {
				t.Errorf("%s: %+v", path, p)
			}
		}
	}
}
