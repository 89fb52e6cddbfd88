package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// alert raises one about an endpoint and gives its id.
func (w *world) alert(e subscriptions.Endpoint, kind alert.Kind, detail string, dlv id.ID) id.ID {
	w.t.Helper()
	var b pgx.Batch
	alert.QueueRaise(&b, e.ID.Shard, []alert.Finding{{
		Endpoint: e.ID.N, Tenant: e.TenantID.N, Kind: kind, Count: 1, Detail: detail, Delivery: dlv.N, At: w.clock.Now(),
	}}, w.ids.Next, w.clock.Now())
	if err := w.db.SendBatch(w.t.Context(), &b).Close(); err != nil {
		w.t.Fatal(err)
	}
	found, err := alert.NewDesk(w.db, w.ids.Next, w.clock.Now).List(w.t.Context(), alert.Filter{Tenant: &e.TenantID}, 1, id.ID{})
	if err != nil || len(found) != 1 {
		w.t.Fatalf("%d alerts, %v", len(found), err)
	}
	return found[0].ID
}

func TestTheListOfAlerts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, e := w.tenant(hostile)
	globex, other := w.tenant("Globex")
	_, dlv := w.event(acme, `{}`)
	one := "/console/alerts/" + id.Alert.Format(w.alert(e, alert.EndpointUnauthorized, hostile, dlv))
	two := "/console/alerts/" + id.Alert.Format(w.alert(other, alert.EndpointDead, "it said 410 Gone", id.ID{}))
	b := w.as(auth.RoleSupport)
	got := b.get("/console/alerts")
	if !got.has(one) || !got.has(two) || !got.has("Credentials refused") || !got.has("Endpoint is dead") || got.has("<script>alert(1)") {
		t.Errorf("the list: %s", got.body)
	}
	if !got.has(`<span class="badge">2`) {
		t.Error("the navigation does not count them")
	}
	b.post(one + "/acknowledge")
	for query, want := range map[string]bool{
		"?state=acknowledged": true, "?state=open": false, "": false, "?state=resolved": false, "?state=all": true,
		"?state=all&tenant=" + id.Tenant.Format(acme.ID): true, "?state=all&tenant=" + id.Tenant.Format(globex.ID): false,
	} {
		if got := b.get("/console/alerts" + query); got.status != http.StatusOK || got.has(one) != want {
			t.Errorf("%s: %d, in the list %t", query, got.status, !want)
		}
	}
	for query, says := range map[string]string{"?state=nix": "there is no", "?tenant=nobody": "no such tenant", "?cursor=x": "is no id"} {
		if got := b.get("/console/alerts" + query); got.status != http.StatusUnprocessableEntity || !got.has(says) {
			t.Errorf("%s: %d without %q", query, got.status, says)
		}
	}
}

func TestTheListOfAlertsGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	for range 51 {
		e, _, err := w.subs.CreateEndpoint(t.Context(), acme, subscriptions.NewEndpoint{URL: "https://hooks.example/in"})
		if err != nil {
			t.Fatal(err)
		}
		w.alert(e, alert.DeliveryFailed, "", id.ID{})
	}
	b := w.as(auth.RoleViewer)
	first := b.get("/console/alerts?tenant=" + id.Tenant.Format(acme.ID))
	if n := strings.Count(first.body, "data-row"); n != 50 {
		t.Fatalf("the first page has %d rows", n)
	}
	if second := b.get(first.next()); strings.Count(second.body, "data-row") != 1 || !second.has("Newest") {
		t.Errorf("%s has %d rows", first.next(), strings.Count(second.body, "data-row"))
	}
}

func TestOneAlert(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, e := w.tenant("Acme")
	_, dlv := w.event(acme, `{}`)
	alr := w.alert(e, alert.EndpointUnauthorized, "the endpoint answered 401 "+hostile, dlv)
	path := "/console/alerts/" + id.Alert.Format(alr)
	viewer, supporter := w.as(auth.RoleViewer), w.as(auth.RoleSupport)
	got := viewer.get(path)
	if got.status != http.StatusOK || !got.has("knows the endpoint&#39;s signing secret") || !got.has("/console/deliveries/"+id.Delivery.Format(dlv)) ||
		got.has("<script>alert(1)") || got.has(path+"/acknowledge") {
		t.Errorf("the page: %d %s", got.status, got.body)
	}
	if list := viewer.get(got.link("Show in the list of deliveries")); list.status != http.StatusOK || !list.has(id.Delivery.Format(dlv)) {
		t.Errorf("the list of its deliveries: %d %s", list.status, list.path)
	}
	for _, act := range []string{"/acknowledge", "/resolve"} {
		if got := viewer.post(path + act); got.status != http.StatusForbidden {
			t.Errorf("a viewer: %s %d", act, got.status)
		}
	}
	if got := supporter.post(path + "/acknowledge"); got.path != path || !got.has("You look after it now.") || !got.has(`by <span class="isolated">support`) {
		t.Errorf("acknowledging ends at %s: %s", got.path, got.body)
	}
	if got := supporter.post(path + "/resolve"); !got.has("It is resolved.") || got.has(path+"/resolve") {
		t.Errorf("resolving: %s", got.body)
	}
	if got := supporter.post(path + "/acknowledge"); !got.has("resolved already") {
		t.Errorf("acknowledging what is resolved: %s", got.body)
	}
	w.audited(audit.AlertAcknowledged, id.Alert, alr, "support")
	w.audited(audit.AlertResolved, id.Alert, alr, "support")
	for _, nobody := range []string{"/console/alerts/alr_nonsense", "/console/alerts/" + id.Alert.Format(w.ids.In(alr.Shard))} {
		if got := viewer.get(nobody); got.status != http.StatusNotFound || !got.has("no such alert") {
			t.Errorf("%s: %d", nobody, got.status)
		}
		if got := supporter.post(nobody + "/resolve"); got.status != http.StatusNotFound {
			t.Errorf("resolving %s: %d", nobody, got.status)
		}
	}
}
