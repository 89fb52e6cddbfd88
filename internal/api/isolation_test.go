package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// intruder is a tenant's own admin who tries what it can with another tenant's ids.
type intruder struct {
	*stage                   // the ids are those of the tenant that it is after
	key    string            // of its own tenant, with every scope
	own    map[string]string // its own things, by the name in a path
	uids   map[string]string // of the other's things
}

func newIntruder(t *testing.T) *intruder {
	t.Helper()
	s := newStage(t)
	in := &intruder{stage: s, own: map[string]string{}, uids: map[string]string{"tenant": "first", "ep": "their-ep", "evt": "their-evt"}}
	s.must(http.StatusOK, request{method: "PATCH", path: s.url("/v1/tenants/{tenant}/endpoints/{ep}", nil), body: `{"uid":"their-ep"}`})
	s.ids["evt"] = s.must(http.StatusAccepted, request{
		method: "POST", path: "/v1/tenants/first/events", body: `{"type":"order.paid","payload":{},"uid":"their-evt"}`,
	}).text("id")
	other := s.must(http.StatusOK, request{method: "GET", path: "/v1/tenants/second"}).text("id")
	in.key = s.apiKey(other, "events:write", "endpoints:write", "deliveries:read", "deliveries:write", "admin")
	ep := s.endpoint(other, "")
	evt := s.event(other, "order.paid")
	event := s.must(http.StatusOK, request{method: "GET", path: "/v1/tenants/" + other + "/events/" + evt})
	in.own = map[string]string{
		"tenant": other, "ep": ep, "evt": evt, "dlv": event.list("deliveries")[0].text("id"), "alr": s.alert(other, ep),
		"job": s.must(http.StatusAccepted, request{method: "POST", path: "/v1/deliveries/retry", body: `{"tenant":"second"}`}).text("id"),
	}
	return in
}

// spellings are ways to name the other's thing: its id, its uid, forged ones with the bucket of either tenant, and
// spelled otherwise.
func (in *intruder) spellings(name string) []string {
	theirs := in.ids[name]
	out := []string{theirs, strings.ToUpper(theirs), theirs[:4] + strings.ToUpper(theirs[4:]), url.PathEscape(theirs) + "%20", "%20" + theirs, theirs + "%00"}
	if uid, has := in.uids[name]; has {
		out = append(out, uid, strings.ToUpper(uid))
	}
	if own, has := in.own[name]; has {
		bucket := own[len(own)-2:]
		out = append(out, theirs[:len(theirs)-2]+bucket, own[:len(own)-2]+theirs[len(theirs)-2:])
	}
	return out
}

// Every id of a tenant, however it is spelled, used in every path with another tenant's key that may do everything: it is
// not there, as if it never was, and nothing in the database has moved.
func TestAnothersIDsInPaths(t *testing.T) {
	t.Parallel()
	in := newIntruder(t)
	before := in.fingerprint()
	tried := 0
	for _, c := range calls {
		if !strings.Contains(c.path, "{") || c.needs == operator || c.needs == anybody {
			continue
		}
		for name := range in.ids {
			if !strings.Contains(c.path, "{"+name+"}") || c.raw && name == "evt" {
				continue // of the raw call it is the type of a new event
			}
			for _, ref := range in.spellings(name) {
				// Its thing under the tenant's own path, and under the path of the one it belongs to.
				for _, with := range []map[string]string{in.own, in.ids} {
					replaced := map[string]string{}
					for n, v := range with {
						replaced[n] = v
					}
					replaced[name] = ref
					if name == "tenant" {
						replaced = map[string]string{"tenant": ref, "ep": with["ep"], "evt": with["evt"]}
					}
					if c.raw {
						replaced["evt"] = "a.b"
					}
					r := in.good(c, in.key)
					r.path = in.url(c.path, replaced)
					tried++
					if res := in.do(r); res.status != http.StatusNotFound {
						t.Errorf("%s %s: %d %s", r.method, r.path, res.status, res.body)
					}
				}
			}
		}
	}
	if tried < 200 {
		t.Errorf("only %d were tried", tried)
	}
	if after := in.fingerprint(); after != before {
		t.Errorf("something was done:\n%s\n\n%s", before, after)
	}
}

// The same for routes that are the operators' alone: the key is refused before anybody looks for the thing.
func TestAnothersIDsWhereOnlyOperatorsGo(t *testing.T) {
	t.Parallel()
	in := newIntruder(t)
	before := in.fingerprint()
	for _, c := range calls {
		if c.needs == operator {
			in.refused(http.StatusForbidden, in.good(c, in.key))
		}
	}
	for _, tenant := range []string{in.ids["tenant"], "first", in.own["tenant"]} {
		in.refused(http.StatusForbidden, request{
			method: "POST", path: "/v1/api-keys", key: in.key, body: `{"name":"mine","scopes":["admin"],"tenant":"` + tenant + `"}`,
		})
	}
	if after := in.fingerprint(); after != before {
		t.Errorf("something was done:\n%s\n\n%s", before, after)
	}
}

