package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

func TestTheListOfEndpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, e := w.tenant(hostile)
	globex, other := w.tenant("Globex")
	off := subscriptions.Disabled
	if _, err := w.subs.UpdateEndpoint(t.Context(), globex, id.Endpoint.Format(other.ID), "", subscriptions.EndpointPatch{Status: &off}); err != nil {
		t.Fatal(err)
	}
	secret := subscriptions.NewEndpoint{URL: "https://hooks.example/two?token=s3cret"}
	if _, _, err := w.subs.CreateEndpoint(t.Context(), acme, secret); err != nil {
		t.Fatal(err)
	}
	b := w.as(auth.RoleViewer)
	got := b.get("/console/endpoints")
	if !got.has(id.Endpoint.Format(e.ID)) || !got.has(id.Endpoint.Format(other.ID)) || got.has("<script>alert") || got.has("s3cret") {
		t.Errorf("the list: %s", got.body)
	}
	for query, want := range map[string]bool{"?health=disabled": true, "?health=dead": false, "?health=failing": false, "?health=paused": false, "?q=hooks.example": true, "?q=elsewhere": false} {
		if got := b.get("/console/endpoints" + query); got.status != http.StatusOK || got.has(id.Endpoint.Format(other.ID)) != want {
			t.Errorf("%s: %d, in the list %t", query, got.status, !want)
		}
	}
	for query, want := range map[string]bool{
		"hooks.example/two": true, "https%3A%2F%2Fhooks.example%2Ftwo%3Ftoken%3Danother": true, "token": false, "token%3Ds3c": false, "%3Ftoken": false,
	} {
		if got := b.get("/console/endpoints?q=" + query); got.has("hooks.example/two?token=") != want {
			t.Errorf("a query is found by its parts, or its URL is not, by %s: %s", query, got.body)
		}
	}
	if got := b.get("/console/endpoints?health=odd"); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a bad filter: %d", got.status)
	}
}

func TestOneEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, e := w.tenant("Acme")
	w.event(acme, `{}`)
	path := "/console/endpoints/" + id.Endpoint.Format(e.ID)
	viewer, b := w.as(auth.RoleViewer), w.as(auth.RoleSupport)
	if got := viewer.get(path + "?span=7d"); got.status != http.StatusOK || !got.has("Latest deliveries") || !got.has("<dt>Format</dt><dd>raw</dd>") {
		t.Errorf("the page: %d %s", got.status, got.body)
	}
	if got := viewer.get(path + "?span=soon"); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a bad span: %d", got.status)
	}
	for _, act := range []string{"pause", "enable", "rotate", "test", "replay"} {
		if got := viewer.post(path + "/" + act); got.status != http.StatusForbidden {
			t.Errorf("a viewer's %s: %d", act, got.status)
		}
	}
	if got := b.post(path + "/pause"); got.path != path || !got.has("switched off") || !got.has("Enable") {
		t.Errorf("pausing: %s", got.body)
	}
	if got := b.post(path + "/enable"); !got.has("The endpoint is enabled") || !got.has("Pause") {
		t.Errorf("enabling: %s", got.body)
	}
	if got := b.post(path+"/rotate", "overlap", "1h"); !got.has("both sign for 1 h") || got.has("whsec_") {
		t.Errorf("rotating: %s", got.body)
	}
	if got := b.post(path+"/rotate", "overlap", "soon"); !got.has("notice-bad") {
		t.Errorf("a bad overlap: %s", got.body)
	}
	if got := b.post(path+"/test", "type", "order.paid", "payload", `{"test":true}`); !strings.HasPrefix(got.path, "/console/events/evt_") || !got.has("test event is on its way") {
		t.Errorf("a test ends at %s", got.path)
	}
	if got := b.post(path+"/test", "type", "not a type", "payload", "<x> is kept"); got.status != http.StatusUnprocessableEntity || !got.has("field-fault") || !got.has("&lt;x&gt; is kept") || !got.has(`href="`+path+`?span=7d"`) {
		t.Errorf("a bad test: %s", got.body)
	}
	if got := viewer.get("/console/endpoints/" + id.Endpoint.Format(w.ids.In(e.ID.Shard))); got.status != http.StatusNotFound {
		t.Errorf("no endpoint: %d", got.status)
	}
}

func TestReplayOfAWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	w.event(acme, `{}`)
	later, _, err := w.subs.CreateEndpoint(t.Context(), acme, subscriptions.NewEndpoint{URL: "https://hooks.example/later"})
	if err != nil {
		t.Fatal(err)
	}
	b := w.as(auth.RoleSupport)
	path := "/console/endpoints/" + id.Endpoint.Format(later.ID) + "/replay"
	if got := b.get(path); got.status != http.StatusOK || got.has("will be sent") {
		t.Errorf("before anything is asked for: %d %s", got.status, got.body)
	}
	got := b.get(path + "?since=2026-01-01T00:00&state=missing")
	if !got.has("1 event") || !got.has("will be sent") {
		t.Fatalf("the preview: %s", got.body)
	}
	if got := b.get(path + "?since=2099-01-01T00:00"); got.status != http.StatusUnprocessableEntity || !got.has("field-fault") {
		t.Errorf("a window to come: %d", got.status)
	}
	if got := b.post(path, "since", "2026-01-01T00:00", "state", "missing"); !strings.HasPrefix(got.path, "/console/jobs/job_") {
		t.Errorf("replaying ends at %s: %s", got.path, got.body)
	}
}

func TestTheOverview(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	w.event(acme, `{}`)
	b := w.as(auth.RoleViewer)
	for _, span := range []string{"", "?span=1h", "?span=24h", "?span=7d"} {
		if got := b.get("/console/" + span); got.status != http.StatusOK || !got.has("data-chart") || !got.has("Endpoints by health") {
			t.Errorf("%s: %d", span, got.status)
		}
	}
	if got := b.get("/console/?span=1y"); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a bad span: %d", got.status)
	}
}
