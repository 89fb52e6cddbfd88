package portal_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// attempt writes an attempt of the delivery as the dispatcher records it, to a receiver that wants to do harm.
func (w *world) attempt(dlv, ep id.ID) {
	w.t.Helper()
	_, err := w.db.Exec(w.t.Context(), `
INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, status, outcome,
    connect_us, first_byte_us, total_us, address, signature, error, error_detail, response_headers, response_body, response_truncated)
VALUES (@shard, @id, @delivery, @endpoint, 1, 1, 1, 500, 'retryable', 1500, 1900, 2000250, '10.0.0.7:443',
    'v1,xyz', @hostile::text, 'dial tcp 10.0.0.7:443: canary-detail', @headers, convert_to(@hostile::text, 'UTF8'), false)`, pgx.StrictNamedArgs{
		"shard": dlv.Shard, "id": w.ids.Next(), "delivery": dlv.N, "endpoint": ep.N, "hostile": hostile,
		"headers": []byte("X-Evil: " + hostile + "\r\n"),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestTheListOfDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, e := w.tenant("Acme")
	_, dlv := w.event(acme, `{"n":1}`)
	b := w.reader(acme)
	for query, want := range map[string]bool{
		"": true, "?state=pending": true, "?state=failed": false, "?q=" + id.Delivery.Format(dlv): true, "?event_type=other": false,
		"?event_type=order.paid": true, "?endpoint=" + id.Endpoint.Format(e.ID): true, "?span=1h": true, "?until=2020-01-01T00:00": false,
	} {
		got := b.get("/portal/deliveries" + query)
		if got.status != http.StatusOK || strings.Contains(got.body, "data-row") != want || got.has("canary") {
			t.Errorf("%s: %d, in the list %t", query, got.status, !want)
		}
	}
	for query, says := range map[string]string{
		"?state=nonsense": "there is no", "?endpoint=ep_x": "there is no such endpoint", "?since=yesterday": "is no time",
		"?cursor=x": "is not where this list goes on", "?span=soon": "is no span", "?q=%00": "search text",
	} {
		if got := b.get("/portal/deliveries" + query); got.status != http.StatusUnprocessableEntity || !got.has(says) {
			t.Errorf("%s: %d without %q", query, got.status, says)
		}
	}
}

// An attempt is shown with all that came back as text, and with nothing of the network around Postrider.
func TestOneDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant(hostile)
	e := w.endpoint(acme, subscriptions.NewEndpoint{
		URL: "https://x.example/?token=canary", Headers: headers("X-Own", "canary-value"), EventTypes: []string{"order.paid"}, Description: hostile,
	})
	w.subsOnly(acme, e)
	evt, dlv := w.event(acme, `{"say":"`+strings.ReplaceAll(hostile, `"`, `\"`)+`"}`)
	w.attempt(dlv, e.ID)
	path := "/portal/deliveries/" + id.Delivery.Format(dlv)
	b := w.owner(acme)
	got := b.get(path)
	if got.status != http.StatusOK || !got.has(id.Event.Format(evt)) || !got.has("retry 5 after 6 h") || !got.has("a class") ||
		!got.has("&lt;script&gt;alert(1)") || !got.has("X-Evil") || !got.has("<svg class=\"waterfall\"") {
		t.Errorf("the page: %d %s", got.status, got.body)
	}
	for _, never := range []string{"<script>alert(1)", "<img src=x", "10.0.0.7", "canary"} {
		if got.has(never) {
			t.Errorf("the page has %s", never)
		}
	}
	if got := b.post(path + "/resend"); got.path != path || !got.has("It is sent again at once") {
		t.Errorf("sending again: %s", got.body)
	}
	if n := w.count(`SELECT count(*) FROM audit_log WHERE action = 'delivery.retried' AND actor = 'portal'`); n != 1 {
		t.Errorf("the audit log has %d entries of it", n)
	}
}

// subsOnly deletes the tenant's other endpoints.
func (w *world) subsOnly(t subscriptions.Tenant, e subscriptions.Endpoint) {
	w.t.Helper()
	all, err := w.subs.Endpoints(w.t.Context(), t, 100, id.ID{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, other := range all {
		if other.ID != e.ID {
			if _, err := w.subs.DeleteEndpoint(w.t.Context(), t, id.Endpoint.Format(other.ID)); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// A large catalogue makes no large pages: what is too much is a page of its own.
func TestALargeCatalogue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	example := []byte(`{"say":"` + strings.Repeat("x", 60<<10) + `"}`)
	for _, name := range []string{"a", "b", "c", "d"} {
		if _, _, err := w.subs.PutEventType(t.Context(), name, subscriptions.EventTypeSettings{Example: example}); err != nil {
			t.Fatal(err)
		}
	}
	b := w.owner(acme)
	for _, path := range []string{"/portal/event-types", "/portal/endpoints/new"} {
		got := b.get(path)
		if n := strings.Count(got.body, "Schema and example</a>"); n != 2 || len(got.body) > 200<<10 {
			t.Errorf("%s has %d bytes, and of %d types a link", path, len(got.body), n)
		}
	}
	if got := b.get("/portal/event-types/d"); got.status != http.StatusOK || len(got.body) < 60<<10 {
		t.Errorf("one alone: %d with %d bytes", got.status, len(got.body))
	}
	if got := b.get("/portal/event-types/nope"); got.status != http.StatusNotFound {
		t.Errorf("none: %d", got.status)
	}
}

func TestTheCatalogue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	b := w.reader(acme)
	if got := b.get("/portal/event-types"); !got.has("No types are described") {
		t.Errorf("an empty one: %s", got.body)
	}
	for name, s := range map[string]subscriptions.EventTypeSettings{
		"order.paid": {Description: hostile, Schema: []byte(`{"type":"object"}`), Example: []byte(`{"say":"<script>alert(1)</script>"}`)},
		"old.type":   {Archived: true},
	} {
		if _, _, err := w.subs.PutEventType(t.Context(), name, s); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.get("/portal/event-types"); !got.has("order.paid") || got.has("old.type") || got.has("<script>alert(1)") || !got.has("Schema") {
		t.Errorf("the catalogue: %s", got.body)
	}
}
