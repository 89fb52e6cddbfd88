package console_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

func TestGoingToAnID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	uid := "acme"
	acme, err := w.subs.CreateTenant(t.Context(), subscriptions.NewTenant{Name: "Acme", UID: &uid})
	if err != nil {
		t.Fatal(err)
	}
	_, e := w.tenant("Globex")
	alr := w.alert(e, alert.DeliveryFailed, "", id.ID{})
	thing := id.ID{N: 1}
	b := w.as(auth.RoleViewer)
	for text, path := range map[string]string{
		" " + id.Alert.Format(alr) + " ": "/console/alerts/" + id.Alert.Format(alr),
		id.Tenant.Format(acme.ID):        "/console/tenants/" + id.Tenant.Format(acme.ID),
		"acme":                           "/console/tenants/" + id.Tenant.Format(acme.ID),
		id.Delivery.Format(thing):        "/console/deliveries/" + id.Delivery.Format(thing),
		id.Event.Format(thing):           "/console/events/" + id.Event.Format(thing),
		id.Endpoint.Format(thing):        "/console/endpoints/" + id.Endpoint.Format(thing),
		id.Job.Format(thing):             "/console/jobs/" + id.Job.Format(thing),
		id.Key.Format(thing):             "/console/api-keys/" + id.Key.Format(thing),
		"order 4711&state=failed":        "/console/deliveries?q=order+4711%26state%3Dfailed",
		"//evil.example":                 "/console/deliveries?q=%2F%2Fevil.example",
		"":                               "/console/deliveries",
	} {
		if got := b.get("/console/go?id=" + url.QueryEscape(text)); got.path != path {
			t.Errorf("%q leads to %s, not %s", text, got.path, path)
		}
	}
	if got := b.get("/console/go?id=" + id.Session.Format(thing)); got.status != http.StatusNotFound || !got.has("there is no page for ses_") {
		t.Errorf("a session: %d", got.status)
	}
	if got := w.visitor().get("/console/go?id=acme"); got.path != "/console/signin?to=%2Fconsole%2Fgo%3Fid%3Dacme" {
		t.Errorf("a stranger is led to %s", got.path)
	}
}
