package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func TestEnqueueAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant("acme")
	w.endpoint("acme", "")
	res := w.do(request{
		method: "POST", path: "/v1/tenants/acme/events",
		body: `{"type":"order.paid","payload":{"a":1},"uid":"o-1","group_key":"g","metadata":{"n":9007199254740993}}`,
	})
	got := res.tree(t)
	want := tree{"type": "order.paid", "uid": "o-1", "status": "queued", "deliveries": 1.0}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %v, not %v", name, got[name], value)
		}
	}
	location := "/v1/tenants/" + tenant + "/events/" + got.text("id")
	if res.status != 202 || res.header.Get("Location") != location || res.header.Get("Retry-After") != "1" ||
		res.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("%d %v", res.status, res.header)
	}
	if !isStamp(got.text("created_at")) {
		t.Errorf("created_at %q", got.text("created_at"))
	}
	read := w.must(http.StatusOK, request{method: "GET", path: "/v1/tenants/acme/events/o-1"})
	if read.text("id") != got.text("id") || read.text("group_key") != "g" || read.text("status") != "queued" ||
		fmt.Sprint(read["size"]) != "7" || read.text("created_at") != got.text("created_at") {
		t.Errorf("%v", read)
	}
	raw := w.do(request{method: "GET", path: "/v1/tenants/acme/events/o-1"})
	if !strings.Contains(string(raw.body), `"metadata":{"n":9007199254740993}`) {
		t.Errorf("metadata lost its digits: %s", raw.body)
	}
}

// isStamp reports whether a time is RFC 3339 in UTC with exactly milliseconds.
func isStamp(s string) bool {
	return len(s) == len("2026-11-30T09:00:00.000Z") && s[10] == 'T' && s[19] == '.' && s[23] == 'Z'
}

func TestEnqueueScheduled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	w.endpoint("acme", "")
	at := w.clock.Now().AddDate(0, 0, 1).Format("2006-01-02T15:04:05")
	for _, r := range []request{
		{path: "/v1/tenants/acme/events", body: `{"type":"a","payload":1,"deliver_at":"` + at + `Z"}`},
		{path: "/v1/tenants/acme/events/a?deliver_at=" + at + ".000Z&group_key=g&uid=u", body: "x", contentType: "text/plain"},
	} {
		r.method = http.MethodPost
		if got := w.must(http.StatusAccepted, r); got.text("status") != "scheduled" || got.text("deliver_at") != at+".000Z" {
			t.Errorf("%v", got)
		}
	}
	for query, pointer := range map[string]string{
		"deliver_at=soon": "?deliver_at", "deliver_at=9999-01-01T00:00:00Z": "?deliver_at", "uid=evt_x": "?uid", "uid=a%20b": "?uid",
		"group_key=%00": "?group_key",
	} {
		r := request{method: "POST", path: "/v1/tenants/acme/events/a?" + query, body: "x", contentType: "text/plain"}
		if p := w.refused(http.StatusUnprocessableEntity, r); !p.pointsTo(pointer) {
			t.Errorf("%s: %+v", query, p)
		}
	}
	bad := request{method: "POST", path: "/v1/tenants/acme/events/a%20b", body: "x", contentType: "text/plain"}
	if p := w.refused(http.StatusUnprocessableEntity, bad); !p.pointsTo("/type") {
		t.Errorf("%+v", p)
	}
	bad = request{method: "POST", path: "/v1/tenants/acme/events/a", body: "x", contentType: "nonsense"}
	w.refused(http.StatusUnprocessableEntity, bad)
}

// What is there and empty would pass for not there, and with it a promise.
func TestEnqueueGivenEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	const raw = "/v1/tenants/acme/events/a"
	for _, query := range []string{"uid=", "uid", "group_key=", "deliver_at="} {
		name, _, _ := strings.Cut(query, "=")
		r := request{method: "POST", path: raw + "?" + query, body: "x", contentType: "text/plain"}
		if p := w.refused(http.StatusUnprocessableEntity, r); !p.pointsTo("?"+name) || len(p.Errors) != 1 {
			t.Errorf("%s: %+v", query, p)
		}
	}
	const event = `{"type":"a","payload":1}`
	for path, body := range map[string]string{
		raw: event, "/v1/tenants/acme/events": event, "/v1/tenants/acme/events:batch": `{"events":[` + event + `]}`,
	} {
		r := request{method: "POST", path: path, body: body}
		for _, key := range []string{"", "  "} {
			r.header = map[string]string{"Idempotency-Key": key}
			if p := w.refused(http.StatusUnprocessableEntity, r); !strings.Contains(p.Detail, "Idempotency-Key") {
				t.Errorf("%s, %q: %+v", path, key, p)
			}
		}
		r.header = nil
		w.must(http.StatusAccepted, r)
	}
	if made := w.must(http.StatusOK, request{method: "GET", path: "/v1/tenants/acme/events?status="}).list("data"); len(made) != 3 {
		t.Errorf("%d events", len(made))
	}
}