// In queries another's tenant is not there, and another's other things are nowhere in what is listed.
func TestAnothersIDsInQueries(t *testing.T) {
	t.Parallel()
	in := newIntruder(t)
	in.event("first", "order.paid") // more than one thing of each kind, so that lists have pages
	in.alert(in.ids["tenant"], in.endpoint("first", ""))
	in.must(http.StatusAccepted, request{method: "POST", path: "/v1/deliveries/retry", body: `{"tenant":"first"}`})
	before := in.fingerprint()
	theirs := "first"
	for _, list := range []string{"/v1/deliveries", "/v1/jobs", "/v1/alerts", "/v1/audit-log"} {
		for _, ref := range in.spellings("tenant") {
			in.refused(http.StatusNotFound, request{method: "GET", path: list + "?tenant=" + ref, key: in.key})
		}
		// A page of the other's list leads into one's own and nowhere else.
		cursor := in.must(http.StatusOK, request{method: "GET", path: list + "?limit=1&tenant=" + theirs}).text("next_cursor")
		if cursor == "" {
			t.Fatalf("%s has one page", list)
		}
		in.seesNothing(list + "?cursor=" + cursor)
	}
	for _, of := range []string{"endpoints", "events"} {
		path := "/v1/tenants/first/" + of + "?limit=1"
		cursor := in.must(http.StatusOK, request{method: "GET", path: path}).text("next_cursor")
		if cursor == "" {
			t.Fatalf("%s has one page", of)
		}
		in.seesNothing("/v1/tenants/second/" + of + "?cursor=" + cursor)
	}
	for _, name := range []string{"ep", "evt", "dlv", "alr", "tenant"} {
		for _, ref := range []string{in.ids[name], in.uids[name]} {
			if ref == "" {
				continue
			}
			for _, query := range []string{"?endpoint=" + ref, "?event=" + ref, "?q=" + ref, "?endpoint=" + ref + "&tenant=second"} {
				in.seesNothing("/v1/deliveries" + query)
			}
			in.seesNothing("/v1/audit-log?object=" + ref)
			in.seesNothing("/v1/audit-log?actor=" + ref)
		}
	}
	if after := in.fingerprint(); after != before {
		t.Errorf("something was done:\n%s\n\n%s", before, after)
	}
}

// seesNothing makes a call that is refused as bad, or not there, or lists nothing of the other's.
func (in *intruder) seesNothing(path string) {
	in.t.Helper()
	res := in.do(request{method: "GET", path: path, key: in.key})
	if res.status == http.StatusNotFound || res.status == http.StatusUnprocessableEntity {
		return
	}
	if res.status != http.StatusOK {
		in.t.Errorf("%s: %d %s", path, res.status, res.body)
	}
	for name, ref := range in.ids {
		if strings.Contains(string(res.body), ref) {
			in.t.Errorf("%s shows the other's %s: %s", path, name, res.body)
		}
	}
	for _, thing := range res.tree(in.t).list("data") {
		if of := thing.text("tenant_id"); of != in.own["tenant"] {
			in.t.Errorf("%s shows a thing of %q: %v", path, of, thing)
		}
	}
}

// In bodies: endpoints that an event is for. They are told of like ones that never were.
func TestAnothersIDsInBodies(t *testing.T) {
	t.Parallel()
	in := newIntruder(t)
	before := in.fingerprint()
	const never = "ep_0000000000001zz"
	for _, ref := range []string{in.ids["ep"], in.uids["ep"], in.ids["ep"][:len(in.ids["ep"])-2] + in.own["ep"][len(in.own["ep"])-2:]} {
		for path, body := range map[string]string{
			"/v1/tenants/second/events":       `{"type":"a","payload":1,"endpoint_ids":[%q]}`,
			"/v1/tenants/second/events:batch": `{"events":[{"type":"a","payload":1},{"type":"a","payload":1,"endpoint_ids":[%q]}]}`,
		} {
			told := func(ref string) string {
				p := in.refused(http.StatusUnprocessableEntity, request{method: "POST", path: path, key: in.key, body: fmt.Sprintf(body, ref)})
				return strings.ReplaceAll(fmt.Sprint(p), ref, "…")
			}
			if theirs, nobodys := told(ref), told(never); theirs != nobodys {
				t.Errorf("%s tells another's endpoint from none: %s, %s", path, theirs, nobodys)
			}
		}
	}
	if after := in.fingerprint(); after != before {
		t.Errorf("something was done:\n%s\n\n%s", before, after)
	}
}

// With its tenant a key ends, at once where the tenant was deleted.
func TestKeysEndWithTheirTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	own := w.apiKey("acme", "admin")
	w.must(http.StatusOK, request{method: "GET", path: "/v1/tenants/acme", key: own})
	w.must(http.StatusNoContent, request{method: "DELETE", path: "/v1/tenants/acme"})
	w.refused(http.StatusUnauthorized, request{method: "GET", path: "/v1/tenants/acme", key: own})
}

// Producers name tenants by uid. A tenant's own admin that could change it would get the events of whoever had it before, or is
// to have it, and would learn which there are.
func TestATenantDoesNotChooseItsUID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.tenant("rival")
	w.must(http.StatusNoContent, request{method: "DELETE", path: "/v1/tenants/" + w.tenant("gone")})
	own := w.apiKey("acme", "admin")
	for _, uid := range []string{`"rival"`, `"gone"`, `"free"`, `null`} {
		w.refused(http.StatusForbidden, request{method: "PATCH", path: "/v1/tenants/acme", key: own, body: `{"name":"x","uid":` + uid + `}`})
	}
	got := w.must(http.StatusOK, request{method: "PATCH", path: "/v1/tenants/acme", key: own, body: `{"name":"y","uid":"acme"}`})
	if got.text("id") != acme || got.text("name") != "y" {
		t.Errorf("%v", got)
	}
	w.must(http.StatusOK, request{method: "PATCH", path: "/v1/tenants/acme", body: `{"uid":"free"}`})
}
