package portal_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

func headers(pairs ...string) (out []signer.Header) {
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, signer.Header{Name: pairs[i], Value: pairs[i+1]})
	}
	return out
}

// newest is the tenant's endpoint that was made last.
func (w *world) newest(t subscriptions.Tenant) subscriptions.Endpoint {
	w.t.Helper()
	found, err := w.subs.Endpoints(w.t.Context(), t, 1, id.ID{})
	if err != nil || len(found) != 1 {
		w.t.Fatalf("%d endpoints, %v", len(found), err)
	}
	return found[0]
}

func (w *world) secret(t subscriptions.Tenant, e subscriptions.Endpoint) string {
	w.t.Helper()
	secrets, err := w.subs.Secret(w.t.Context(), t, id.Endpoint.Format(e.ID))
	if err != nil {
		w.t.Fatal(err)
	}
	return secrets[0].Secret.Reveal()
}

func TestAddingAnEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	if _, _, err := w.subs.PutEventType(t.Context(), "order.paid", subscriptions.EventTypeSettings{
		Description: hostile, Schema: []byte(`{"title":"` + strings.ReplaceAll(hostile, `"`, `'`) + `"}`), Example: []byte(`{"total":120}`),
	}); err != nil {
		t.Fatal(err)
	}
	b := w.owner(acme)
	got := b.get("/portal/endpoints/new")
	if !got.has(`name="type" value="order.paid"`) || !got.has("&#34;total&#34;: 120") || got.has("<script>alert(1)") {
		t.Errorf("the form: %s", got.body)
	}
	got = b.post("/portal/endpoints", "url", "https://hooks.example/new", "description", "the shop", "type", "order.paid",
		"event_types", "invoice.*, refund.made\n", "headers", "X-One: 1\r\nX-Two:2", "signature", "stripe", "signature_header", "X-Acme-Signature",
		"rate_limit", "10", "rate_per", "1s", "timeout", "5s", "format", "cloudevents", "filter", "payload.total > 100")
	e := w.newest(acme)
	if got.status != http.StatusCreated || !got.shows(w.secret(acme, e)) || !got.has("x-acme-signature") || !got.has("The endpoint is added") {
		t.Errorf("adding: %d %s", got.status, got.body)
	}
	if strings.Join(e.EventTypes, " ") != "order.paid invoice.* refund.made" || len(e.Headers) != 2 || e.Headers[1].Value != "2" ||
		e.Scheme != signer.Stripe || e.RateLimit.Limit != 10 || e.Format != subscriptions.FormatCloudEvents || e.Timeout.Seconds() != 5 || *e.Filter != "payload.total > 100" ||
		e.Description != "the shop" {
		t.Errorf("what was added: %+v", e)
	}
}

func TestAddingWhatCannotBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, first := w.tenant("Acme")
	b := w.owner(acme)
	for says, pairs := range map[string][]string{
		"has to be an https URL":         {"url", "http://hooks.example/" + hostile},
		"is required":                    {"url", " "},
		"order.*.x: ":                    {"event_types", "order.*.x"},
		"Host: ":                         {"headers", "Host: x"},
		"line 2 has no colon":            {"headers", "X-A: 1\nnonsense"},
		"is no whole number":             {"rate_limit", "many", "rate_per", "1s"},
		"is not between 1 and 10000":     {"rate_limit", "0", "rate_per", "1s"},
		"want a duration":                {"timeout", "soon"},
		"has to say true or false":       {"filter", "1 + 1"},
		"has more than 1000 characters":  {"description", strings.Repeat("x", 1001)},
		"no such signature scheme":       {"signature", "nonsense"},
		"is neither raw nor cloudevents": {"format", "nonsense"},
	} {
		all := append([]string{"description", hostile, "rate_per", "1s", "signature", "standard"}, pairs...)
		if pairs[0] != "url" {
			all = append(all, "url", "https://hooks.example/")
		}
		form := url.Values{}
		for i := 0; i < len(all); i += 2 {
			form.Set(all[i], all[i+1])
		}
		flat := []string{}
		for name := range form {
			flat = append(flat, name, form.Get(name))
		}
		got := b.post("/portal/endpoints", flat...)
		if got.status != http.StatusUnprocessableEntity || !got.has("field-fault") || got.has("<script>alert(1)") {
			t.Errorf("%v: %d", pairs, got.status)
		}
		if !got.shows(says) {
			t.Errorf("%v does not say %q", pairs, says)
		}
	}
	if e := w.newest(acme); e.ID != first.ID {
		t.Errorf("something was added: %+v", e)
	}
}

