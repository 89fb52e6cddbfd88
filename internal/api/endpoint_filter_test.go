package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// An endpoint gets the events that its filter is true of; the others say why not.
func TestFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	all := w.endpoint("acme", "")
	dear := w.endpoint("acme", `,"filter":"payload.amount > 100"`)
	paid := w.endpoint("acme", `,"event_types":["order.*"],"filter":"event.type == \"order.paid\" && event.group_key != null"`)
	type outcome struct{ dear, paid string }
	for _, c := range []struct {
		body string
		want outcome
	}{
		{`{"type":"order.paid","group_key":"g","payload":{"amount":100.5}}`, outcome{"", ""}},
		{`{"type":"order.open","group_key":"g","payload":{"amount":101}}`, outcome{"", "filter"}},
		{`{"type":"order.paid","payload":{"amount":100}}`, outcome{"filter", "filter"}},
		{`{"type":"other","payload":{"amount":1}}`, outcome{"filter", "event_type"}},
		{`{"type":"order.paid","group_key":"g","payload":{}}`, outcome{"filter_error", ""}},
		{`{"type":"order.paid","group_key":"g","payload":"text"}`, outcome{"filter_error", ""}},
		{`{"type":"order.paid","group_key":"g","payload":{"amount":500},"endpoint_ids":["` + paid + `"]}`, outcome{"endpoint_ids", ""}},
	} {
		sent := w.must(202, request{method: "POST", path: "/v1/tenants/acme/events", body: c.body})
		ev := w.must(200, request{method: "GET", path: "/v1/tenants/acme/events/" + sent.text("id")})
		reasons, details := map[string]string{}, map[string]string{}
		for _, s := range ev.list("skipped") {
			reasons[s.text("endpoint_id")], details[s.text("endpoint_id")] = s.text("reason"), s.text("detail")
		}
		for _, d := range ev.list("deliveries") {
			if reason := reasons[d.text("endpoint_id")]; reason != "" {
				t.Errorf("%s: delivered and skipped", reason)
			}
		}
		if got := (outcome{reasons[dear], reasons[paid]}); got != c.want || reasons[all] != "" && !strings.Contains(c.body, "endpoint_ids") {
			t.Errorf("%s: %+v, want %+v", c.body, got, c.want)
		}
		if (details[dear] != "") != (c.want.dear == "filter_error") || details[paid] != "" {
			t.Errorf("%s: %v", c.body, details)
		}
		if n := len(ev.list("deliveries")) + len(ev.list("skipped")); n != 3 {
			t.Errorf("%s: %d endpoints", c.body, n)
		}
	}
	raw := w.must(202, request{method: "POST", path: "/v1/tenants/acme/events/order.paid", body: "\x00\xff", contentType: "image/png"})
	skipped := w.must(200, request{method: "GET", path: "/v1/tenants/acme/events/" + raw.text("id")}).list("skipped")
	if len(skipped) != 2 || skipped[0].text("reason") != "filter_error" || skipped[1].text("reason") != "filter" {
		t.Errorf("of a payload that is no JSON: %v", skipped)
	}
}

// What a filter stumbles over is kept whatever it is.
func TestFilterErrorsCanBeKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	w.endpoint("acme", `,"filter":"payload[payload.k] == 1"`)
	for _, key := range []string{`\u0000`, `\ud800`, `\n`, strings.Repeat("x", 5000)} {
		sent := w.must(202, request{method: "POST", path: "/v1/tenants/acme/events", body: `{"type":"a","payload":{"k":"` + key + `"}}`})
		skipped := w.must(200, request{method: "GET", path: "/v1/tenants/acme/events/" + sent.text("id")}).list("skipped")
		if len(skipped) != 1 || skipped[0].text("reason") != "filter_error" || len(skipped[0].text("detail")) > 250 {
			t.Errorf("%.20s: %v", key, skipped)
		}
	}
}

