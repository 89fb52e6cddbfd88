package console_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/watch"
)

// What is wrong with Postrider itself is in the overview, in the list, and on a page that says what to do.
func TestAlertsOfTheServiceOnPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, e := w.tenant("Acme")
	w.alert(e, alert.EndpointDead, "it said 410 Gone", id.ID{})
	desk := alert.NewDesk(w.db, w.ids.Next, w.clock.Now)
	if err := desk.RaiseService(t.Context(), []alert.ServiceFinding{{Kind: alert.ServiceNoDispatcher, Detail: hostile}}, time.Second); err != nil {
		t.Fatal(err)
	}
	found, err := desk.List(t.Context(), alert.Filter{Kinds: alert.ServiceKinds()}, 2, id.ID{})
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	worked := w.clock.Now()
	w.fleet = watch.Fleet{At: worked, DeadAfter: time.Minute, Unknown: 1, Processes: []watch.Process{
		watch.Process(pg.Process{About: pg.About{Roles: []string{"scheduler"}, SchedulerWorkedAt: &worked}, SeenAt: worked}),
	}}
	page := "/console/alerts/" + id.Alert.Format(found[0].ID)
	b := w.as(auth.RoleSupport)
	for _, path := range []string{"/console/", "/console/alerts"} {
		if got := b.get(path); got.status != http.StatusOK || !got.has(page) || !got.has("Too few dispatchers are at work") || !got.has("Postrider itself") || !got.has("Endpoint is dead") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if got := b.get("/console/"); !got.has("0 dispatcher") || !got.has("1 scheduler") || !got.has("1 of an older version") {
		t.Errorf("the overview: %s", got.body)
	}
	got := b.get(page)
	if got.status != http.StatusOK || !got.has("Start a process with the role dispatcher") || got.has("<script>alert(1)") || got.has("Deliveries behind it") {
		t.Errorf("%d %s", got.status, got.body)
	}
	b.post(page + "/acknowledge")
	b.post(page + "/resolve")
	if got := b.get(page); !got.has("resolved") {
		t.Errorf("after resolving: %s", got.body)
	}
}
