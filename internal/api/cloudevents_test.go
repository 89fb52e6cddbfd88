package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const (
	structured = "application/cloudevents+json; charset=utf-8"
	batched    = "application/cloudevents-batch+json"
)

// inBinary is a request in binary mode with headers over a good one's; "" takes one away.
func inBinary(path, body string, over map[string]string) request {
	r := request{method: "POST", path: path, body: body, header: map[string]string{
		"ce-specversion": "1.0", "ce-id": "A-1", "ce-source": "/orders", "ce-type": "order.paid",
	}}
	for name, value := range over {
		if r.header[name] = value; value == "" {
			delete(r.header, name)
		}
	}
	return r
}

func inStructured(path, body string) request {
	return request{method: "POST", path: path, contentType: structured, body: body}
}

// kept is what stays of a CloudEvent's attributes with its event.
func (w *world) kept(location string) (event, attributes tree) {
	w.t.Helper()
	event = w.must(http.StatusOK, request{method: "GET", path: location})
	all, _ := event["metadata"].(map[string]any)
	of, _ := all["cloudevents"].(map[string]any)
	return event, of
}

func TestCloudEventInBinaryMode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant("acme")
	w.endpoint("acme", "")
	for n, path := range []string{"/v1/tenants/acme/events", "/v1/tenants/acme/events/order.paid"} {
		id := fmt.Sprintf("A:%d", n)
		r := inBinary(path+"?group_key=g", "\x00\xff", map[string]string{
			"ce-id": id, "ce-subject": "caf%C3%A9%20%25", "ce-time": "2026-11-30T09:00:00.123456Z", "Ce-DataSchema": "https://x.example/s",
			"ce-quoted": `"say \"hi\" %e2%82%AC"`, "ce-traceparent": "00-1",
		})
		r.contentType = "application/vnd.acme"
		res := w.do(r)
		got := res.tree(t)
		if res.status != http.StatusAccepted || got.text("uid") != id || got.text("type") != "order.paid" || got.text("status") != "queued" ||
			res.header.Get("Location") != "/v1/tenants/"+tenant+"/events/"+got.text("id") || res.header.Get("Retry-After") != "1" {
			t.Fatalf("%d %v %v", res.status, got, res.header)
		}
		w.hasPayload(path, res.header.Get("Location"), []byte("\x00\xff"), "application/vnd.acme")
		event, attributes := w.kept(res.header.Get("Location"))
		want := tree{
			"source": "/orders", "subject": "café %", "time": "2026-11-30T09:00:00.123456Z", "dataschema": "https://x.example/s",
			"quoted": `say "hi" €`, "traceparent": "00-1",
		}
		if event.text("group_key") != "g" || fmt.Sprint(attributes) != fmt.Sprint(want) {
			t.Errorf("%v", event)
		}
		if again := w.do(r); again.status != http.StatusAccepted || again.header.Get("Idempotent-Replayed") != "true" || string(again.body) != string(res.body) {
			t.Errorf("again: %d %s", again.status, again.body)
		}
		r.header["ce-subject"] = "another"
		if p := w.refused(http.StatusUnprocessableEntity, r); !p.pointsTo("ce-id") {
			t.Errorf("other content: %+v", p)
		}
	}
}

func TestCloudEventInStructuredMode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	at := 0
	send := func(path, more string) response {
		at++
		return w.do(inStructured(path, fmt.Sprintf(`{ "specversion":"1.0", "id":"s-%d","source":"urn:x:1" ,"type":"order.paid"%s}`, at, more)))
	}
	for _, p := range payloads {
		payload := decode(t, p.base64)
		res := send("/v1/tenants/acme/events", fmt.Sprintf(`, "data" : %s , "n":-5,"yes":true,"subject":null`, payload))
		if res.status != http.StatusAccepted {
			t.Errorf("%s: %d %s", p.name, res.status, res.body)
			continue
		}
		w.hasPayload(p.name, res.header.Get("Location"), payload, "application/json")
		if _, kept := w.kept(res.header.Get("Location")); fmt.Sprint(kept) != fmt.Sprint(tree{"n": -5.0, "source": "urn:x:1", "yes": true}) {
			t.Errorf("%s: %v", p.name, kept)
		}
	}
	for _, c := range []struct{ more, payload, contentType string }{
		{`,"datacontenttype":"text/plain","data":"a\u0000é\n"`, "a\x00é\n", "text/plain"},
		{`,"datacontenttype":"application/vnd.x+json","data":"{}"`, `"{}"`, "application/vnd.x+json"},
		{`,"datacontenttype":"image/png","data_base64":"AP8="`, "\x00\xff", "image/png"},
		{`,"data_base64":"e30="`, "{}", "application/json"},
		{`,"data_base64":null`, "", "application/json"},
		{"", "", "application/json"},
	} {
		for _, path := range []string{"/v1/tenants/acme/events", "/v1/tenants/acme/events/order.paid?deliver_at=2020-01-01T00:00:00Z"} {
			res := send(path, c.more)
			if res.status != http.StatusAccepted {
				t.Errorf("%s: %d %s", c.more, res.status, res.body)
				continue
			}
			w.hasPayload(c.more, res.header.Get("Location"), []byte(c.payload), c.contentType)
		}
	}
	large := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", maxPayload))) // longer than a body that is the payload may be
	if res := send("/v1/tenants/acme/events/order.paid", `,"datacontenttype":"a/b","data_base64":"`+large+`"`); res.status != http.StatusAccepted {
		t.Errorf("%d %s", res.status, res.body)
	}
	if res := send("/v1/tenants/acme/events/order.paid", `,"datacontenttype":"a/b","data":"`+strings.Repeat("x", maxPayload+1)+`"`); res.status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", res.status, res.body)
	}
}