// A filter is one of an endpoint's settings: changed by PATCH, with an ETag and an entry in the audit log.
func TestFilterIsASetting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	ep := "/v1/tenants/acme/endpoints/" + w.endpoint("acme", "")
	tag := w.do(request{method: "GET", path: ep}).header.Get("ETag")
	patch := func(filter string) request {
		return request{method: "PATCH", path: ep, body: `{"filter":` + filter + `}`, header: map[string]string{"If-Match": tag}}
	}
	if got := w.must(200, patch(`"payload.a == 1"`)); got.text("filter") != "payload.a == 1" {
		t.Errorf("%v", got)
	}
	w.refused(http.StatusPreconditionFailed, patch(`"true"`))
	entries := w.auditLog("", "&action=endpoint.updated")
	if len(entries) != 1 || entries[0].object("details").object("changes").object("filter").text("new") != "payload.a == 1" {
		t.Errorf("%v", entries)
	}
	tag = "*"
	for _, none := range []string{"null", `""`} {
		w.must(200, patch(`"true"`))
		if got := w.must(200, patch(none)); got["filter"] != nil {
			t.Errorf("%s: %v", none, got)
		}
	}
	for filter, words := range map[string]string{
		`"payload.amount >"`:          "line 1, column 17: ",
		`"true &&\n event.tpye == 1"`: "line 2, column ",
		`"1 + 1"`:                     "has to say true or false",
		`"[1,2].all(a, [1].all(b, [1].all(c, a+b+c > 1)))"`: "",
		`"` + strings.Repeat("a", 2001) + `"`:               "has more than 2000 characters",
	} {
		for _, r := range []request{
			patch(filter),
			{method: "POST", path: "/v1/tenants/acme/endpoints", body: `{"url":"https://a.example/","filter":` + filter + `}`},
			{method: "POST", path: ep + "/filter:test", body: `{"payload":1,"filter":` + filter + `}`},
		} {
			p := w.refused(422, r)
			if len(p.Errors) == 0 || p.Errors[0].Pointer != "/filter" || !strings.HasPrefix(p.Errors[0].Detail, words) {
				t.Errorf("%s %s: %+v", r.path, r.body, p)
			}
		}
	}
}

func TestTryAFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	plain := "/v1/tenants/acme/endpoints/" + w.endpoint("acme", "") + "/filter:test"
	own := "/v1/tenants/acme/endpoints/" + w.endpoint("acme", `,"filter":"payload.amount > 100"`) + "/filter:test"
	for _, c := range []struct {
		path, body string
		matches    bool
		fails      string
	}{
		{plain, `{"payload":null}`, true, ""},
		{plain, `{"payload":{"a":1},"filter":"payload.a == 1"}`, true, ""},
		{own, `{"payload":{"amount":101}}`, true, ""},
		{own, `{"payload":{"amount":99}}`, false, ""},
		{own, `{"payload":{"amount":99},"filter":null}`, false, ""},
		{own, `{"payload":{"amount":99},"filter":""}`, true, ""},
		{own, `{"payload":{}}`, false, "no such key: amount"},
		{own, `{"payload":1,"type":"a.b","filter":"event.type == 'a.b'"}`, true, ""},
		{own, `{"payload":1,"filter":"event.type == 'postrider.test'"}`, true, ""},
		{own, `{"payload":1,"uid":"u","group_key":"g","filter":"event.uid + event.group_key == 'ug'"}`, true, ""},
		{own, `{"payload":1,"created_at":"2026-01-02T03:04:05Z","filter":"event.created_at.getFullYear() == 2026"}`, true, ""},
		{own, `{"payload":1,"filter":"event.id.startsWith('evt_')"}`, true, ""},
	} {
		got := w.must(200, request{method: "POST", path: c.path, body: c.body})
		if got["matches"] != c.matches || got.text("error") != c.fails {
			t.Errorf("%s: %v", c.body, got)
		}
	}
	w.refused(422, request{method: "POST", path: own, body: `{}`})
	if n := len(w.must(200, request{method: "GET", path: "/v1/tenants/acme/events"}).list("data")); n > 0 {
		t.Errorf("%d events were made", n)
	}
}
