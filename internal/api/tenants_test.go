package api_test

import (
	"net/http"
	"testing"
)

func TestATenantKeepsItsHistoryForATimeOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.must(http.StatusCreated, request{method: "POST", path: "/v1/tenants", body: `{"name":"a","uid":"acme","retention":{"events":"90d"}}`})
	if keep := made.object("retention"); keep.text("events") != "90d" || keep["attempts"] != nil {
		t.Errorf("made with %v", keep)
	}
	for _, c := range []struct{ body, events, attempts string }{
		{`{"retention":{"attempts":"2d"}}`, "90d", "2d"},
		{`{"name":"b"}`, "90d", "2d"},
		{`{"retention":{"events":null}}`, "", "2d"},
		{`{"retention":null}`, "", ""},
	} {
		got := w.must(http.StatusOK, request{method: "PATCH", path: "/v1/tenants/acme", body: c.body}).object("retention")
		if got.text("events") != c.events || got.text("attempts") != c.attempts {
			t.Errorf("after %s it is %v", c.body, got)
		}
	}
	for body, pointer := range map[string]string{
		`{"retention":{"events":"23h"}}`: "/retention/events", `{"retention":{"attempts":"3651d"}}`: "/retention/attempts",
		`{"retention":{"attempts":"long"}}`: "/retention/attempts", `{"retention":{"payloads":"2d"}}`: "/retention/payloads",
	} {
		w.invalidAt(request{method: "PATCH", path: "/v1/tenants/acme", body: body}, pointer)
	}
	own := w.apiKey(w.must(http.StatusOK, request{method: "GET", path: "/v1/tenants/acme"}).text("id"), "admin")
	if res := w.do(request{method: "PATCH", path: "/v1/tenants/acme", body: `{"retention":{"events":"2d"}}`, key: own}); res.status != http.StatusForbidden {
		t.Errorf("a key of its own: %d", res.status)
	}
}

func TestErasingNeedsTheTenantNamedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ten := w.must(http.StatusCreated, request{method: "POST", path: "/v1/tenants", body: `{"name":"a","uid":"acme"}`}).text("id")
	w.invalidAt(request{method: "POST", path: "/v1/tenants/acme/erase", body: `{"confirm":"acme2"}`}, "/confirm")
	w.must(http.StatusOK, request{method: "GET", path: "/v1/tenants/acme"}) // it is still there
	job := w.must(http.StatusAccepted, request{method: "POST", path: "/v1/tenants/acme/erase", body: `{"confirm":"acme"}`})
	if job.text("kind") != "erase" || job.object("filter").text("tenant") != ten {
		t.Errorf("the job is %v", job)
	}
	w.must(http.StatusOK, request{method: "GET", path: "/v1/jobs/" + job.text("id")})
	if again := w.must(http.StatusAccepted, request{method: "POST", path: "/v1/tenants/" + ten + "/erase", body: `{"confirm":"` + ten + `"}`}); again.text("id") != job.text("id") {
		t.Errorf("asked again: %v", again)
	}
	if res := w.do(request{method: "POST", path: "/v1/tenants/acme/erase", body: `{"confirm":"acme"}`}); res.status != http.StatusNotFound {
		t.Errorf("a deleted tenant by its uid: %d", res.status)
	}
}

// invalidAt wants a 422 that names this place alone.
func (w *world) invalidAt(r request, pointer string) {
	w.t.Helper()
	p := w.refused(http.StatusUnprocessableEntity, r)
	if len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
		w.t.Errorf("%s: %+v, want %s", r.body, p, pointer)
	}
}
