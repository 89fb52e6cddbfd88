package api_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// payloads have broken other senders: they differ from what comes out of a JSON parser and back, or no column but bytea
// takes them. In base64, since no editor would keep them as they are.
var payloads = []struct{ name, base64 string }{
	{"blanks and key order", "eyAieiI6IDEsCiAgImEiOiB7InkiOlszLCAyLDFdICwgImIiOm51bGx9LAkibSI6IngiIH0="},
	{"HTML, U+2028 and U+2029", "eyJodG1sIjoiPGI+UiZEIFwibGFiXCI8L2I+IiwidSI6IuKAqOKAqSIsImFtcCI6ImEmYiJ9"},
	{"digits", "eyJpIjo5MDA3MTk5MjU0NzQwOTkzLCJtaW4iOi05MjIzMzcyMDM2ODU0Nzc1ODA4LCJmIjoxLjAsImUiOjFFKzIsInoiOi0wLCJwIjowLjEwMDAwMDAwMDAwMDAwMDAwNTU1MTExNTEyMzEyNTc4MjcsImJpZyI6MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwfQ=="},
	{"emoji, NFC beside NFD", "eyJ0ZXh0Ijoi8J+ZhCDigJQg4oCcbmHDr3Zl4oCdIOaXpeacrCIsIm5mZCI6ImXMgSIsIm5mYyI6IsOpIn0="},
	{"a name twice", "eyJpZCI6MSwiaWQiOjJ9"},
	{"an escaped NUL", "eyJzIjoiYVx1MDAwMGIifQ=="},
	{"a lone surrogate", "eyJzIjoiXHVkODAwIn0="},
	{"not UTF-8", "eyJzIjoi//4ifQ=="},
	{"empty object", "e30="},
	{"string", "Ingi"},
	{"array", "W10="},
	{"null", "bnVsbA=="},
	{"an object is no string", "eyJ0ZXN0IjoieWVzIn0="},
	{"a number beyond a double", base64.StdEncoding.EncodeToString([]byte(`{"n":1e999}`))},
	{"named like ourselves", base64.StdEncoding.EncodeToString([]byte(`{"payload":{"payload":"\u0000"},"events":[{"payload":1}]}`))},
	{"deep", base64.StdEncoding.EncodeToString([]byte(strings.Repeat("[", 5000) + strings.Repeat("]", 5000)))},
}

// only raw takes these: they are no JSON.
var bytesOnly = []struct{ name, base64 string }{
	{"nothing", ""},
	{"a raw NUL in a string", "eyJzIjoiYQBiIn0="},
	{"bytes", "AAEC//79gIE="},
	{"text", base64.StdEncoding.EncodeToString([]byte("Hello, World!\r\n"))},
}

// A payload is the same bytes after each way of enqueueing it.
func TestPayloadByteForByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	for _, p := range payloads {
		payload := decode(t, p.base64)
		w.keepsPayload("envelope, "+p.name, payload, "application/json", request{
			path: "/v1/tenants/acme/events", body: fmt.Sprintf("{\"type\": \"a.b\" ,\n\"payload\" : %s \n}", payload),
		})
		w.keepsPayload("raw, "+p.name, payload, "application/vnd.acme+json; charset=x", request{
			path: "/v1/tenants/acme/events/a.b", body: string(payload), contentType: "application/vnd.acme+json; charset=x",
		})
		w.keepsPayload("envelope with a content type, "+p.name, payload, "text/plain", request{
			path: "/v1/tenants/acme/events", body: fmt.Sprintf(`{"payload":%s,"type":"a.b","content_type":"text/plain"}`, payload),
		})
	}
	for _, p := range bytesOnly {
		payload := decode(t, p.base64)
		w.keepsPayload("raw, "+p.name, payload, "application/octet-stream", request{
			path: "/v1/tenants/acme/events/a.b", body: string(payload), contentType: "none",
		})
	}
}

