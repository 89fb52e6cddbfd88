package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/id"
)

// need says which keys a route takes.
type need string

const (
	nobody    need = "" // public
	events    need = "events:write"
	endpoints need = "endpoints:write"
	reading   need = "deliveries:read"
	acting    need = "deliveries:write"
	admin     need = "admin"    // bound to the tenant will do
	operator  need = "operator" // admin, bound to no tenant
	owner     need = "owner"    // admin, or bound to the tenant
	anybody   need = "anybody"  // any key at all
)

// call is one route with what a good request to it is.
type call struct {
	method, path string // as in the description
	needs        need
	body         string // of a good request; "" where none is taken
	bare         bool   // a good request may have no body all the same
	raw          bool   // any body is good
	wrong        string // a body in which the value at pointer has the wrong type
	pointer      string
	status       int
	audits       string // actions of its entries in the audit log, the caller's own first
}

// calls are all operations. TestEveryRouteIsHere holds them against the description.
var calls = []call{
	{"POST", "/v1/tenants", operator, `{"name":"Third"}`, false, false, `{"name":1}`, "/name", 201, "tenant.created"},
	{"GET", "/v1/tenants", operator, "", false, false, "", "", 200, ""},
	{"GET", "/v1/tenants/{tenant}", owner, "", false, false, "", "", 200, ""},
	{"PATCH", "/v1/tenants/{tenant}", admin, `{"name":"New"}`, false, false, `{"metadata":[]}`, "/metadata", 200, "tenant.updated"},

	{"PUT", "/v1/event-types/{type}", operator, `{"description":"d","schema":{"type":"object"},"example":{}}`, false, false, `{"archived":1}`, "/archived", 200, "event_type.updated"},
	{"GET", "/v1/event-types", anybody, "", false, false, "", "", 200, ""},
	{"GET", "/v1/event-types/{type}", anybody, "", false, false, "", "", 200, ""},

	{"POST", "/v1/tenants/{tenant}/endpoints", endpoints, `{"url":"https://a.example/"}`, false, false, `{"url":"https://a.example/","event_types":[1]}`, "/event_types/0", 201, "endpoint.created"},
	{"GET", "/v1/tenants/{tenant}/endpoints", endpoints, "", false, false, "", "", 200, ""},
	{"GET", "/v1/tenants/{tenant}/endpoints/{ep}", endpoints, "", false, false, "", "", 200, ""},
	{"PATCH", "/v1/tenants/{tenant}/endpoints/{ep}", endpoints, `{"description":"d"}`, false, false, `{"headers":{"X-A.b":1}}`, "/headers/X-A.b", 200, "endpoint.updated"},
	{"GET", "/v1/tenants/{tenant}/endpoints/{ep}/secret", endpoints, "", false, false, "", "", 200, "endpoint.secret_revealed"},
	{"POST", "/v1/tenants/{tenant}/endpoints/{ep}/secret/rotate", endpoints, `{"overlap":"1h"}`, true, false, `{"overlap":3600}`, "/overlap", 200, "endpoint.secret_rotated, endpoint.secret_revealed"},
	{"GET", "/v1/tenants/{tenant}/endpoints/{ep}/stats", reading, "", false, false, "", "", 200, ""},
	{"POST", "/v1/tenants/{tenant}/endpoints/{ep}/filter:test", endpoints, `{"filter":"true","payload":1}`, false, false, `{"filter":1,"payload":1}`, "/filter", 200, ""},
	{"POST", "/v1/tenants/{tenant}/endpoints/{ep}/test", endpoints, `{"payload":[1]}`, true, false, `{"type":1}`, "/type", 202, "endpoint.tested"},
	{"GET", "/v1/tenants/{tenant}/endpoints/{ep}/poll", acting, "", false, false, "", "", 200, ""},
	{"POST", "/v1/tenants/{tenant}/endpoints/{ep}/ack", acting, `{"tokens":["nobody's"]}`, false, false, `{"tokens":[1]}`, "/tokens/0", 200, ""},
	{"POST", "/v1/tenants/{tenant}/endpoints/{ep}/replay", acting, `{"since":"2026-01-01T00:00:00Z"}`, false, false, `{"since":"2026-01-01T00:00:00Z","states":[1]}`, "/states/0", 202, "job.created"},

	{"POST", "/v1/tenants/{tenant}/portal-sessions", endpoints, `{"read_only":true}`, true, false, `{"read_only":1}`, "/read_only", 201, "portal.link_created"},

	{"POST", "/v1/tenants/{tenant}/events", events, `{"type":"a.b","payload":1}`, false, false, `{"type":"a","payload":1,"endpoint_ids":"x"}`, "/endpoint_ids", 202, ""},
	{"POST", "/v1/tenants/{tenant}/events:batch", events, `{"events":[{"type":"a.b","payload":{}}]}`, false, false, `{"events":[{"type":"a","payload":1},{"type":{},"payload":1}]}`, "/events/1/type", 202, ""},
	{"POST", "/v1/tenants/{tenant}/events/{evt}", events, "x", true, true, "", "", 202, ""},
	{"GET", "/v1/tenants/{tenant}/events", reading, "", false, false, "", "", 200, ""},
	{"GET", "/v1/tenants/{tenant}/events/{evt}", reading, "", false, false, "", "", 200, ""},
	{"GET", "/v1/tenants/{tenant}/events/{evt}/payload", reading, "", false, false, "", "", 200, ""},
	{"POST", "/v1/tenants/{tenant}/events/{evt}/cancel", events, "", false, false, "", "", 200, "event.cancelled"},
	{"POST", "/v1/tenants/{tenant}/events/{evt}/replay", acting, `{"dry_run":false}`, true, false, `{"dry_run":1}`, "/dry_run", 202, "job.created"},

	{"POST", "/v1/tenants/{tenant}/schedules", events, `{"cron":"0 9 * * *","timezone":"Europe/Berlin","type":"a.b","payload":1}`, false, false, `{"cron":"0 9 * * *","type":"a","payload":1,"endpoint_ids":"x"}`, "/endpoint_ids", 201, "schedule.created"},
	{"GET", "/v1/tenants/{tenant}/schedules", events, "", false, false, "", "", 200, ""},
	{"GET", "/v1/tenants/{tenant}/schedules/{sch}", events, "", false, false, "", "", 200, ""},
	{"PATCH", "/v1/tenants/{tenant}/schedules/{sch}", events, `{"description":"d"}`, false, false, `{"paused":"yes"}`, "/paused", 200, "schedule.updated"},
	{"POST", "/v1/tenants/{tenant}/schedules/{sch}/run", events, "", false, false, "", "", 202, "schedule.run"},

	{"GET", "/v1/deliveries", reading, "", false, false, "", "", 200, ""},
	{"GET", "/v1/deliveries/{dlv}", reading, "", false, false, "", "", 200, ""},
	{"GET", "/v1/deliveries/{dlv}/attempts", reading, "", false, false, "", "", 200, ""},
	{"POST", "/v1/deliveries/retry", acting, `{"event_type":"order.paid"}`, false, false, `{"event_type":"order.paid","ids":[1]}`, "/ids/0", 202, "job.created"},
	{"POST", "/v1/deliveries/cancel", acting, `{"event_type":"order.paid"}`, false, false, `{"q":1}`, "/q", 202, "job.created"},
	{"POST", "/v1/deliveries/{dlv}/retry", acting, "", false, false, "", "", 200, "delivery.retried"},
	{"POST", "/v1/deliveries/{dlv}/cancel", acting, "", false, false, "", "", 200, "delivery.cancelled"},

	{"GET", "/v1/jobs", reading, "", false, false, "", "", 200, ""},
	{"GET", "/v1/jobs/{job}", reading, "", false, false, "", "", 200, ""},
	{"POST", "/v1/jobs/{job}/cancel", acting, "", false, false, "", "", 200, "job.cancelled"},

	{"GET", "/v1/alerts", reading, "", false, false, "", "", 200, ""},
	{"GET", "/v1/alerts/{alr}", reading, "", false, false, "", "", 200, ""},
	{"POST", "/v1/alerts/{alr}/acknowledge", acting, "", false, false, "", "", 200, "alert.acknowledged"},
	{"POST", "/v1/alerts/{alr}/resolve", acting, "", false, false, "", "", 200, "alert.resolved"},

	{"POST", "/v1/api-keys", operator, `{"name":"k","scopes":["admin"]}`, false, false, `{"name":"k","scopes":"admin"}`, "/scopes", 201, "api_key.created"},
	{"GET", "/v1/api-keys", operator, "", false, false, "", "", 200, ""},
	{"GET", "/v1/api-keys/{key}", operator, "", false, false, "", "", 200, ""},

	{"GET", "/v1/audit-log", admin, "", false, false, "", "", 200, ""},
	{"GET", "/v1/processes", operator, "", false, false, "", "", 200, ""},

	{"DELETE", "/v1/tenants/{tenant}/schedules/{sch}", events, "", false, false, "", "", 204, "schedule.deleted"},
	{"DELETE", "/v1/event-types/{type}", operator, "", false, false, "", "", 204, "event_type.deleted"},
	{"DELETE", "/v1/api-keys/{key}", operator, "", false, false, "", "", 204, "api_key.revoked"},
	{"DELETE", "/v1/tenants/{tenant}/endpoints/{ep}", endpoints, "", false, false, "", "", 204, "endpoint.deleted"},
	{"DELETE", "/v1/tenants/{tenant}", operator, "", false, false, "", "", 204, "tenant.deleted, endpoint.deleted by system, endpoint.deleted by system"},
	{"POST", "/v1/tenants/{tenant}/erase", operator, `{"confirm":"{tenant}"}`, false, false, `{"confirm":1}`, "/confirm", 202, "tenant.deleted, endpoint.deleted by system, endpoint.deleted by system, tenant.erased"},

	{"GET", "/livez", nobody, "", false, false, "", "", 200, ""},
	{"GET", "/readyz", nobody, "", false, false, "", "", 200, ""},
}

