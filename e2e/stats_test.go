package e2e

import (
	"fmt"
	"testing"
)

// What two processes tried is what the figures of each endpoint show, whichever process is asked, and a process that has stopped has
// left behind all that it counted.
func TestFiguresAreWhatWasTried(t *testing.T) {
	t.Parallel()
	moody := receive(t, func(n int, _ request) string {
		return answer([]int{200, 500, 404}[n%3])
	})
	well := receive(t, always(204))
	p := serve(t, nil)
	other := startAs(t, "dispatcher", nil)
	tenant := p.tenant()
	endpoints := map[string]string{
		"moody": p.endpoint(tenant, moody.url("/"), object{"event_types": []string{"a"}}).text("id"),
		"well":  p.endpoint(tenant, well.url("/"), object{"event_types": []string{"b"}}).text("id"),
	}
	tried := map[string]map[string]int{"moody": {}, "well": {}}
	events := map[string][]string{}
	for i := range 40 {
		events["moody"] = append(events["moody"], p.send(tenant, "a", i))
		events["well"] = append(events["well"], p.send(tenant, "b", i))
	}
	other.t = t
	for name, sent := range events {
		for _, event := range sent {
			eventually(t, func() string {
				if got := p.deliveries(event)[0]; got.text("finished_at") == "" {
					return "not finished: " + sprint(got)
				}
				return ""
			})
			for _, a := range p.attempts(p.deliveries(event)[0]) {
				tried[name][a.text("outcome")]++
			}
		}
	}
	other.stop()
	for name, endpoint := range endpoints {
		path := "/v1/tenants/" + tenant + "/endpoints/" + endpoint + "/stats"
		eventually(t, func() string {
			got := p.get(path)
			shown := map[string]int{}
			for outcome := range got.object("attempts") {
				if n := got.object("attempts").number(outcome); n > 0 {
					shown[outcome] = n
				}
			}
			if fmt.Sprint(shown) != fmt.Sprint(tried[name]) {
				return fmt.Sprintf("%s: tried %v, shown %s", name, tried[name], sprint(got))
			}
			if ms, _ := got.object("latency")["p50_ms"].(float64); ms <= 0 || ms > 2100 || got["oldest_due_at"] != nil {
				return fmt.Sprintf("%s: %s", name, sprint(got))
			}
			return ""
		})
	}
	if rate, _ := p.get("/v1/tenants/" + tenant + "/endpoints/" + endpoints["well"] + "/stats")["success_rate"].(float64); rate != 1 {
		t.Errorf("the success rate of an endpoint that is well is %v", rate)
	}
}