func decode(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (w *world) keepsPayload(name string, payload []byte, contentType string, r request) {
	w.t.Helper()
	r.method = http.MethodPost
	res := w.do(r)
	if res.status != http.StatusAccepted {
		w.t.Errorf("%s: %d %s", name, res.status, res.body)
		return
	}
	w.hasPayload(name, res.header.Get("Location"), payload, contentType)
}

func (w *world) hasPayload(name, location string, payload []byte, contentType string) {
	w.t.Helper()
	got := w.do(request{method: "GET", path: location + "/payload"})
	if !bytes.Equal(got.body, payload) || got.header.Get("Content-Type") != contentType {
		w.t.Errorf("%s: %q as %s, not %q as %s", name, got.body, got.header.Get("Content-Type"), payload, contentType)
	}
	if policy := got.header.Get("Content-Security-Policy"); !strings.Contains(policy, "sandbox") ||
		got.header.Get("Content-Disposition") != "attachment" {
		w.t.Errorf("%s: a browser would show it: %v", name, got.header)
	}
}

func TestBatchByteForByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	events := make([]string, 0, len(payloads))
	for i, p := range payloads {
		events = append(events, fmt.Sprintf(` { "payload" :%s, "type":"a.b","uid":"u%d"}`, decode(t, p.base64), i))
	}
	out := w.must(http.StatusAccepted, request{
		method: "POST", path: "/v1/tenants/acme/events:batch", body: `{"events":[` + strings.Join(events, ",") + `]}`,
	})
	if got := len(out.list("data")); got != len(payloads) {
		t.Fatalf("%d receipts for %d events", got, len(payloads))
	}
	for i, p := range payloads {
		w.hasPayload("batch, "+p.name, fmt.Sprintf("/v1/tenants/acme/events/u%d", i), decode(t, p.base64), "application/json")
		if uid := out.list("data")[i].text("uid"); uid != fmt.Sprintf("u%d", i) {
			t.Errorf("receipt %d is of %q", i, uid)
		}
	}
}

// Whatever is wrong with one event, none is taken, and each fault is pointed to.
func TestBatchIsAllOrNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	batch := func(events string) request {
		return request{method: "POST", path: "/v1/tenants/acme/events:batch", body: `{"events":[` + events + `]}`}
	}
	good := `{"type":"a","payload":1}`
	for name, test := range map[string]struct{ events, pointer string }{
		"no type":      {good + `,{"payload":1}`, "/events/1/type"},
		"a bad type":   {good + `,{"type":"a b","payload":1}`, "/events/1/type"},
		"no payload":   {`{"type":"a"},` + good, "/events/0/payload"},
		"a batch of 1": {`{"type":"","payload":1}`, "/events/0/type"},
		"a late year":  {good + `,{"type":"a","payload":1,"deliver_at":"9999-01-01T00:00:00Z"}`, "/events/1/deliver_at"},
		"no time":      {good + `,{"type":"a","payload":1,"deliver_at":"soon"}`, "/events/1/deliver_at"},
		"an empty uid": {good + `,{"type":"a","payload":1,"uid":""}`, "/events/1/uid"},
		"unknown":      {good + `,{"type":"a","payload":1,"Type":"b"}`, "/events/1/Type"},
		"not an event": {good + `,[]`, "/events/1"},
		"none":         {"", "/events"},
		"too many":     {strings.Repeat(good+",", 1000) + good, "/events"},
	} {
		if p := w.refused(http.StatusUnprocessableEntity, batch(test.events)); !p.pointsTo(test.pointer) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if left := w.must(http.StatusOK, request{method: "GET", path: "/v1/tenants/acme/events"}).list("data"); len(left) != 0 {
		t.Errorf("something was taken: %v", left)
	}
	w.must(http.StatusAccepted, batch(strings.Repeat(good+",", 999)+good))
}

func TestTestEventByteForByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	ep := w.endpoint("acme", `,"event_types":["nothing.else"]`)
	for _, p := range payloads {
		payload := decode(t, p.base64)
		w.keepsPayload("test, "+p.name, payload, "application/json", request{
			path: "/v1/tenants/acme/endpoints/" + ep + "/test", body: fmt.Sprintf(`{"payload": %s}`, payload),
		})
	}
	out := w.must(http.StatusAccepted, request{method: "POST", path: "/v1/tenants/acme/endpoints/" + ep + "/test"})
	if out.text("type") != "postrider.test" || fmt.Sprint(out["deliveries"]) != "1" {
		t.Errorf("%v", out)
	}
	sent := w.do(request{method: "GET", path: "/v1/tenants/acme/events/" + out.text("id") + "/payload"})
	if !json.Valid(sent.body) || sent.body[0] != '{' {
		t.Errorf("by itself a test sends %s", sent.body)
	}
}
