//go:build ops

package e2e

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// scrape gives what Prometheus gets, and its series without their values.
func (p *process) scrape() (text string, series map[string]bool) {
	p.t.Helper()
	resp, err := http.Get(p.url + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		p.t.Fatal(resp.Status, err)
	}
	series = map[string]bool{}
	for line := range strings.Lines(string(body)) {
		if at := strings.LastIndex(line, " "); strings.HasPrefix(line, "postrider_") {
			series[line[:at]] = true
		}
	}
	return string(body), series
}

// busy has every kind of thing happen some times: events of many types to many endpoints of many tenants, which answer in every way.
func busy(p *process, receivers []*receiver, tenants, types int) {
	p.t.Helper()
	for n := range tenants {
		tenant := p.tenant()
		p.endpoint(tenant, receivers[n%len(receivers)].url(fmt.Sprintf("/%d", n)), nil)
		event := p.send(tenant, fmt.Sprintf("type.%d", n%types), object{"n": n})
		p.get("/v1/tenants/" + tenant + "/events/" + event)
		_, _ = p.try("GET", fmt.Sprintf("/nothing/%d", n), "", nil)
		_, _ = p.try("GET", fmt.Sprintf("/console/nothing/%d", n), "", nil)
	}
}

func TestOpsMetricsOfARealProcess(t *testing.T) {
	t.Parallel()
	const tenants, types = 50, 20
	p := serve(t, nil)
	var receivers []*receiver
	for _, status := range []int{200, 302, 401, 404, 410, 503} {
		receivers = append(receivers, receive(t, always(status)))
	}
	_, before := p.scrape()
	busy(p, receivers, tenants, types)
	eventually(t, func() string {
		text, _ := p.scrape()
		for _, want := range []string{
			`postrider_events_accepted_total 50`, `postrider_attempts_total{outcome="succeeded"} 9`, `postrider_attempt_answers_total{status_class="3xx"} 54`,
			`postrider_attempts_total{outcome="gone"} 8`, `postrider_deliveries{state="pending"} 0`, `postrider_endpoints{health="dead"} 8`,
		} {
			if !strings.Contains(text, "\n"+want+"\n") {
				return "no " + want
			}
		}
		return ""
	})
	text, after := p.scrape()
	for s := range after {
		if !before[s] {
			t.Errorf("%s was not there from the start, or grows with what happens", s)
		}
	}
	check := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	names := map[string]bool{}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) == 4 && words[1] == "TYPE" {
			names[words[2]] = true
			if words[3] == "histogram" {
				names[words[2]+"_bucket"], names[words[2]+"_sum"], names[words[2]+"_count"] = true, true, true
			}
			if documented := strings.Contains(readFile(t, "../docs/metrics.md"), "| `"+words[2]+"` | "+words[3]+" |"); !documented && strings.HasPrefix(words[2], "postrider_") {
				t.Errorf("docs/metrics.md lacks %s, a %s", words[2], words[3])
			}
		}
	}
	for _, file := range []string{"../deploy/prometheus/alerts.yml", "../deploy/grafana/postrider.json"} {
		for _, name := range metricsIn(t, file) {
			if !names[name] {
				t.Errorf("%s asks for %s, which %v do not have", file, name, slices.Sorted(maps.Keys(names)))
			}
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// metricsIn gives what the expressions in a file ask for.
func metricsIn(t *testing.T, file string) []string {
	t.Helper()
	text := readFile(t, file)
	var exprs []string
	for _, m := range regexp.MustCompile(`(?m)^\s+"?expr"?: (.*)$`).FindAllStringSubmatch(text, -1) {
		exprs = append(exprs, m[1])
	}
	found := regexp.MustCompile(`\b(?:postrider|process|go)_[a-z0-9_]+\b`).FindAllString(strings.Join(exprs, "\n"), -1)
	slices.Sort(found)
	if found = slices.Compact(found); len(found) < 15 {
		t.Fatalf("%s asks for %v only", file, found)
	}
	return found
}
