package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
)

// The number comes before, the progress after, and in between somebody says yes.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	var chosen []string
	for range 3 {
		_, dlv := w.event(acme, `{}`)
		chosen = append(chosen, id.Delivery.Format(dlv))
	}
	b := w.as(auth.RoleSupport)
	two := "?act=cancel&state=pending&id=" + chosen[0] + "&id=" + chosen[1]
	got := b.get("/console/deliveries/bulk" + two)
	if got.status != http.StatusOK || !got.has("2 deliveries") || !got.has(`name="id" value="`+chosen[1]) {
		t.Fatalf("before: %d %s", got.status, got.body)
	}
	if got := b.get("/console/jobs"); !got.has("No jobs") {
		t.Error("a look has made a job")
	}
	got = b.post("/console/deliveries/bulk", "act", "cancel", "id", chosen[0], "id", chosen[1])
	if !strings.HasPrefix(got.path, "/console/jobs/job_") || !got.has("queued") {
		t.Fatalf("after: %s %s", got.path, got.body)
	}
	for did := true; did; {
		var err error
		if did, err = w.jobs.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.get(got.path); !got.has("succeeded") || got.has("hx-get") {
		t.Errorf("a job that is finished: %s", got.body)
	}
	list := b.get("/console/deliveries?state=cancelled")
	if !list.has(chosen[0]) || !list.has(chosen[1]) || list.has(chosen[2]) {
		t.Error("others were cancelled than those that were chosen")
	}
	if got := b.get("/console/deliveries/bulk?act=retry&tenant=" + id.Tenant.Format(acme.ID) + "&state=cancelled"); !got.has("2 deliveries") {
		t.Errorf("all that match: %s", got.body)
	}
	if got := b.get("/console/deliveries/bulk?act=retry&state=cancelled&span=1h"); !got.has(`name="since" value="20`) || got.has(`name="span"`) {
		t.Errorf("an hour back from now is another hour when the yes comes: %s", got.body)
	}
	if got := b.get("/console/deliveries/bulk?chosen=1&act=retry&state=cancelled&id=" + chosen[0]); !got.has(`href="/console/deliveries?state=cancelled"`) || !got.has("1 delivery") {
		t.Errorf("the way back from what was chosen has no filter: %s", got.body)
	}
	for query, says := range map[string]string{
		"?act=burn": "nothing of the name", "?act=retry&id=x": "is no delivery", "?act=retry&chosen=1": "choose some deliveries first", "?act=retry&state=in_flight": "cannot be taken",
	} {
		if got := b.get("/console/deliveries/bulk" + query); !got.has("notice-bad") || !got.has(says) {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	if got := w.as(auth.RoleViewer).get("/console/deliveries/bulk" + two); got.status != http.StatusForbidden {
		t.Errorf("a viewer: %d", got.status)
	}
}