// Many posts with one key make one event and get one answer.
func TestEnqueueTogether(t *testing.T) {
	t.Parallel()
	const posts = 50
	w := newWorld(t)
	w.tenant("acme")
	answers := make([]response, posts)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			answers[i] = w.do(request{
				method: "POST", path: "/v1/tenants/acme/events", body: `{"type":"a","payload":{"n":1}}`,
				header: map[string]string{"Idempotency-Key": "once"},
			})
		})
	}
	all.Wait()
	first := 0
	for _, a := range answers {
		if a.status != 202 || string(a.body) != string(answers[0].body) ||
			a.header.Get("Location") != answers[0].header.Get("Location") {
			t.Errorf("%d %s", a.status, a.body)
		}
		if a.header.Get("Idempotent-Replayed") == "" {
			first++
		}
	}
	if first != 1 {
		t.Errorf("%d answers say that they are the first", first)
	}
	if made := w.must(http.StatusOK, request{method: "GET", path: "/v1/tenants/acme/events"}).list("data"); len(made) != 1 {
		t.Errorf("%d events", len(made))
	}
	w.refused(http.StatusUnprocessableEntity, request{
		method: "POST", path: "/v1/tenants/acme/events", body: `{"type":"a","payload":{"n":2}}`,
		header: map[string]string{"Idempotency-Key": "once"},
	})
	w.refused(http.StatusUnprocessableEntity, request{
		method: "POST", path: "/v1/tenants/acme/events", body: `{"type":"a","payload":1}`,
		header: map[string]string{"Idempotency-Key": strings.Repeat("k", 300)},
	})
}

// The event's own uid makes repeating safe as well, with other content it is a 422.
func TestEnqueueUID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	post := func(payload string) request {
		return request{method: "POST", path: "/v1/tenants/acme/events", body: `{"type":"a","uid":"u-1","payload":` + payload + `}`}
	}
	first, again := w.do(post("1")), w.do(post("1"))
	if string(first.body) != string(again.body) || again.header.Get("Idempotent-Replayed") != "true" || again.status != 202 {
		t.Errorf("%s\n%d %s %v", first.body, again.status, again.body, again.header)
	}
	w.refused(http.StatusUnprocessableEntity, post("2"))
}

func TestEventShowsWhoWasSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	wants := w.endpoint("acme", `,"event_types":["order.*"],"uid":"wants"`)
	other := w.endpoint("acme", `,"event_types":["invoice.paid"]`)
	evt := w.event("acme", "order.paid.late")
	got := w.must(http.StatusOK, request{method: "GET", path: "/v1/tenants/acme/events/" + evt})
	deliveries, skipped := got.list("deliveries"), got.list("skipped")
	if len(deliveries) != 1 || deliveries[0].text("endpoint_id") != wants || deliveries[0].text("state") != "pending" {
		t.Errorf("deliveries: %v", deliveries)
	}
	if len(skipped) != 1 || skipped[0].text("endpoint_id") != other || skipped[0].text("reason") != "event_type" {
		t.Errorf("skipped: %v", skipped)
	}
	cancelled := w.must(http.StatusOK, request{method: "POST", path: "/v1/tenants/acme/events/" + evt + "/cancel"})
	if cancelled.text("status") != "cancelled" || cancelled.list("deliveries")[0].text("state") != "cancelled" {
		t.Errorf("%v", cancelled)
	}
	w.must(http.StatusOK, request{method: "POST", path: "/v1/tenants/acme/events/" + evt + "/cancel"})
	alone := w.event("acme", "nobody.wants.it")
	w.refused(http.StatusConflict, request{method: "POST", path: "/v1/tenants/acme/events/" + alone + "/cancel"})
	for query, want := range map[string]int{
		"": 2, "status=cancelled": 1, "status=succeeded": 1, "status=failed": 0, "type=order.paid.late": 1,
		"since=2100-01-01T00:00:00Z": 0, "until=2100-01-01T00:00:00Z": 2, "until=2020-01-01T00:00:00%2B02:00": 0,
	} {
		list := w.must(http.StatusOK, request{method: "GET", path: "/v1/tenants/acme/events?" + query}).list("data")
		if len(list) != want {
			t.Errorf("%q: %d events, not %d", query, len(list), want)
		}
	}
	if p := w.refused(422, request{method: "GET", path: "/v1/tenants/acme/events?status=done"}); !p.pointsTo("?status") {
		t.Errorf("%+v", p)
	}
}
