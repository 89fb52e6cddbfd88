package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

func TestTheAuditLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, e := w.tenant(hostile)
	globex, _ := w.tenant("Globex")
	key, _, err := w.keys.Create(t.Context(), auth.NewKey{Name: hostile, Scopes: auth.Scopes()})
	if err != nil {
		t.Fatal(err)
	}
	by := audit.With(t.Context(), audit.Actor{Kind: audit.ByKey, Key: key.ID, Name: hostile})
	newURL, description := "https://hooks.example/other?token=in-the-query", hostile
	if _, err := w.subs.UpdateEndpoint(by, acme, id.Endpoint.Format(e.ID), "", subscriptions.EndpointPatch{
		URL: subscriptions.Optional[string]{Given: true, Value: &newURL}, Description: subscriptions.Optional[string]{Given: true, Value: &description},
	}); err != nil {
		t.Fatal(err)
	}
	ep, ten := id.Endpoint.Format(e.ID), id.Tenant.Format(acme.ID)
	admin := w.as(auth.RoleAdmin)
	got := admin.get("/console/audit-log?action=endpoint.updated")
	for _, want := range []string{
		"endpoint.updated", "/console/endpoints/" + ep, "/console/audit-log?actor=" + id.Key.Format(key.ID),
		"https://hooks.example/in → https://hooks.example/other?…", "<dt>description:</dt> <dd>empty → &lt;script&gt;",
	} {
		if !got.has(want) {
			t.Errorf("%q is not in it: %s", want, got.body)
		}
	}
	if got.has("<script>alert(1)") || got.has("in-the-query") || strings.Count(got.body, "data-row") != 1 {
		t.Errorf("it has more than it may: %s", got.body)
	}
	if _, _, err := w.subs.PutEventType(by, "order.paid", subscriptions.EventTypeSettings{}); err != nil {
		t.Fatal(err)
	}
	if got := admin.get("/console/audit-log?action=event_type.created"); !got.has(`href="/console/event-types/order.paid"`) {
		t.Errorf("an event type's entry leads nowhere: %s", got.body)
	}
	for query, want := range map[string]bool{
		"": true, "actor=" + id.Key.Format(key.ID): true, "actor=" + url.QueryEscape(hostile): true, "actor=api_key": true, "actor=system": false,
		"object=" + ep: true, "object=" + ten: false, "tenant=" + ten: true, "tenant=" + id.Tenant.Format(globex.ID): false,
		"span=1h": true, "until=2020-01-01T00:00": false, "since=2020-01-01T00:00": true, "action=tenant.created": false,
	} {
		if got := admin.get("/console/audit-log?" + query); got.status != http.StatusOK || got.has("<th scope=\"row\"><code>endpoint.updated") != want {
			t.Errorf("%s: %d, in the list %t", query, got.status, !want)
		}
	}
	for query, says := range map[string]string{
		"object=x": "is not an id", "action=nix": "there is no", "tenant=nobody": "no such tenant", "since=today": "is no time", "cursor=x": "is no id",
		"span=soon": "is no span",
	} {
		if got := admin.get("/console/audit-log?" + query); got.status != http.StatusUnprocessableEntity || !got.has(says) {
			t.Errorf("%s: %d without %q", query, got.status, says)
		}
	}
	if got := w.as(auth.RoleSupport).get("/console/audit-log"); got.status != http.StatusForbidden || got.has("endpoint.updated") {
		t.Errorf("support sees it: %d", got.status)
	}
}

func TestTheAuditLogGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.as(auth.RoleAdmin)
	for range 51 {
		if _, err := w.subs.CreateTenant(t.Context(), subscriptions.NewTenant{Name: "Acme"}); err != nil {
			t.Fatal(err)
		}
	}
	first := admin.get("/console/audit-log?action=tenant.created")
	if second := admin.get(first.next()); strings.Count(first.body, "data-row") != 50 || strings.Count(second.body, "data-row") != 1 || !second.has("Newest") {
		t.Errorf("%s: %s", first.next(), second.body)
	}
}