func TestEveryRouteIsHere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var spec struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(w.do(request{method: "GET", path: "/openapi.json"}).body, &spec); err != nil {
		t.Fatal(err)
	}
	var described, tested []string
	for path, methods := range spec.Paths {
		for method := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	for _, c := range calls {
		tested = append(tested, c.method+" "+c.path)
	}
	slices.Sort(described)
	slices.Sort(tested)
	if !slices.Equal(described, tested) {
		t.Errorf("described:\n%s\n\ntested:\n%s", strings.Join(described, "\n"), strings.Join(tested, "\n"))
	}
}

// stage is a world with one of everything, for two tenants.
type stage struct {
	*world
	ids  map[string]string // by the name in a path, of the first tenant
	keys map[string]string // API keys by what they are
	// pull is the first tenant's endpoint that is fetched from.
	pull string
	// typeID is the number of the event type. Only the audit log shows it.
	typeID string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{world: newWorld(t), keys: map[string]string{}}
	tenant, other := s.tenant("first"), s.tenant("second")
	ep := s.endpoint(tenant, "")
	evt := s.event(tenant, "order.paid")
	event := s.must(http.StatusOK, request{method: "GET", path: "/v1/tenants/" + tenant + "/events/" + evt})
	s.must(http.StatusCreated, request{method: "PUT", path: "/v1/event-types/the.type", body: `{"description":"paid"}`})
	s.typeID = s.auditLog("", "&action=event_type.created")[0].text("object_id")
	s.ids = map[string]string{
		"type":   "the.type",
		"tenant": tenant, "ep": ep, "evt": evt, "dlv": event.list("deliveries")[0].text("id"),
		"alr": s.alert(tenant, ep),
		"sch": s.must(http.StatusCreated, request{
			method: "POST", path: "/v1/tenants/first/schedules", body: `{"cron":"@daily","type":"a","payload":1}`,
		}).text("id"),
		"job": s.must(http.StatusAccepted, request{method: "POST", path: "/v1/deliveries/retry", body: `{"tenant":"first"}`}).text("id"),
		"key": s.must(http.StatusCreated, request{
			method: "POST", path: "/v1/api-keys", body: `{"name":"to look at","scopes":["admin"]}`,
		}).text("id"),
	}
	s.pull = s.must(http.StatusCreated, request{
		method: "POST", path: "/v1/tenants/" + tenant + "/endpoints", body: `{"kind":"pull","event_types":["nothing"]}`,
	}).text("id")
	for _, scope := range []need{events, endpoints, reading, acting, admin} {
		s.keys[string(scope)] = s.apiKey("", string(scope))
		s.keys["own "+string(scope)] = s.apiKey(tenant, string(scope))
		s.keys["other's "+string(scope)] = s.apiKey(other, string(scope))
	}
	return s
}

