package docs_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/metrics"
)

// figures gives all metrics of ours with their type and labels. A label has one value here: which it may have is elsewhere.
func figures(t *testing.T) map[string]string {
	t.Helper()
	one := []string{"x"}
	reg := prometheus.NewRegistry()
	m := metrics.New(reg, metrics.Labels{
		Outcomes: one, States: one, Healths: one, Breakers: one, AlertKinds: one, Failures: one, Roles: one,
	})
	m.ExpectUpkeep("x")
	m.SetDefaultRows("x", 0)
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none") // it connects to nothing
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	reg.MustRegister(metrics.NewPools(map[string]*pgxpool.Pool{"x": pool}))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		all[f.GetName()] = fmt.Sprint(strings.ToLower(f.GetType().String()), labels)
	}
	return all
}

const metricsHead = "| metric | type | labels | means |"

func TestTablesOfMetricsHaveAll(t *testing.T) {
	t.Parallel()
	want := figures(t)
	for head := strings.Count(read(t, "docs/metrics.md"), metricsHead); head > 0; head-- {
		for _, row := range nthTable(t, "docs/metrics.md", metricsHead, head) {
			name, labels := codes(row[0])[0], codes(row[2])
			labels = slices.DeleteFunc(labels, func(l string) bool { return l == "" })
			slices.Sort(labels)
			if got := fmt.Sprint(row[1], labels); want[name] != got {
				t.Errorf("docs/metrics.md has %s as %s, the code as %q; or it has it twice", name, got, want[name])
			}
			delete(want, name)
		}
	}
	for name, is := range want {
		t.Errorf("docs/metrics.md lacks %s, %s", name, is)
	}
}

// nthTable gives the rows of the n-th table with a head.
func nthTable(t *testing.T, document, head string, n int) [][]string {
	t.Helper()
	var rows [][]string
	for line := range strings.Lines(strings.SplitN(read(t, document), "\n"+head+"\n", n+1)[n]) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows[1:] // without the line of dashes
}

func TestMetricsToWatchAreThere(t *testing.T) {
	t.Parallel()
	known := figures(t)
	named := regexp.MustCompile(`postrider_[a-z_]+`).FindAllString(read(t, "docs/operating.md"), -1)
	if len(named) == 0 {
		t.Fatal("docs/operating.md names no metric any more")
	}
	for _, name := range named {
		if known[name] == "" && name != "postrider_producer" { // which is a role of the database
			t.Errorf("docs/operating.md names the metric %s, which there is not", name)
		}
	}
}
