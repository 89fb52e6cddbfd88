package console_test

import (
	"net/http"
	"testing"

	"github.com/postrider/postrider/internal/auth"
)

func TestTheCatalogue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin, viewer := w.as(auth.RoleAdmin), w.as(auth.RoleViewer)
	got := admin.post("/console/new-event-type", "name", "order.paid", "description", hostile,
		"schema", `{"type":"object","required":["n"]}`, "example", `{"n":1}`)
	if got.path != "/console/event-types/order.paid" || !got.has("is in the catalogue") || got.has("<script>alert") {
		t.Fatalf("a new one ends at %s: %s", got.path, got.body)
	}
	if got := viewer.get("/console/event-types"); !got.has("order.paid") || got.has("New event type") || got.has("<script>alert") {
		t.Errorf("the list: %s", got.body)
	}
	if got := viewer.get("/console/event-types/order.paid"); got.status != http.StatusOK || got.has("Change it") {
		t.Errorf("a viewer's page: %d", got.status)
	}
	for name, bad := range map[string][]string{
		"one that is there":      {"name", "order.paid", "description", "another"},
		"a name with a blank":    {"name", "order paid"},
		"a schema that is none":  {"name", "a", "schema", `{"type":"odd"}`},
		"an example against it":  {"name", "a", "schema", `{"type":"string"}`, "example", `1`},
		"an example that breaks": {"name", "a", "example", `{`},
	} {
		if got := admin.post("/console/new-event-type", bad...); got.status != http.StatusUnprocessableEntity || !got.has("field-fault") && !got.has("notice-bad") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	version := admin.get("/console/event-types/order.paid").version()
	if got := admin.post("/console/event-types/order.paid", "description", "Paid", "archived", "true", "version", version); !got.has("is changed") {
		t.Errorf("changing: %s", got.body)
	}
	got = admin.post("/console/event-types/order.paid", "description", "of another, who has not seen that", "version", version)
	if got.status != http.StatusPreconditionFailed || !got.has("of another") || !got.has("nothing was saved") || got.version() == version {
		t.Errorf("changing what has been changed meanwhile: %d %s", got.status, got.body)
	}
	if got := viewer.get("/console/event-types"); got.has("order.paid") {
		t.Error("an archived type is in the list of those in use")
	}
	if got := viewer.get("/console/event-types?archived=true"); !got.has("order.paid") {
		t.Error("an archived type is nowhere")
	}
	for _, path := range []string{"/console/event-types/order.paid", "/console/event-types/order.paid/delete", "/console/new-event-type"} {
		if got := w.as(auth.RoleSupport).post(path); got.status != http.StatusForbidden {
			t.Errorf("%s: %d", path, got.status)
		}
	}
	if got := admin.post("/console/event-types/order.paid/delete"); !got.has("is out of the catalogue") {
		t.Errorf("deleting: %s", got.body)
	}
	if got := viewer.get("/console/event-types/order.paid"); got.status != http.StatusNotFound {
		t.Errorf("after deleting: %d", got.status)
	}
}