// alert raises one about the endpoint.
func (w *world) alert(tenant, endpoint string) string {
	w.t.Helper()
	t, e := mustParse(w.t, id.Tenant, tenant), mustParse(w.t, id.Endpoint, endpoint)
	b := &pgx.Batch{}
	now := w.clock.Now()
	alert.QueueRaise(b, e.Shard, []alert.Finding{{
		Endpoint: e.N, Tenant: t.N, Kind: alert.DeliveryFailed, Count: 1, Detail: "it failed", At: now,
	}}, w.ids.Next, now)
	if err := w.db.SendBatch(w.t.Context(), b).Close(); err != nil {
		w.t.Fatal(err)
	}
	found := w.must(http.StatusOK, request{method: "GET", path: "/v1/alerts?tenant=" + tenant}).list("data")
	return found[0].text("id")
}

func mustParse(t *testing.T, kind id.Kind, text string) id.ID {
	t.Helper()
	parsed, err := kind.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// url fills the ids of the stage into a path, with some of them replaced.
func (s *stage) url(path string, replaced map[string]string) string {
	for name, value := range s.ids {
		if name == "ep" && (strings.HasSuffix(path, "/poll") || strings.HasSuffix(path, "/ack")) {
			value = s.pull
		}
		if other, ok := replaced[name]; ok {
			value = other
		}
		path = strings.ReplaceAll(path, "{"+name+"}", value)
	}
	return path
}

// good is a good request of the call, with this key.
func (s *stage) good(c call, key string) request {
	r := request{method: c.method, path: s.url(c.path, nil), key: key, body: s.url(c.body, nil)}
	if c.raw {
		r.contentType = "text/plain"
	}
	return r
}

// goodKeys are keys that the call takes, badKeys such that lack what it needs.
func (s *stage) goodKeys(c call) []string {
	switch c.needs {
	case nobody:
		return []string{"none"}
	case operator:
		return []string{s.keys["admin"]}
	case anybody:
		return []string{s.keys["own "+string(events)], s.keys[string(reading)], s.keys["admin"]}
	case owner:
		return []string{s.keys["admin"], s.keys["own admin"], s.keys["own "+string(events)]}
	}
	return []string{s.keys[string(c.needs)], s.keys["own "+string(c.needs)], s.keys["admin"]}
}

func (s *stage) badKeys(c call) []string {
	var bad []string
	for _, scope := range []need{events, endpoints, reading, acting} {
		if c.needs != nobody && c.needs != anybody && scope != c.needs {
			bad = append(bad, s.keys[string(scope)])
		}
	}
	if c.needs == operator {
		bad = append(bad, s.keys["own admin"], s.keys["other's admin"])
	}
	return bad
}

// Every route refuses what CONTRACT §3 says it refuses, in the order: who, may he, is it there, can it be read.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, c := range calls {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			sub := *s
			inner := *s.world
			inner.t, sub.world = t, &inner
			sub.refusesCallers(c)
			sub.refusesIDs(c)
			sub.refusesBodies(c)
		})
	}
}

