package console_test

import (
	"net/http"
	"testing"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/schedules"
)

func TestSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant(hostile)
	list := "/console/tenants/" + id.Tenant.Format(acme.ID) + "/schedules"
	viewer, support, admin := w.as(auth.RoleViewer), w.as(auth.RoleSupport), w.as(auth.RoleAdmin)
	if got := viewer.get(list); !got.has("It has no schedules") {
		t.Errorf("without any: %s", got.body)
	}
	sch, err := w.schedules.Create(t.Context(), acme.ID, schedules.Terms{
		Cron: "30 9 * * 1-5", Timezone: "Europe/Berlin", Type: "report.due", Payload: []byte(`{"text":"` + hostile + `"}`),
		Description: hostile, GroupKey: hostile, Metadata: map[string]any{"note": hostile},
	})
	if err != nil {
		t.Fatal(err)
	}
	one := "/console/schedules/" + id.Schedule.Format(sch.ID)
	if got := viewer.get(list); !got.has("30 9 * * 1-5") || !got.has("active") || got.has("<script>alert") {
		t.Errorf("the list: %s", got.body)
	}
	if got := viewer.get(one); !got.has("Europe/Berlin") || !got.has("None yet") || got.has("<script>alert") || got.has("Pause") {
		t.Errorf("a viewer's page: %s", got.body)
	}
	if got := admin.post(one + "/pause"); got.path != one || !got.has("is paused") || !got.has("Resume") {
		t.Errorf("pausing ends at %s: %s", got.path, got.body)
	}
	if got := admin.post(one + "/run"); !got.has("is on its way") || !got.has("by hand") {
		t.Errorf("running: %s", got.body)
	}
	if got := admin.post(one + "/resume"); !got.has("goes on with the next time") {
		t.Errorf("resuming: %s", got.body)
	}
	for _, path := range []string{"/pause", "/resume", "/run"} {
		if got := viewer.post(one + path); got.status != http.StatusForbidden {
			t.Errorf("%s of a viewer: %d", path, got.status)
		}
		if got := support.post(one + path); got.status != http.StatusOK {
			t.Errorf("%s of support: %d", path, got.status)
		}
	}
	if got := viewer.get("/console/go?id=" + id.Schedule.Format(sch.ID)); got.path != one {
		t.Errorf("its id leads to %s", got.path)
	}
	for _, path := range []string{list + "?cursor=x", "/console/schedules/x", "/console/schedules/sch_000000000000100", "/console/tenants/nobody/schedules"} {
		if got := viewer.get(path); got.status != http.StatusNotFound && got.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", path, got.status)
		}
	}
}
