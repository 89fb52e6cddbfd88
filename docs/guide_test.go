package docs_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// guide is the page that has a call of every route.
const guide = "docs/api.md"

var placeholder = regexp.MustCompile(`\\\{[a-z]+\\\}`)

// checkEveryRouteIsCalled holds what the guide's calls have asked of the server against what the server says that it has.
func (h *house) checkEveryRouteIsCalled() {
	h.t.Helper()
	routes := []string{"GET /metrics", "GET /openapi.json", "GET /docs"} // which the description leaves out
	resp, err := http.Get(h.proxy + "/openapi.json")
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	var description struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&description); err != nil {
		h.t.Fatal(err)
	}
	for path, methods := range description.Paths {
		for method := range methods {
			routes = append(routes, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(routes)
	calls := h.seen(0)
	for _, route := range routes {
		like := regexp.MustCompile("^" + placeholder.ReplaceAllString(regexp.QuoteMeta(route), "[^/]+") + "$")
		// A 409 is an answer of the thing itself: a job that is to be stopped has finished by then, often enough.
		good := func(c call) bool {
			return (c.status < 400 || c.status == http.StatusConflict) && like.MatchString(c.method+" "+c.path)
		}
		if !slices.ContainsFunc(calls, good) {
			h.t.Errorf("%s has no call of %s that is answered: add a curl of it where it belongs", guide, route)
		}
	}
	if len(routes) < 50 {
		h.t.Errorf("only %d routes", len(routes))
	}
}