func (s *stage) refusesCallers(c call) {
	s.t.Helper()
	if c.needs == nobody {
		return
	}
	broken := s.good(c, "none")
	broken.body = "{" // nobody is told about his body before we know him
	s.refused(http.StatusUnauthorized, broken)
	for _, header := range []string{"Basic YTpi", "Bearer", "Bearer ", adminKey, "Bearer " + adminKey + "x"} {
		r := s.good(c, "none")
		r.header = map[string]string{"Authorization": header}
		if res := s.do(r); !strings.HasPrefix(res.header.Get("WWW-Authenticate"), "Bearer ") || res.status != 401 {
			s.t.Errorf("%q: %d, WWW-Authenticate: %q", header, res.status, res.header.Get("WWW-Authenticate"))
		}
	}
	for _, key := range s.badKeys(c) {
		r := s.good(c, key)
		r.body = "{"
		s.refused(http.StatusForbidden, r)
	}
}

func (s *stage) refusesIDs(c call) {
	s.t.Helper()
	if !strings.Contains(c.path, "{") {
		return
	}
	var answers []string
	if scope := string(c.needs); c.needs != operator && c.needs != anybody { // another tenant's key
		if c.needs == owner {
			scope = string(admin)
		}
		r := s.good(c, s.keys["other's "+scope])
		if !c.raw {
			r.body = "{"
		}
		answers = append(answers, fmt.Sprint(s.refused(http.StatusNotFound, r)))
	}
	for name, value := range s.ids {
		if !strings.Contains(c.path, "{"+name+"}") || c.raw && name == "evt" || c.method == http.MethodPut {
			continue
		}
		unknown := value[:len(value)-6] + "zzzz" + value[len(value)-2:]
		wrongKind := map[bool]string{true: "evt_", false: "sch_"}[name == "sch"] + value[strings.IndexByte(value, '_')+1:]
		for _, ref := range []string{unknown, wrongKind, value + "0", "nix", "%20", "%00", "%FF", strings.Repeat("x", 300), "a%2Fb", "%2E%2E"} {
			r := s.good(c, s.goodKeys(c)[0])
			r.path = s.url(c.path, map[string]string{name: ref})
			p := s.refused(http.StatusNotFound, r)
			if ref == unknown {
				answers = append(answers, fmt.Sprint(p))
			}
		}
	}
	if strings.Count(c.path, "{") == 1 && len(slices.Compact(answers)) > 1 {
		s.t.Errorf("another tenant's thing is told apart from one that is not there: %v", answers)
	}
}

