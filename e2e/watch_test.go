package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// serviceAlert waits for an alert about the service itself in a state.
func (p *process) serviceAlert(kind, state string) (found object) {
	p.t.Helper()
	eventually(p.t, func() string {
		all := p.get("/v1/alerts?kind=" + kind + "&state=" + state).list("data")
		if len(all) == 0 {
			return fmt.Sprintf("no %s alert %s among %s", state, kind, sprint(p.get("/v1/alerts")))
		}
		found = all[0]
		return ""
	})
	return found
}

// working waits until so many processes do what the role is for.
func (p *process) working(role string, want int) {
	p.t.Helper()
	eventually(p.t, func() string {
		n, all := 0, p.get("/v1/processes").list("data")
		for _, one := range all {
			if strings.Contains(sprint(one["roles"]), role) && one.text("state") == "working" {
				n++
			}
		}
		if n != want {
			return fmt.Sprintf("%d with the role %s are at work, want %d: %s", n, role, want, sprint(all))
		}
		return ""
	})
}

// The only dispatcher stands still, then it is killed: all health checks of what is left are green, and people are told all the
// same. Another dispatcher ends it.
func TestADeadDispatcherIsToldOf(t *testing.T) {
	t.Parallel()
	told := receive(t, always(200))
	quick := settings{"WATCH_DEAD_AFTER": "2s", "ALERTS_URLS": "generic://" + strings.TrimPrefix(told.url("/alerts"), "http://") + "?disabletls=yes"}
	p := startAs(t, "api,scheduler", quick)
	t.Cleanup(p.stop)
	first := startAs(t, "dispatcher", quick)
	t.Cleanup(func() { first.kill() })
	p.working("dispatcher", 1)
	p.working("scheduler", 1)
	said := func(words string) {
		t.Helper()
		eventually(t, func() string {
			for _, r := range told.requests() {
				if strings.Contains(string(r.body), words) {
					return ""
				}
			}
			return fmt.Sprintf("%q is not among %d messages", words, told.count())
		})
	}
	green := func() {
		t.Helper()
		for _, path := range []string{"/livez", "/readyz"} {
			if got := p.do(http.MethodGet, path, "", nil); got.status != http.StatusOK {
				t.Errorf("%s: %d %s", path, got.status, got.body)
			}
		}
	}

	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	hung := p.serviceAlert("service.no_dispatcher", "open")
	green()
	said("alert opened: service.no_dispatcher")
	if hung["tenant_id"] != nil || hung["endpoint_id"] != nil {
		t.Errorf("it is somebody's: %s", sprint(hung))
	}
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.serviceAlert("service.no_dispatcher", "resolved")
	said("alert resolved: service.no_dispatcher")

	first.kill()
	died := p.serviceAlert("service.no_dispatcher", "open")
	green()
	if died.text("id") == hung.text("id") {
		t.Errorf("the one that was resolved is open again: %s", sprint(died))
	}
	code, table := output(t, settings{"URL": p.url, "API_KEY": adminKey}, "processes")
	if code != 0 || !strings.Contains(table, "dead") || !strings.Contains(table, "working") {
		t.Errorf("processes: %d %s", code, table)
	}
	second := startAs(t, "dispatcher", quick)
	t.Cleanup(second.stop)
	eventually(t, func() string {
		if got := p.get("/v1/alerts/" + died.text("id")); got.text("state") != "resolved" {
			return sprint(got)
		}
		return ""
	})
}

// The canary goes from a process that takes requests over one that sends to a receiver, at an address that no other endpoint may have.
// When something stands in its way there is an alert that says where; when that is gone it is over.
func TestTheCanary(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	var to atomic.Value // of string: where the API is
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			http.Error(w, "the front is broken", http.StatusBadGateway)
			return
		}
		base, _ := to.Load().(string)
		on, err := http.NewRequestWithContext(r.Context(), r.Method, base+r.URL.Path, r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		on.Header = r.Header.Clone()
		got, err := http.DefaultClient.Do(on)
		if err != nil {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		defer got.Body.Close()
		w.WriteHeader(got.StatusCode)
		_, _ = io.Copy(w, got.Body)
	}))
	t.Cleanup(front.Close)
	quick := settings{
		"WATCH_DEAD_AFTER": "2s", "CANARY_ENABLED": "true", "CANARY_EVERY": "1s", "CANARY_URL": front.URL,
		"DELIVERY_ALLOW_HTTP": "false", "DELIVERY_ALLOW_NETWORKS": "",
	}
	p := startAs(t, "api,scheduler", quick)
	t.Cleanup(p.stop)
	to.Store(p.url)
	sends := startAs(t, "dispatcher", quick)
	t.Cleanup(sends.stop)
	came := func() {
		t.Helper()
		eventually(t, func() string {
			all := p.get("/v1/deliveries?tenant=postrider-canary&state=succeeded&limit=1").list("data")
			if len(all) == 0 {
				return "no canary has come"
			}
			return ""
		})
	}
	eventually(t, func() string {
		if got := p.do(http.MethodGet, "/v1/tenants/postrider-canary", "", nil); got.status != http.StatusOK {
			return "there is no canary"
		}
		return ""
	})
	came()
	eventually(t, func() string {
		for _, of := range []*process{p, sends} { // whoever sends them, all know
			metrics := string(of.do(http.MethodGet, "/metrics", "", nil).body)
			if strings.Contains(metrics, "\npostrider_canary_last_success_timestamp_seconds 0\n") {
				return "the metrics know of none"
			}
		}
		return ""
	})
	// What the canary may, others may not.
	tenant := p.tenant()
	p.want(http.StatusUnprocessableEntity, http.MethodPost, "/v1/tenants/"+tenant+"/endpoints", object{"url": front.URL + "/canary/x"})
	if got := p.do(http.MethodPost, "/canary/00000000000000000000000000000000", "application/json", []byte(`{"turn":1}`)); got.status != http.StatusNotFound {
		t.Errorf("a stranger's canary: %d %s", got.status, got.body)
	}

	broken.Store(true)
	eventually(t, func() string {
		stuck := p.serviceAlert("service.canary_failed", "open")
		if !strings.Contains(stuck.text("detail"), "502") || !strings.Contains(stuck.text("detail"), "the front is broken") {
			return "it does not say where: " + sprint(stuck)
		}
		return ""
	})
	broken.Store(false)
	p.serviceAlert("service.canary_failed", "resolved")
}
