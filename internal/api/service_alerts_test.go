package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/watch"
)

// raiseService opens an alert about the service itself.
func (w *world) raiseService(kind alert.Kind) {
	w.t.Helper()
	ids := id.NewGenerator(3, time.Now)
	desk := alert.NewDesk(w.db, ids.Next, time.Now)
	if err := desk.RaiseService(w.t.Context(), []alert.ServiceFinding{{Kind: kind, Detail: "none lives"}}, time.Second); err != nil {
		w.t.Fatal(err)
	}
}

// Operators see and close alerts about the service among the others; a tenant's key never sees one, not even by its id.
func TestAlertsOfTheServiceAreTheOperators(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.raiseService(alert.ServiceNoDispatcher)
	all := s.must(http.StatusOK, request{method: "GET", path: "/v1/alerts"}).list("data")
	if len(all) < 2 {
		t.Fatalf("listed are %v", all)
	}
	found := s.must(http.StatusOK, request{method: "GET", path: "/v1/alerts?kind=service.no_dispatcher,endpoint.dead"}).list("data")
	if len(found) != 1 {
		t.Fatalf("of the kind are %v", found)
	}
	a := found[0]
	if a["tenant_id"] != nil || a["endpoint_id"] != nil || a["last_delivery_id"] != nil || a.text("kind") != "service.no_dispatcher" || a.text("detail") != "none lives" {
		t.Errorf("got %v", a)
	}
	path := "/v1/alerts/" + a.text("id")
	bound := s.apiKey(s.must(http.StatusOK, request{method: "GET", path: "/v1/tenants/first"}).text("id"), "deliveries:read", "deliveries:write", "admin")
	for _, mine := range s.must(http.StatusOK, request{method: "GET", path: "/v1/alerts", key: bound}).list("data") {
		if mine["tenant_id"] == nil {
			t.Errorf("a tenant's key sees %v", mine)
		}
	}
	if none := s.must(http.StatusOK, request{method: "GET", path: "/v1/alerts?kind=service.no_dispatcher", key: bound}).list("data"); len(none) > 0 {
		t.Errorf("a tenant's key sees %v", none)
	}
	for _, call := range []request{{method: "GET", path: path}, {method: "POST", path: path + "/acknowledge"}, {method: "POST", path: path + "/resolve"}} {
		call.key = bound
		s.refused(http.StatusNotFound, call)
	}
	s.refused(http.StatusUnprocessableEntity, request{method: "GET", path: "/v1/alerts?kind=service.nix"})
	if got := s.must(http.StatusOK, request{method: "POST", path: path + "/acknowledge"}); got.text("state") != "acknowledged" {
		t.Errorf("acknowledged: %v", got)
	}
	if got := s.must(http.StatusOK, request{method: "POST", path: path + "/resolve"}); got.text("state") != "resolved" {
		t.Errorf("resolved: %v", got)
	}
}

func TestProcessesAndTheirHealth(t *testing.T) {
	t.Parallel()
	standing, hanging := "", ""
	now := time.Now()
	w := newWorld(t, func(d *api.Deps) {
		d.Standing, d.Hanging = func() string { return standing }, func() string { return hanging }
		d.Processes = func(context.Context) (watch.Fleet, error) {
			long := now.Add(-time.Hour)
			return watch.Fleet{At: now, DeadAfter: time.Minute, Unknown: 2, Processes: []watch.Process{
				watch.Process(pg.Process{About: pg.About{Roles: []string{"api", "dispatcher"}, Host: "a", PID: 7, DispatcherWorkedAt: &long}, SeenAt: now}),
			}}, nil
		}
	})
	got := w.must(http.StatusOK, request{method: "GET", path: "/v1/processes"})
	if all := got.list("data"); len(all) != 1 || all[0].text("state") != "stuck" || all[0].text("host") != "a" || all[0]["scheduler_worked_at"] != nil || got["unknown"] != 2.0 {
		t.Errorf("got %v", got)
	}
	w.must(http.StatusOK, request{method: "GET", path: "/readyz", key: "none"})
	standing = "the dispatcher"
	if p := w.refused(http.StatusServiceUnavailable, request{method: "GET", path: "/readyz", key: "none"}); p.Detail != "the dispatcher does not get on" {
		t.Errorf("got %+v", p)
	}
	w.must(http.StatusOK, request{method: "GET", path: "/livez", key: "none"})
	hanging = "the dispatcher"
	w.refused(http.StatusServiceUnavailable, request{method: "GET", path: "/livez", key: "none"})
}