func (s *stage) refusesBodies(c call) {
	s.t.Helper()
	good := s.good(c, s.goodKeys(c)[0])
	if c.needs != nobody {
		r := good
		r.path += "?nix=1"
		if p := s.refused(http.StatusUnprocessableEntity, r); !p.pointsTo("?nix") {
			s.t.Errorf("an unknown query parameter: %+v", p)
		}
		r.path = good.path + "?limit=1&limit=2"
		s.refused(http.StatusUnprocessableEntity, r)
		r.path = good.path + "?%zz"
		s.refused(http.StatusBadRequest, r)
	}
	if c.wrong == "" {
		return
	}
	refused := func(status int, body, contentType string) problem {
		s.t.Helper()
		r := good
		r.body, r.contentType = body, contentType
		return s.refused(status, r)
	}
	broken := []string{"{", `{"a":}`, "nix", c.body + "x", c.body + "{}", "\xef\xbb\xbf" + c.body, `{"\u0000":1}`, "{\"x\":\"\xff\"}", `{"x":1,"x":2}`, `{"x":1e999}`, strings.Repeat("[", 100000)}
	for _, body := range broken {
		refused(http.StatusBadRequest, body, "")
	}
	if !c.bare {
		refused(http.StatusBadRequest, "", "application/json")
	}
	for _, contentType := range []string{"none", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "application/json; charset=latin1", "nix", "multipart/form-data; boundary=x"} {
		refused(http.StatusUnsupportedMediaType, c.body, contentType)
	}
	unknown := strings.TrimSuffix(c.body, "}") + `,"no/such.field":1}`
	if p := refused(http.StatusUnprocessableEntity, unknown, ""); !p.pointsTo("/no~1such.field") {
		s.t.Errorf("an unknown field: %+v", p)
	}
	name := c.body[2 : 2+strings.IndexByte(c.body[2:], '"')]
	upper := strings.Replace(c.body, name, strings.ToUpper(name), 1)
	if p := refused(http.StatusUnprocessableEntity, upper, "application/json; charset=UTF-8"); !p.pointsTo("/" + strings.ToUpper(name)) {
		s.t.Errorf("a field in capitals: %+v", p)
	}
	for _, body := range []string{"[]", "1", `"x"`, "null", "true"} {
		refused(http.StatusUnprocessableEntity, body, "")
	}
	if p := refused(http.StatusUnprocessableEntity, c.wrong, ""); !p.pointsTo(c.pointer) {
		s.t.Errorf("a wrong type at %s: %+v", c.pointer, p)
	}
}

