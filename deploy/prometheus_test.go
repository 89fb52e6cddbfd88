//go:build ops

package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func promtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestOpsPrometheusTakesRulesAndConfiguration(t *testing.T) {
	t.Parallel()
	promtool(t, "prometheus", "check", "rules", "--lint-fatal", "alerts.yml")
	promtool(t, "prometheus", "check", "config", "--lint-fatal", "prometheus.yml")
	promtool(t, "prometheus", "test", "rules", "alerts_test.yml")
}

type rules struct {
	Groups []struct{ Rules []rule }
}

type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Whoever is woken by an alert finds what it means and what to do, and each has been seen to fire and to keep quiet.
func TestOpsAlertsAreExplainedAndTested(t *testing.T) {
	t.Parallel()
	var file rules
	readYAML(t, "prometheus/alerts.yml", &file)
	page, err := os.ReadFile("../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests struct {
		Tests []struct {
			Cases []struct {
				Name   string `yaml:"alertname"`
				Alerts []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	readYAML(t, "prometheus/alerts_test.yml", &tests)
	fires, keepsQuiet := map[string]bool{}, map[string]bool{}
	for _, one := range tests.Tests {
		for _, c := range one.Cases {
			fires[c.Name] = fires[c.Name] || len(c.Alerts) > 0
			keepsQuiet[c.Name] = keepsQuiet[c.Name] || len(c.Alerts) == 0
		}
	}
	seen := 0
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			seen++
			if r.For == "" || !regexp.MustCompile(`^(critical|warning|info)$`).MatchString(r.Labels["severity"]) ||
				r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s lacks for, a severity, a summary or a description: %+v", r.Alert, r)
			}
			if !fires[r.Alert] || !keepsQuiet[r.Alert] {
				t.Errorf("%s: seen to fire %t, to keep quiet %t", r.Alert, fires[r.Alert], keepsQuiet[r.Alert])
			}
			if where, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "#"); !strings.HasSuffix(where, "/docs/alerts.md") || anchor != strings.ToLower(r.Alert) {
				t.Errorf("%s leads to %s", r.Alert, r.Annotations["runbook_url"])
			}
			_, about, found := strings.Cut(string(page), "\n## "+r.Alert+"\n\n"+r.Labels["severity"]+" · ")
			about, _, _ = strings.Cut(about, "\n## ")
			if !found || !strings.Contains(about, "\n- ") {
				t.Errorf("docs/alerts.md does not say what %s, which is %s, means and what to do", r.Alert, r.Labels["severity"])
			}
		}
	}
	if explained := strings.Count(string(page), "\n## Postrider"); explained != seen || seen == 0 {
		t.Errorf("%d alerts are explained, and there are %d", explained, seen)
	}
}

type panel struct {
	ID          int
	Type, Title string
	FieldConfig struct{ Defaults struct{ Unit string } }
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ Expr string }
}

func TestOpsDashboardIsSound(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("grafana/postrider.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels     []panel
		Templating struct{ List []struct{ Name string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	var groups strings.Builder // what Prometheus is to read: its rules are the expressions of panels
	groups.WriteString("groups: [{name: panels, rules: [\n")
	place, ids := map[string]string{}, map[int]bool{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("a panel has no title, or another's id: %+v", p)
		}
		ids[p.ID] = true
		for at := range p.GridPos.W * p.GridPos.H {
			cell := fmt.Sprint(p.GridPos.X+at%p.GridPos.W, p.GridPos.Y+at/p.GridPos.W)
			if other := place[cell]; other != "" && other != p.Title {
				t.Fatalf("%s lies on %s", p.Title, other)
			}
			place[cell] = p.Title
		}
		if p.Type == "row" {
			continue
		}
		if p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("%s has no unit or shows nothing", p.Title)
		}
		for n, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5m", "$job", ".+").Replace(target.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("%s: what fills in %s?", p.Title, expr)
			}
			fmt.Fprintf(&groups, "{record: 'panel:%d:%d', expr: '%s'},\n", p.ID, n, strings.ReplaceAll(expr, "'", "''"))
		}
	}
	groups.WriteString("]}]\n")
	if len(ids) < 20 || !strings.Contains(string(text), "${datasource}") || len(dashboard.Templating.List) == 0 {
		t.Errorf("%d panels, variables %v", len(ids), dashboard.Templating.List)
	}
	file := filepath.Join(t.TempDir(), "panels.yml")
	if err := os.WriteFile(file, []byte(groups.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, ".", "check", "rules", file)
}