func TestAURLIsJudgedBeforeAnythingIsSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	b := w.owner(acme)
	if got := b.post("/portal/endpoints/check", "url", "http://hooks.example/"); got.status != http.StatusOK || !got.has(`id="url-says"`) || !got.has("has to be an https URL") {
		t.Errorf("a bad one: %d %s", got.status, got.body)
	}
	if got := b.post("/portal/endpoints/check", "url", "https://hooks.example/"); !got.has("This can be used") {
		t.Errorf("a good one: %s", got.body)
	}
}

func TestTryingAFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, own := w.tenant("Acme")
	if _, _, err := w.subs.PutEventType(t.Context(), "order.paid", subscriptions.EventTypeSettings{Example: []byte(`{"total":120}`)}); err != nil {
		t.Fatal(err)
	}
	b := w.owner(acme)
	for _, path := range []string{"/portal/endpoints/try", "/portal/endpoints/" + id.Endpoint.Format(own.ID) + "/settings/try"} {
		for says, pairs := range map[string][]string{
			"This would be sent.":          {"filter", "payload.total > 100", "sample", `{"total":101}`},
			"This would not be sent.":      {"filter", "payload.total > 100", "sample", `{"total":1}`},
			"Not sent: ":                   {"filter", "payload.total > 100", "sample", `{}`},
			"has to say true or false":     {"filter", "1", "sample", `{}`}, // what cannot be a filter is refused, as when it is saved
			`&#34;total&#34;:120`:          {"filter", "", "type", "order.paid"},
			"{&#34;total&#34;:120}":        {"filter", "", "sample_type", "order.paid", "sample", `{"own":1}`, "example", "1"},
			"&lt;script&gt;alert(1)":       {"filter", "true", "sample", hostile},
			`value="order.paid" selected>`: {"filter", "event.type == 'order.paid'", "sample_type", "order.paid", "sample", "{}"},
		} {
			got := b.post(path, append(pairs, "url", "https://hooks.example/kept")...)
			want := http.StatusOK
			if pairs[1] == "1" {
				want = http.StatusUnprocessableEntity
			}
			if got.status != want || !got.has(says) || !got.has("hooks.example/kept") || got.has("<script>alert(1)") {
				t.Errorf("%s %v: %d without %q", path, pairs, got.status, says)
			}
		}
	}
}

func TestTwoWhoChangeAnEndpointAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	e := w.endpoint(acme, subscriptions.NewEndpoint{URL: "https://hooks.example/a?x=1", Headers: headers("X-Own", "kept"), EventTypes: []string{"a", "b.*"}, Format: subscriptions.FormatCloudEvents})
	path := "/portal/endpoints/" + id.Endpoint.Format(e.ID)
	b := w.owner(acme)
	form := b.get(path + "/settings")
	if !form.has("https://hooks.example/a?x=1") || !form.has("X-Own: kept") || !form.has("a\nb.*") || !form.has(`value="cloudevents" selected`) {
		t.Fatalf("the form: %s", form.body)
	}
	_, version, _ := strings.Cut(form.body, `name="version" value="`)
	version, _, _ = strings.Cut(version, `"`)
	version = strings.ReplaceAll(version, "&#34;", `"`)
	save := func(description, version string) page {
		return b.post(path+"/settings", "version", version, "url", "https://hooks.example/a?x=1", "description", description, "headers", "X-Own: kept",
			"event_types", "a b.*", "signature", "standard", "rate_per", "1s")
	}
	if got := save("first", version); got.path != path || !got.has("It is saved.") || !got.has("first") {
		t.Fatalf("saving ends at %s with %d: %s", got.path, got.status, got.body)
	}
	for _, old := range []string{version, "", "nonsense"} {
		got := save(hostile, old)
		if got.status != http.StatusPreconditionFailed || !got.has("Somebody has changed this endpoint") || !got.has("&lt;script&gt;alert(1)") {
			t.Errorf("with the version %q: %d %s", old, got.status, got.body)
		}
	}
	if e := w.newest(acme); e.Description != "first" || e.URL != "https://hooks.example/a?x=1" || len(e.Headers) != 1 || len(e.EventTypes) != 2 ||
		e.Format != subscriptions.FormatCloudEvents { // the form that was posted says nothing of it
		t.Errorf("it is now %+v", e)
	}
}

func TestAnotherSchemeBringsAnotherSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, e := w.tenant("Acme")
	path := "/portal/endpoints/" + id.Endpoint.Format(e.ID)
	got := w.owner(acme).post(path+"/settings", "version", e.ETag(), "url", e.URL, "signature", "standard-ed25519", "rate_per", "1s")
	now := w.newest(acme)
	if now.PublicKey == "" || !got.shows(now.PublicKey) || got.shows("whsk_") || !got.has("Saved, with a new secret") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestPausingEnablingAndDeleting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, e := w.tenant("Acme")
	_, dlv := w.event(acme, `{}`)
	path := "/portal/endpoints/" + id.Endpoint.Format(e.ID)
	b := w.owner(acme)
	if got := b.post(path+"/status", "status", "disabled"); got.path != path || !got.has("It is paused.") || !got.has("Enable") || !got.has("held") {
		t.Errorf("pausing: %s", got.body)
	}
	if got := b.post(path+"/status", "status", "enabled"); !got.has("It is enabled") || !got.has("Pause") {
		t.Errorf("enabling: %s", got.body)
	}
	if got := b.post(path+"/status", "status", "dead"); !got.has("notice-bad") {
		t.Errorf("a status that is not to be chosen: %s", got.body)
	}
	if got := b.post(path + "/delete"); got.path != "/portal/" || !got.has("The endpoint is deleted.") {
		t.Errorf("deleting: %s", got.path)
	}
	if got := b.get(path); got.status != http.StatusNotFound {
		t.Errorf("a deleted one: %d", got.status)
	}
	if got := b.get("/portal/deliveries/" + id.Delivery.Format(dlv)); got.status != http.StatusOK || !got.has("endpoint_deleted") || got.has("Send again</button>") {
		t.Errorf("what was waiting for it: %d %s", got.status, got.body)
	}
}

func TestTheSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, e := w.tenant("Acme")
	first := w.secret(acme, e)
	path := "/portal/endpoints/" + id.Endpoint.Format(e.ID)
	b := w.owner(acme)
	reveals := func() int {
		return w.count(`SELECT count(*) FROM audit_log WHERE action = 'endpoint.secret_revealed' AND actor = 'portal'`)
	}
	if got := b.get(path + "/signing"); got.shows(first) || !got.has("Reveal the secret") || !got.has("func Verify(") || reveals() != 0 {
		t.Errorf("looking at the page: %s", got.body)
	}
	if got := b.post(path + "/secret"); !got.shows(first) || reveals() != 1 {
		t.Errorf("revealing: %d entries, %s", reveals(), got.body)
	}
	if got := b.post(path+"/rotate", "overlap", "24h"); !got.shows(w.secret(acme, e)) || !got.shows(first) || w.secret(acme, e) == first || !got.has("within 1 day") {
		t.Errorf("rotating: %s", got.body)
	}
	const mine = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	if got := b.post(path+"/rotate", "overlap", "0s", "secret", mine); !got.shows(mine) || got.shows(first) || !got.has("signs no more") {
		t.Errorf("rotating at once: %s", got.body)
	}
	for _, pairs := range [][]string{{"overlap", "soon"}, {"overlap", "8d"}, {"overlap", "0s", "secret", "canary-" + hostile}} {
		if got := b.post(path+"/rotate", pairs...); got.status != http.StatusUnprocessableEntity || !got.has("field-fault") || got.shows("canary-") || got.shows(mine) {
			t.Errorf("%v: %d %s", pairs, got.status, got.body)
		}
	}
	hex := w.endpoint(acme, subscriptions.NewEndpoint{URL: "https://hooks.example/", Scheme: signer.TimestampedHex})
	path = "/portal/endpoints/" + id.Endpoint.Format(hex.ID)
	if got := b.get(path + "/signing"); got.has(`value="24h"`) || !got.has("room for one signature") {
		t.Errorf("a scheme without an overlap: %s", got.body)
	}
}

func TestSendingATest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	e := w.endpoint(acme, subscriptions.NewEndpoint{URL: "https://hooks.example/b", EventTypes: []string{"never"}})
	if _, _, err := w.subs.PutEventType(t.Context(), "order.paid", subscriptions.EventTypeSettings{Example: []byte(`{"total":120}`)}); err != nil {
		t.Fatal(err)
	}
	path := "/portal/endpoints/" + id.Endpoint.Format(e.ID) + "/test"
	b := w.owner(acme)
	if got := b.get(path); !got.has("postrider.test") || !got.has("This is a test event") {
		t.Errorf("the form: %s", got.body)
	}
	if got := b.get(path + "?type=order.paid"); !got.has(`{&#34;total&#34;:120}`) {
		t.Errorf("with an example: %s", got.body)
	}
	got := b.post(path, "type", "order.paid", "payload", "{\r\n \"total\": 1 }")
	if !strings.HasPrefix(got.path, "/portal/deliveries/dlv_") || !got.has("on its way") || !got.has("order.paid") {
		t.Errorf("sending ends at %s: %s", got.path, got.body)
	}
	if n := w.count(`SELECT count(*) FROM events WHERE payload = $1`, []byte("{\n \"total\": 1 }")); n != 1 {
		t.Errorf("%d events have the payload", n)
	}
	if got := b.post(path, "type", hostile, "payload", hostile); got.status != http.StatusUnprocessableEntity || !got.has("field-fault") || got.has("<script>alert(1)") {
		t.Errorf("no type: %d %s", got.status, got.body)
	}
}