// A body over the limit is a 413, whether its length is announced or not, and one at the limit is not.
func TestBodyLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	raw := func(n int) request {
		return request{method: "POST", path: "/v1/tenants/acme/events/a", body: strings.Repeat("x", n), contentType: "text/plain"}
	}
	w.must(http.StatusAccepted, raw(maxPayload))
	w.refused(http.StatusRequestEntityTooLarge, raw(maxPayload+1))
	envelope := func(n int) request {
		return request{method: "POST", path: "/v1/tenants/acme/events", body: `{"type":"a","payload":"` + strings.Repeat("x", n-2) + `"}`}
	}
	w.must(http.StatusAccepted, envelope(maxPayload))
	w.refused(http.StatusRequestEntityTooLarge, envelope(maxPayload+1))
	w.refused(http.StatusRequestEntityTooLarge, envelope(maxPayload+(65<<10)))
	w.refused(http.StatusRequestEntityTooLarge, request{
		method: "POST", path: "/v1/tenants", body: `{"name":"` + strings.Repeat("x", 300<<10) + `"}`,
	})
	packed := raw(1)
	packed.header = map[string]string{"Content-Encoding": "gzip"}
	w.refused(http.StatusUnsupportedMediaType, packed)
	packed.header["Content-Encoding"] = "identity"
	w.must(http.StatusAccepted, packed)
	for _, n := range []int{maxPayload, maxPayload + 1} {
		chunked := raw(n)
		chunked.chunked = true
		if res := w.do(chunked); res.status != map[bool]int{true: 202, false: 413}[n == maxPayload] {
			t.Errorf("chunked, %d bytes: %d %s", n, res.status, res.body)
		}
	}
}

// Every route does what it is for, for every kind of key that it takes.
func TestGoodCalls(t *testing.T) {
	t.Parallel()
	for _, c := range calls {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			keys := s.goodKeys(c)
			if c.method == http.MethodDelete || strings.HasSuffix(c.path, "/cancel") {
				keys = keys[:1] // done once, it is done
			}
			for _, key := range keys {
				s.must(c.status, s.good(c, key))
				if c.bare {
					r := s.good(c, key)
					r.body, r.contentType = "", ""
					s.must(c.status, r)
				}
			}
		})
	}
}
