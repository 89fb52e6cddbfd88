package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
)

// attempt writes an attempt of the delivery as the dispatcher records it.
func (w *world) attempt(dlv, ep string, n int, body []byte, truncated bool) {
	w.t.Helper()
	d, e := mustParse(w.t, id.Delivery, dlv), mustParse(w.t, id.Endpoint, ep)
	_, err := w.db.Exec(w.t.Context(), `
INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, status, outcome,
    connect_us, total_us, address, signature, error, response_headers, response_body, response_truncated)
VALUES (@shard, @id, @delivery, @endpoint, 1, 1, @attempt, 500, 'retryable', 1500, 2000250, '10.0.0.7:443',
    'v1,xyz', 'the receiver answered 500', @headers, @body, @truncated)`, pgx.StrictNamedArgs{
		"shard": d.Shard, "id": w.ids.Next(), "delivery": d.N, "endpoint": e.N, "attempt": n, "body": body, "truncated": truncated,
		"headers": []byte("Content-Type: text/html\r\nSet-Cookie: a\r\nSet-Cookie: b\xff\r\n"),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	path := "/v1/deliveries/" + s.ids["dlv"] + "/attempts"
	bodies := []struct {
		body           []byte
		truncated      bool
		text, encoding string
	}{
		{nil, false, "", "utf-8"},
		{[]byte("<b>é\x00</b>"), false, "<b>é\x00</b>", "utf-8"},
		{[]byte("caf\xc3"), true, "caf", "utf-8"},
		{[]byte("caf\xc3"), false, "Y2Fmww==", "base64"},
		{[]byte{0xff, 0xfe, 0}, true, "//4A", "base64"},
	}
	for i, b := range bodies {
		s.attempt(s.ids["dlv"], s.ids["ep"], i+1, b.body, b.truncated)
	}
	shown := s.must(200, request{method: "GET", path: path}).list("data")
	if len(shown) != len(bodies) {
		t.Fatalf("%d attempts", len(shown))
	}
	for i, b := range bodies {
		a := shown[len(shown)-1-i]
		if a["response_body"] != b.text || a["response_body_encoding"] != b.encoding || a["response_body_truncated"] != b.truncated {
			t.Errorf("%q: %v", b.body, a)
		}
	}
	a := shown[0]
	for name, want := range map[string]string{
		"delivery_id": s.ids["dlv"], "attempt": "5", "method": "POST", "url": "https://example.com/hook", "status": "500",
		"outcome": "retryable", "error": "the receiver answered 500", "address": "10.0.0.7:443",
		"timings":          "map[connect_ms:1.5 dns_ms:<nil> first_byte_ms:<nil> tls_ms:<nil> total_ms:2000.25]",
		"response_headers": "map[Content-Type:text/html Set-Cookie:a, b\uFFFD]",
	} {
		if fmt.Sprint(a[name]) != want {
			t.Errorf("%s: %v, not %v", name, a[name], want)
		}
	}
	if !isStamp(a.text("started_at")) || !strings.Contains(fmt.Sprint(a["request_headers"]), "webhook-signature:v1,xyz") {
		t.Errorf("%v", a)
	}
	// A tenant does not learn how the network around us is laid out.
	own := s.must(200, request{method: "GET", path: path, key: s.keys["own deliveries:read"]}).list("data")
	if len(own) == 0 || own[0].text("address") != "private" {
		t.Errorf("a tenant sees %v", own)
	}
	page := s.must(200, request{method: "GET", path: path + "?limit=2"})
	next := s.must(200, request{method: "GET", path: path + "?limit=250&cursor=" + page.text("next_cursor")})
	if len(page.list("data")) != 2 || len(next.list("data")) != 3 {
		t.Errorf("%d and %d attempts", len(page.list("data")), len(next.list("data")))
	}
}

func TestDeliveryFilters(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	other := s.tenant("third")
	s.endpoint(other, `,"uid":"theirs"`)
	s.event(other, "invoice.paid")
	for query, want := range map[string]int{
		"": 2, "tenant=first": 1, "tenant=" + other: 1, "endpoint=" + s.ids["ep"]: 1, "tenant=third&endpoint=theirs": 1,
		"event=" + s.ids["evt"]: 1, "event_type=order.paid": 1, "event_type=order": 0, "state=pending": 2,
		"state=pending,held": 2, "state=failed": 0, "outcome=timeout": 0, "q=invoice": 1, "q=" + s.ids["dlv"]: 1,
		"since=2026-01-01T00:00:00Z": 2, "until=2026-01-01T00:00:00Z": 0, "until=9999-12-31T23:59:59Z": 2,
		"tenant=first&endpoint=" + s.ids["ep"] + "&state=pending&event_type=order.paid&q=order": 1,
	} {
		found := s.must(200, request{method: "GET", path: "/v1/deliveries?" + query}).list("data")
		if len(found) != want {
			t.Errorf("%q: %d deliveries, not %d", query, len(found), want)
		}
	}
	for query, pointer := range map[string]string{
		"state=done": "?state", "state=failed,done": "?state", "outcome=bad": "?outcome", "since=yesterday": "?since",
		"until=2026": "?until", "endpoint=nix": "?endpoint", "endpoint=dlv_x&tenant=first": "?endpoint", "event=nix": "?event",
		"q=%ff": "?q",
	} {
		if p := s.refused(422, request{method: "GET", path: "/v1/deliveries?" + query}); !p.pointsTo(pointer) {
			t.Errorf("%s: %+v", query, p)
		}
	}
	for _, query := range []string{"tenant=nix", "tenant=third&endpoint=nix"} {
		s.refused(http.StatusNotFound, request{method: "GET", path: "/v1/deliveries?" + query})
	}
	// A key that is bound to a tenant sees that one's, whatever it asks for.
	own := s.keys["own deliveries:read"]
	for query, want := range map[string]int{"": 1, "event_type=invoice.paid": 0, "tenant=first": 1, "q=invoice": 0} {
		found := s.must(200, request{method: "GET", path: "/v1/deliveries?" + query, key: own}).list("data")
		if len(found) != want {
			t.Errorf("bound to a tenant, %q: %d deliveries, not %d", query, len(found), want)
		}
	}
	s.refused(http.StatusNotFound, request{method: "GET", path: "/v1/deliveries?tenant=third", key: own})
	s.refused(http.StatusNotFound, request{method: "GET", path: "/v1/alerts?tenant=third", key: own})
	if found := s.must(200, request{method: "GET", path: "/v1/alerts", key: s.keys["other's deliveries:read"]}).list("data"); len(found) > 0 {
		t.Errorf("another tenant's alerts: %v", found)
	}
}