// What is wrong with a CloudEvent is said where it stands, and nothing is taken of it.
func TestCloudEventRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	const one, raw = "/v1/tenants/acme/events", "/v1/tenants/acme/events/order.paid"
	for _, c := range []struct{ header, value, pointer string }{
		{"ce-specversion", "0.3", "ce-specversion"},
		{"ce-id", "", "ce-id"},
		{"ce-source", "", "ce-source"},
		{"ce-type", "", "ce-type"},
		{"ce-type", "order.refunded", "ce-type"},
		{"ce-id", "a/b", "ce-id"},
		{"ce-id", "evt_1", "ce-id"},
		{"ce-id", "%4", "ce-id"},
		{"ce-source", "a b", "ce-source"},
		{"ce-source", "%E4", "ce-source"},
		{"ce-time", "soon", "ce-time"},
		{"ce-dataschema", "/s", "ce-dataschema"},
		{"ce-subject", "%00", "ce-subject"},
		{"ce-datacontenttype", "text/plain", "ce-datacontenttype"},
		{"ce-data", "x", "ce-data"},
		{"ce-an-other", "x", "ce-an-other"},
		{"Content-Type", "nonsense", "Content-Type"},
		{"ce-long", strings.Repeat("x", 17<<10), ""},
	} {
		if p := w.refused(http.StatusUnprocessableEntity, inBinary(raw, "x", map[string]string{c.header: c.value})); !p.pointsTo(c.pointer) {
			t.Errorf("%s %.20q: %+v", c.header, c.value, p)
		}
	}
	if p := w.refused(422, inBinary(raw, "x", map[string]string{"ce-id": "a/b"})); !strings.Contains(p.Detail, "is the event's uid as well") {
		t.Errorf("%+v", p)
	}
	good := map[string]string{"specversion": `"1.0"`, "id": `"1"`, "source": `"s"`, "type": `"order.paid"`}
	with := func(name, value string) string {
		members := []string{}
		for n, v := range good {
			if n != name {
				members = append(members, fmt.Sprintf("%q:%s", n, v))
			}
		}
		if value != "" {
			members = append(members, fmt.Sprintf("%q:%s", name, value))
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	for _, c := range []struct{ name, value, pointer string }{
		{"specversion", "", "/specversion"},
		{"specversion", `1.0`, "/specversion"},
		{"specversion", `"1.0.2"`, "/specversion"},
		{"id", "", "/id"},
		{"id", `""`, "/id"},
		{"id", "1", "/id"},
		{"source", "", "/source"},
		{"source", "null", "/source"},
		{"source", `"ä"`, "/source"},
		{"type", "", "/type"},
		{"type", `"a b"`, "/type"},
		{"type", `"order.refunded"`, "/type"},
		{"time", "1", "/time"},
		{"subject", `""`, "/subject"},
		{"Upper", "1", "/Upper"},
		{"a/b", "1", "/a~1b"},
		{"n", "1.5", "/n"},
		{"n", "2147483648", "/n"},
		{"o", "{}", "/o"},
		{"s", `"\ufdd0"`, "/s"},
		{"data_base64", `"e30"`, "/data_base64"},
		{"data_base64", `"e3\n0="`, "/data_base64"},
		{"data_base64", `1`, "/data_base64"},
		{"datacontenttype", `"nonsense"`, "/datacontenttype"},
		{"datacontenttype", `""`, "/datacontenttype"},
		{"datacontenttype", `"text/plain","data":1`, "/data"},
		{"data", `1,"data_base64":"e30="`, "/data_base64"},
	} {
		if p := w.refused(http.StatusUnprocessableEntity, inStructured(raw, with(c.name, c.value))); !p.pointsTo(c.pointer) {
			t.Errorf("%s %s: %+v", c.name, c.value, p)
		}
	}
	whole := with("", "")
	for query, pointer := range map[string]string{
		"uid=2": "?uid", "deliver_at=soon": "?deliver_at", "deliver_at=": "?deliver_at", "deliver_at=9999-01-01T00:00:00Z": "?deliver_at",
		"group_key=%01": "?group_key", "other=1": "?other",
	} {
		for _, path := range []string{one, raw} {
			if p := w.refused(http.StatusUnprocessableEntity, inStructured(path+"?"+query, whole)); !p.pointsTo(pointer) {
				t.Errorf("%s: %+v", query, p)
			}
		}
	}
	for status, bodies := range map[int][]string{
		http.StatusBadRequest:          {"", "{", `{"id":"1","id":"2"}`, whole + whole, "{\"id\":\"\xff\"}"},
		http.StatusUnprocessableEntity: {"[]", "1", "null", "{}"},
	} {
		for _, body := range bodies {
			w.refused(status, inStructured(one, body))
		}
	}
	for contentType, path := range map[string]string{
		batched: one, "application/cloudevents+avro": raw, structured: "/v1/tenants/acme/events:batch", "application/cloudevents": one,
	} {
		w.refused(http.StatusUnsupportedMediaType, request{method: "POST", path: path, contentType: contentType, body: whole})
	}
	w.refused(http.StatusUnsupportedMediaType, inBinary("/v1/tenants/acme/events:batch", "[]", nil))
	w.refused(http.StatusRequestEntityTooLarge, inBinary(raw, strings.Repeat("x", maxPayload+1), nil))
	long := inBinary(raw, strings.Repeat("x", maxPayload+1), nil)
	long.chunked = true
	w.refused(http.StatusRequestEntityTooLarge, long)
	if made := w.must(http.StatusOK, request{method: "GET", path: one}).list("data"); len(made) != 0 {
		t.Errorf("taken: %v", made)
	}
}

func TestBatchOfCloudEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	event := func(id, more string) string {
		return `{"specversion":"1.0","id":"` + id + `","source":"s","type":"a.b"` + more + `}`
	}
	post := func(body string) request {
		return request{method: "POST", path: "/v1/tenants/acme/events:batch", contentType: batched, body: body}
	}
	for pointer, body := range map[string]string{
		"/1/type": "[" + event("1", "") + `,{"specversion":"1.0","id":"2","source":"s","type":"a b"}]`,
		"/0/id":   "[" + event("a b", "") + "]", "/0/x": "[" + event("1", `,"x":[]`) + "]", "/0": "[1]", "": "[]",
		"/1/id": "[" + event("1", "") + "," + event("1", `,"x":1`) + "]",
	} {
		if p := w.refused(http.StatusUnprocessableEntity, post(body)); !p.pointsTo(pointer) {
			t.Errorf("%s: %+v", body, p)
		}
	}
	if p := w.refused(http.StatusUnprocessableEntity, post(event("1", ""))); !strings.Contains(p.Detail, "array") {
		t.Errorf("%+v", p)
	}
	w.refused(http.StatusBadRequest, post("["))
	r := post("[ " + event("1", `,"data" : {"a": 1}`) + "," + event("2", `,"x":"y"`) + "]")
	r.path += "?uid=1"
	if p := w.refused(http.StatusUnprocessableEntity, r); !p.pointsTo("?uid") {
		t.Errorf("%+v", p)
	}
	r.path = "/v1/tenants/acme/events:batch"
	if made := w.must(http.StatusAccepted, r).list("data"); len(made) != 2 || made[0].text("uid") != "1" || made[1].text("uid") != "2" {
		t.Errorf("%v", made)
	}
	w.hasPayload("the first", "/v1/tenants/acme/events/1", []byte(`{"a": 1}`), "application/json")
	if _, kept := w.kept("/v1/tenants/acme/events/2"); kept.text("x") != "y" {
		t.Errorf("%v", kept)
	}
}

// An envelope may give attributes as well; they have to be some.
func TestEnvelopeWithAttributes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	r := request{method: "POST", path: "/v1/tenants/acme/events"}
	for pointer, attributes := range map[string]string{
		"/metadata/cloudevents": "1", "/metadata/cloudevents/time": `{"time":"x"}`, "/metadata/cloudevents/id": `{"id":"x"}`,
		"/metadata/cloudevents/A~1b": `{"A/b":"x"}`,
	} {
		r.body = `{"type":"a","payload":1,"metadata":{"cloudevents":` + attributes + `}}`
		if p := w.refused(http.StatusUnprocessableEntity, r); !p.pointsTo(pointer) {
			t.Errorf("%s: %+v", attributes, p)
		}
	}
	r.body = `{"type":"a","payload":1,"metadata":{"cloudevents":{"source":"/x","subject":"y","n":7}}}`
	w.must(http.StatusAccepted, r)
}
