package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

func TestTheListOfTenants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var made []subscriptions.Tenant
	for _, name := range append([]string{hostile}, strings.Split(strings.Repeat("Acme ", 50), " ")[:50]...) {
		tenant, err := w.subs.CreateTenant(t.Context(), subscriptions.NewTenant{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, tenant)
	}
	b := w.as(auth.RoleViewer)
	first := b.get("/console/tenants")
	if n := strings.Count(first.body, "data-row"); n != 50 || first.has(id.Tenant.Format(made[0].ID)) || first.has("/tenants/new") {
		t.Fatalf("the first page has %d rows: %s", n, first.body)
	}
	second := b.get(first.next())
	if !second.has(id.Tenant.Format(made[0].ID)) || strings.Count(second.body, "data-row") != 1 || second.has("<script>alert(1)") {
		t.Errorf("the second page: %s", second.body)
	}
	ten := id.Tenant.Format(made[0].ID)
	for text, want := range map[string]bool{"<SCRIPT>": true, "script alert": false, "acme": false} {
		if got := b.get("/console/tenants?q=" + url.QueryEscape(text)); got.status != http.StatusOK || got.has(ten) != want || got.has("<script>alert(1)") {
			t.Errorf("%q: %d, in the list %t", text, got.status, !want)
		}
	}
	if got := b.get("/console/tenants?q=" + ten); got.path != "/console/tenants/"+ten {
		t.Errorf("an id leads to %s", got.path)
	}
	if got := b.get("/console/tenants?q=%00"); got.status != http.StatusUnprocessableEntity || !got.has("notice-bad") {
		t.Errorf("a bad text: %d", got.status)
	}
	if got := b.get("/console/tenants?cursor=x"); got.status != http.StatusUnprocessableEntity || !got.has("is no id") {
		t.Errorf("a bad cursor: %d", got.status)
	}
}

func TestMakingAndChangingATenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.as(auth.RoleAdmin)
	got := admin.post("/console/tenants", "name", " ", "uid", "a b", "contact_email", "nobody", "metadata", "[1]")
	if got.status != http.StatusUnprocessableEntity || !got.has("is no JSON object") || !got.has(`value="a b"`) {
		t.Errorf("bad metadata: %d %s", got.status, got.body)
	}
	got = admin.post("/console/tenants", "name", " ", "uid", "a b", "contact_email", hostile)
	if got.status != http.StatusUnprocessableEntity || strings.Count(got.body, `class="field-fault"`) != 3 || got.has("<script>alert(1)") {
		t.Errorf("bad fields: %d %s", got.status, got.body)
	}
	got = admin.post("/console/tenants", "name", hostile, "uid", "acme", "contact_email", "ops@acme.example", "metadata", `{"n": 9007199254740993, "t": "</textarea>"}`)
	path := got.path
	tenant, err := w.subs.Tenant(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	if path != "/console/tenants/"+id.Tenant.Format(tenant.ID) || !got.has("The tenant is made.") || got.has("<script>alert(1)") ||
		!got.has("9007199254740993") || !got.has("ops@acme.example") {
		t.Errorf("making it ends at %s: %s", path, got.body)
	}
	if got := admin.get(path + "/edit"); !got.has(`value="acme"`) || !got.has("9007199254740993") || strings.Count(got.body, "</textarea>") != 1 {
		t.Errorf("the form: %s", got.body)
	}
	if got := admin.post("/console/tenants", "name", "Other", "uid", "acme"); got.status != http.StatusUnprocessableEntity || !got.has("notice-bad") {
		t.Errorf("a uid that another one has: %d %s", got.status, got.body)
	}
	version := admin.get(path + "/edit").version()
	if got := admin.post(path, "name", "", "version", version); got.status != http.StatusUnprocessableEntity || !got.has("is required") {
		t.Errorf("changing it to nothing: %d", got.status)
	}
	if got := admin.post(path, "name", "Acme", "version", version); got.path != path || !got.has("The changes are saved.") || got.has("ops@acme.example") {
		t.Errorf("changing it ends at %s: %s", got.path, got.body)
	}
	got = admin.post(path, "name", "Of another, who has not seen that", "version", version)
	if got.status != http.StatusPreconditionFailed || !got.has("Of another") || !got.has("nothing was saved") || got.version() == version {
		t.Errorf("changing what has been changed meanwhile: %d %s", got.status, got.body)
	}
	w.audited(audit.TenantCreated, id.Tenant, tenant.ID, "bootstrap")
	w.audited(audit.TenantUpdated, id.Tenant, tenant.ID, "bootstrap")
	supporter := w.as(auth.RoleSupport)
	for _, page := range []string{"/console/tenants/new", path + "/edit"} {
		if got := supporter.get(page); got.status != http.StatusForbidden {
			t.Errorf("support, %s: %d", page, got.status)
		}
	}
	for _, page := range []string{"/console/tenants", path, path + "/delete"} {
		if got := supporter.post(page, "name", "x"); got.status != http.StatusForbidden {
			t.Errorf("support posts %s: %d", page, got.status)
		}
	}
	for _, nobody := range []string{"nobody", id.Tenant.Format(w.ids.NewTenant()), "ten_x"} {
		for _, page := range []string{"/console/tenants/" + nobody, "/console/tenants/" + nobody + "/edit"} {
			if got := admin.get(page); got.status != http.StatusNotFound || !got.has("no such tenant") {
				t.Errorf("%s: %d", page, got.status)
			}
		}
		for _, act := range []string{"", "/delete", "/portal"} {
			if got := admin.post("/console/tenants/"+nobody+act, "name", "x"); got.status != http.StatusNotFound {
				t.Errorf("%s%s: %d", nobody, act, got.status)
			}
		}
	}
}

func TestOneTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, e := w.tenant("Acme")
	secretive, _, err := w.subs.CreateEndpoint(t.Context(), acme, subscriptions.NewEndpoint{
		URL: "https://hooks.example/two?token=in-the-query", EventTypes: []string{"order.paid"},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, dlv := w.event(acme, `{}`)
	key, text, err := w.keys.Create(t.Context(), auth.NewKey{Name: hostile, Scopes: []auth.Scope{auth.EventsWrite}, Tenant: &acme.ID})
	if err != nil {
		t.Fatal(err)
	}
	path := "/console/tenants/" + id.Tenant.Format(acme.ID)
	got := w.as(auth.RoleViewer).get(path)
	for _, want := range []string{id.Endpoint.Format(e.ID), id.Endpoint.Format(secretive.ID), id.Delivery.Format(dlv), "order.paid"} {
		if !got.has(want) {
			t.Errorf("%s is not on the page: %s", want, got.body)
		}
	}
	if got.has("in-the-query") || got.has(key.Hint) || got.has("/portal") || got.has("/delete") || got.has("/edit") {
		t.Errorf("a viewer sees too much: %s", got.body)
	}
	admin := w.as(auth.RoleAdmin)
	if got := admin.get(path); !got.has(key.Hint) || got.has("<script>alert(1)") || got.has(text) || !got.has("2 endpoints, 1 API key") {
		t.Errorf("an admin sees: %s", got.body)
	}
	if got := w.as(auth.RoleSupport).get(path); got.has(key.Hint) || !got.has("/portal") || got.has("/delete") {
		t.Errorf("support sees: %s", got.body)
	}
	got = admin.post(path + "/delete")
	if got.path != "/console/tenants" || !got.has("Acme is deleted. Endpoints that went with it: 2; deliveries that were cancelled: 2.") {
		t.Errorf("deleting ends at %s: %s", got.path, got.body)
	}
	if d, err := w.desk.Get(t.Context(), dlv); err != nil || d.State != dispatcher.StateCancelled || d.Reason != dispatcher.ReasonTenantDeleted {
		t.Errorf("its delivery is %v %q, %v", d.State, d.Reason, err)
	}
	if _, err := w.keys.Authenticate(t.Context(), text); err == nil {
		t.Error("its key is good for something yet")
	}
	w.audited(audit.TenantDeleted, id.Tenant, acme.ID, "bootstrap")
	if got := admin.get(path); got.status != http.StatusNotFound {
		t.Errorf("it is still there: %d", got.status)
	}
}

func TestATenantsEndpointsGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, e := w.tenant("Acme")
	for range 50 {
		if _, _, err := w.subs.CreateEndpoint(t.Context(), acme, subscriptions.NewEndpoint{URL: "https://hooks.example/in"}); err != nil {
			t.Fatal(err)
		}
	}
	b := w.as(auth.RoleAdmin)
	path := "/console/tenants/" + id.Tenant.Format(acme.ID)
	first := b.get(path)
	if n := strings.Count(first.body, "data-row"); n != 50 || !first.has("50 endpoints and more") {
		t.Errorf("the first page has %d endpoints", n)
	}
	if second := b.get(first.next()); strings.Count(second.body, "data-row") != 1 || !second.has(id.Endpoint.Format(e.ID)) {
		t.Errorf("%s: %s", first.next(), second.body)
	}
	if got := b.get(path + "?cursor=x"); got.status != http.StatusUnprocessableEntity || !got.has("is no id") {
		t.Errorf("a bad cursor: %d", got.status)
	}
}

func TestALinkIntoThePortal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant(hostile)
	path := "/console/tenants/" + id.Tenant.Format(acme.ID)
	if got := w.as(auth.RoleViewer).post(path + "/portal"); got.status != http.StatusForbidden {
		t.Errorf("a viewer makes one: %d", got.status)
	}
	for readOnly, want := range map[string]bool{"": false, "1": true} {
		got := w.as(auth.RoleSupport).post(path+"/portal", "read_only", readOnly)
		_, token, _ := strings.Cut(got.body, "https://hooks.example.com/portal/enter?token=")
		token, _, _ = strings.Cut(token, "<")
		if at := strings.IndexAny(token, `"<`); at >= 0 {
			token = token[:at]
		}
		if got.path != path+"/portal" || got.has("<script>alert(1)") {
			t.Errorf("the link is shown at %s: %s", got.path, got.body)
		}
		for _, c := range got.header.Values("Set-Cookie") {
			if strings.Contains(c, token) {
				t.Errorf("it is in a cookie: %s", c)
			}
		}
		_, session, err := w.sessions.EnterPortal(t.Context(), token)
		if err != nil || session.ReadOnly != want || *session.Principal.Tenant != acme.ID {
			t.Errorf("%q opens %+v, %v", token, session, err)
		}
	}
}
