package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const paidSchema = `{"type":"object","required":["order"],"properties":{"order":{"type":"integer"},"amount":{"type":"number","minimum":0}}}`

func (w *world) putType(status int, name, body string) tree {
	w.t.Helper()
	return w.must(status, request{method: "PUT", path: "/v1/event-types/" + name, body: body})
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.do(request{
		method: "PUT", path: "/v1/event-types/order.paid",
		body: `{"description":"paid","schema":{"type":"object","b":1,"a":2},"example":{"order": 1.0}}`,
	})
	if made.status != http.StatusCreated || made.header.Get("Location") != "/v1/event-types/order.paid" ||
		!strings.Contains(string(made.body), `"schema":{"type":"object","b":1,"a":2},"example":{"order":1.0}`) {
		t.Fatalf("%d %v %s", made.status, made.header, made.body)
	}
	w.putType(201, "order.open", `{}`)
	w.putType(201, "legacy", `{"archived":true,"schema":null,"example":null,"description":null}`)
	names := func(query string) (names []string) {
		t.Helper()
		for _, one := range w.must(200, request{method: "GET", path: "/v1/event-types" + query}).list("data") {
			names = append(names, one.text("type"))
		}
		return names
	}
	for query, want := range map[string][]string{
		"": {"legacy", "order.open", "order.paid"}, "?archived=true": {"legacy"}, "?archived=false": {"order.open", "order.paid"},
	} {
		if got := names(query); !slices.Equal(got, want) {
			t.Errorf("%s: %v", query, got)
		}
	}
	first := w.must(200, request{method: "GET", path: "/v1/event-types?limit=2"})
	if second := names("?limit=2&cursor=" + first.text("next_cursor")); !slices.Equal(second, []string{"order.paid"}) {
		t.Errorf("the second page: %v", second)
	}

	// A PUT replaces all of it.
	got := w.putType(200, "order.paid", `{"example":[1]}`)
	if got["schema"] != nil || got.text("description") != "" || fmt.Sprint(got["example"]) != "[1]" || got["archived"] != false {
		t.Errorf("%v", got)
	}
	// One that changes nothing is no act.
	again := w.putType(200, "order.paid", `{"example":[1]}`)
	if entries := w.auditLog("", "&action=event_type.updated"); len(entries) != 1 || again.text("updated_at") != got.text("updated_at") {
		t.Errorf("%v %v", entries, again)
	}
	w.must(204, request{method: "DELETE", path: "/v1/event-types/order.paid"})
	w.refused(404, request{method: "GET", path: "/v1/event-types/order.paid"})
	w.refused(404, request{method: "DELETE", path: "/v1/event-types/order.paid"})
}

func TestCatalogueRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for body, pointer := range map[string]string{
		`{"schema":{"type":"objekt"}}`:                                     "/schema/type",
		`{"schema":{"properties":{"a":{"pattern":"^(?!a)"}}}}`:             "/schema/properties/a/pattern",
		`{"schema":{"$ref":"https://a.example/s.json"}}`:                   "/schema/$ref",
		`{"schema":{"$ref":"file:///etc/passwd"}}`:                         "/schema/$ref",
		`{"schema":{"$schema":"http://json-schema.org/draft-07/schema#"}}`: "/schema/$schema",
		`{"schema":[]}`:   "/schema",
		`{"schema":"{}"}`: "/schema",
		`{"schema":` + paidSchema + `,"example":{"order":"1","amount":-1}}`:                 "/example/amount",
		`{"schema":{"description":"` + strings.Repeat("x", 70<<10) + `"}}`:                  "/schema",
		`{"example":"` + strings.Repeat("x", 70<<10) + `"}`:                                 "/example",
		`{"description":"` + strings.Repeat("x", 1001) + `"}`:                               "/description",
		`{"schema":` + strings.Repeat(`{"not":`, 40) + `{}` + strings.Repeat("}", 40) + `}`: "/schema" + strings.Repeat("/not", 33),
	} {
		if p := w.refused(422, request{method: "PUT", path: "/v1/event-types/a", body: body}); !p.pointsTo(pointer) {
			t.Errorf("%.90s: %+v", body, p)
		}
	}
	for _, name := range []string{"a%20b", "a:b", strings.Repeat("x", 129), "ä"} {
		if p := w.refused(422, request{method: "PUT", path: "/v1/event-types/" + name, body: `{}`}); !p.pointsTo("/type") {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if n := len(w.must(200, request{method: "GET", path: "/v1/event-types"}).list("data")); n > 0 {
		t.Errorf("%d entries", n)
	}
}

// An event that breaks its type's schema is refused by every way to enqueue, with its place, and leaves nothing.
func TestEventsAreHeldAgainstTheirSchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	w.putType(201, "order.paid", `{"schema":`+paidSchema+`}`)
	const events = "/v1/tenants/acme/events"
	envelope := func(payload string) request {
		return request{method: "POST", path: events, body: `{"type":"order.paid","payload":` + payload + `}`}
	}
	w.must(202, envelope(`{"order":1,"amount":5}`))
	w.must(202, request{method: "POST", path: events, body: `{"type":"order.other","payload":1}`})
	for _, r := range []request{
		envelope(`{"order":1,"amount":-5}`),
		{method: "POST", path: events + "/order.paid", body: `{"order":1,"amount":-5}`},
		{method: "POST", path: events + "/order.paid?uid=u", body: `{"order":1,"amount":-5}`, contentType: "application/vnd.acme+json"},
	} {
		p := w.refused(422, r)
		if len(p.Errors) != 1 || !p.pointsTo("/payload/amount") || strings.Contains(p.Detail, "-5") {
			t.Errorf("%s %s: %+v", r.path, r.body, p)
		}
	}
	batch := `{"events":[{"type":"order.paid","payload":{"order":1}},{"type":"other","payload":{}},{"type":"order.paid","payload":{"a/b":1}}]}`
	if p := w.refused(422, request{method: "POST", path: events + ":batch", body: batch}); len(p.Errors) != 1 || !p.pointsTo("/events/2/payload/order") {
		t.Errorf("%+v", p)
	}
	for _, r := range []request{
		{method: "POST", path: events + "/order.paid", body: `<order/>`, contentType: "application/xml"},
		{method: "POST", path: events + "/order.paid", body: `{"order":1}`, contentType: "none"},
	} {
		if p := w.refused(422, r); !p.pointsTo("/content_type") {
			t.Errorf("%s: %+v", r.body, p)
		}
	}
	for _, body := range []string{``, `{`, `{"order":1}x`} {
		r := request{method: "POST", path: events + "/order.paid", body: body, contentType: "application/json"}
		if p := w.refused(422, r); !p.pointsTo("/payload") {
			t.Errorf("%s: %+v", body, p)
		}
	}
	if n := len(w.must(200, request{method: "GET", path: events}).list("data")); n != 2 {
		t.Errorf("%d events", n)
	}

	// Archived, it is accepted and its schema holds; without one, or out of the catalogue, anything goes.
	w.putType(200, "order.paid", `{"archived":true,"schema":`+paidSchema+`}`)
	w.refused(422, envelope(`{}`))
	w.must(202, envelope(`{"order":2}`))
	w.putType(200, "order.paid", `{}`)
	w.must(202, envelope(`{}`))
	w.putType(200, "order.paid", `{"schema":false}`)
	w.refused(422, envelope(`{}`))
	w.must(204, request{method: "DELETE", path: "/v1/event-types/order.paid"})
	w.must(202, envelope(`{}`))
}

// What was accepted before there was a schema is answered again, when it is repeated, as the first time.
func TestRepetitionsAreNotHeldAgainstASchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	enqueue := func(key, more string) request {
		r := request{method: "POST", path: "/v1/tenants/acme/events", body: `{"type":"order.paid","payload":{}` + more + `}`}
		if key != "" {
			r.header = map[string]string{"Idempotency-Key": key}
		}
		return r
	}
	byKey, byUID := w.must(202, enqueue("k", "")), w.must(202, enqueue("", `,"uid":"u"`))
	w.putType(201, "order.paid", `{"schema":`+paidSchema+`}`)
	if again := w.must(202, enqueue("k", "")); again.text("id") != byKey.text("id") {
		t.Errorf("%v", again)
	}
	if again := w.must(202, enqueue("", `,"uid":"u"`)); again.text("id") != byUID.text("id") {
		t.Errorf("%v", again)
	}
	for _, r := range []request{enqueue("k2", ""), enqueue("", `,"uid":"u2"`)} {
		if p := w.refused(422, r); !p.pointsTo("/payload/order") {
			t.Errorf("%+v", p)
		}
	}
	w.putType(200, "order.paid", `{}`) // a refusal uses no key up
	w.must(202, enqueue("k2", ""))
	w.must(202, enqueue("", `,"uid":"u2"`))
}

// A test of a type sends the catalogue's example, and is not held against the schema.
func TestTestEventsUseTheExample(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	w.putType(201, "order.paid", `{"schema":`+paidSchema+`,"example":{"order": 7}}`)
	ep := "/v1/tenants/acme/endpoints/" + w.endpoint("acme", `,"filter":"false"`)
	for body, want := range map[string]string{
		`{"type":"order.paid"}`:               `{"order": 7}`,
		`{"type":"order.paid","payload":"x"}`: `"x"`,
		`{"type":"order.open"}`:               `{"message":"This is a test event from Postrider."}`,
	} {
		sent := w.must(202, request{method: "POST", path: ep + "/test", body: body})
		got := w.do(request{method: "GET", path: "/v1/tenants/acme/events/" + sent.text("id") + "/payload"})
		if string(got.body) != want || fmt.Sprint(sent["deliveries"]) != "1" {
			t.Errorf("%s: %s %v", body, got.body, sent)
		}
	}
}
