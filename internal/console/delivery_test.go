package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
)

// hostile is what somebody would put wherever they may write something.
const hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(2)>`

func TestTheListOfDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant(hostile)
	globex, _ := w.tenant("Globex")
	_, one := w.event(acme, `{"n":1}`)
	_, other := w.event(globex, `{"n":2}`)
	b := w.as(auth.RoleViewer)
	got := b.get("/console/deliveries")
	if !got.has(id.Delivery.Format(one)) || !got.has(id.Delivery.Format(other)) || got.has("<script>alert(1)") {
		t.Errorf("the list: %s", got.body)
	}
	for query, want := range map[string]bool{
		"?tenant=" + id.Tenant.Format(acme.ID): true, "?tenant=" + id.Tenant.Format(globex.ID): false,
		"?state=pending": true, "?state=failed": false, "?q=" + id.Delivery.Format(one): true, "?event_type=other": false,
		"?span=1h": true, "?until=2020-01-01T00:00": false,
	} {
		if got := b.get("/console/deliveries" + query); got.status != http.StatusOK || got.has(id.Delivery.Format(one)) != want {
			t.Errorf("%s: %d, in the list %t", query, got.status, !want)
		}
	}
	for query, says := range map[string]string{
		"?tenant=nobody": "no such tenant", "?state=nonsense": "there is no", "?endpoint=x": "is no id", "?since=yesterday": "is no time",
		"?cursor=x": "is no id", "?span=soon": "is no span",
	} {
		if got := b.get("/console/deliveries" + query); got.status != http.StatusUnprocessableEntity || !got.has(says) {
			t.Errorf("%s: %d without %q", query, got.status, says)
		}
	}
}

func TestTheListGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	for range 51 {
		w.event(acme, `{}`)
	}
	b := w.as(auth.RoleViewer)
	first := b.get("/console/deliveries?tenant=" + id.Tenant.Format(acme.ID))
	if n := strings.Count(first.body, "data-row"); n != 50 {
		t.Fatalf("the first page has %d rows", n)
	}
	_, link, _ := strings.Cut(first.body, `rel="next" href="`)
	link, _, _ = strings.Cut(link, `"`)
	second := b.get(strings.ReplaceAll(link, "&amp;", "&"))
	if n := strings.Count(second.body, "data-row"); n != 1 || !second.has("Newest") {
		t.Errorf("%s has %d rows", link, n)
	}
}

func TestOneDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	evt, dlv := w.event(acme, `{"say":"`+strings.ReplaceAll(hostile, `"`, `\"`)+`"}`)
	path := "/console/deliveries/" + id.Delivery.Format(dlv)
	viewer, supporter := w.as(auth.RoleViewer), w.as(auth.RoleSupport)
	got := viewer.get(path)
	if got.status != http.StatusOK || !got.has(id.Event.Format(evt)) || !got.has("order.paid") || got.has("<script>alert(1)") ||
		!got.has("retry 5 after 6 h") {
		t.Errorf("the page: %d %s", got.status, got.body)
	}
	if got := viewer.post(path + "/cancel"); got.status != http.StatusForbidden || !got.has("role support") {
		t.Errorf("a viewer cancels: %d", got.status)
	}
	if got := viewer.get(path + "?curl"); got.status != http.StatusForbidden {
		t.Errorf("a viewer sees a signed request: %d", got.status)
	}
	if got := supporter.get(path + "?curl"); !got.has("webhook-signature: v1,") {
		t.Errorf("the curl command: %s", got.body)
	}
	if got := supporter.post(path + "/cancel"); got.path != path || !got.has("It is cancelled.") || !got.has("cancelled_by_user") {
		t.Errorf("cancelling ends at %s: %s", got.path, got.body)
	}
	if got := supporter.post(path + "/cancel"); !got.has("notice-bad") {
		t.Errorf("cancelling once more: %s", got.body)
	}
	if got := supporter.post(path + "/retry"); !got.has("It is due at once") {
		t.Errorf("retrying: %s", got.body)
	}
	for _, nobody := range []string{"/console/deliveries/dlv_nonsense", "/console/deliveries/" + id.Delivery.Format(w.ids.In(dlv.Shard))} {
		if got := viewer.get(nobody); got.status != http.StatusNotFound || !got.has("no such delivery") {
			t.Errorf("%s: %d", nobody, got.status)
		}
	}
}
