package console_test

import (
	"net/http"
	"testing"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/console"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/subscriptions"
)

func TestOneEventOverAllEndpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant(hostile)
	other, _, err := w.subs.CreateEndpoint(t.Context(), acme, subscriptions.NewEndpoint{
		URL: "https://hooks.example/refunds?token=s3cret", EventTypes: []string{"refund.*"},
	})
	if err != nil {
		t.Fatal(err)
	}
	evt, dlv := w.event(acme, `{"say":"<script>alert(1)</script>"}`)
	path := "/console/events/" + id.Event.Format(evt)
	b := w.as(auth.RoleSupport)
	got := b.get(path)
	if got.status != http.StatusOK || !got.has(id.Delivery.Format(dlv)) || !got.has(id.Endpoint.Format(other.ID)) ||
		!got.has("It does not subscribe to this event type.") || got.has("s3cret") || got.has("<script>alert") {
		t.Errorf("the page: %d %s", got.status, got.body)
	}
	if got := b.get(path + "/payload"); got.body != `{"say":"<script>alert(1)</script>"}` ||
		got.header.Get("Content-Type") != "application/octet-stream" || got.header.Get("Content-Disposition") == "" {
		t.Errorf("the payload as a file: %v %q", got.header, got.body)
	}
	if got := b.get("/console/events?tenant=" + id.Tenant.Format(acme.ID)); !got.has(id.Event.Format(evt)) {
		t.Errorf("the list: %s", got.body)
	}
	if got := b.get("/console/events?tenant=" + id.Tenant.Format(acme.ID) + "&type=other"); got.has(id.Event.Format(evt)) {
		t.Error("the list has another type")
	}
	if got := b.get("/console/events?tenant=nobody&status=odd"); got.status != http.StatusUnprocessableEntity || !got.has("no such tenant") {
		t.Errorf("a bad filter: %d", got.status)
	}
	_, lesser, err := w.keys.Create(t.Context(), auth.NewKey{Name: "no events", Scopes: []auth.Scope{auth.DeliveriesRead, auth.DeliveriesWrite, auth.EndpointsWrite}})
	if err != nil {
		t.Fatal(err)
	}
	c := w.visitor()
	c.post("/console/signin", "key", lesser)
	if page, got := c.get(path), c.post(path+"/cancel"); page.has(path+"/cancel") || !page.has(path+"/replay") || got.status != http.StatusForbidden || !got.has("events:write") {
		t.Errorf("a key without the scope cancels an event: %d %s", got.status, got.body)
	}
	if got := b.post(path + "/cancel"); got.path != path || !got.has("1 delivery cancelled.") {
		t.Errorf("cancelling: %s", got.body)
	}
	if got := w.as(auth.RoleViewer).post(path + "/replay"); got.status != http.StatusForbidden {
		t.Errorf("a viewer replays: %d", got.status)
	}
	if got := b.get("/console/events/" + id.Event.Format(w.ids.In(evt.Shard))); got.status != http.StatusNotFound {
		t.Errorf("no event: %d", got.status)
	}
}

// Each reason for which fan-out passes an endpoint by is said in words.
func TestEveryReasonToSkipHasWords(t *testing.T) {
	t.Parallel()
	for _, reason := range []subscriptions.SkipReason{
		subscriptions.SkipEventType, subscriptions.SkipDead, subscriptions.SkipFilter, subscriptions.SkipFilterError, intake.SkipNotNamed,
	} {
		if console.SkipWords[reason] == "" {
			t.Errorf("%s has none", reason)
		}
	}
}
