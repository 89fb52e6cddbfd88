package metrics_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/metrics"
	"github.com/postrider/postrider/internal/watch"
)

// The dispatcher and the watch report to it.
var (
	_ dispatcher.Metrics = (*metrics.Metrics)(nil)
	_ watch.Metrics      = (*metrics.Metrics)(nil)
)

func labels() metrics.Labels {
	l := metrics.Labels{
		Version: "1.2.3", Revision: "0123abc", Healths: []string{"healthy", "dead"}, Breakers: []string{"open"},
		AlertKinds: []string{"endpoint.dead", "endpoint.disabled"}, Failures: []string{"unknown"},
	}
	for _, o := range dispatcher.Outcomes() {
		l.Outcomes = append(l.Outcomes, o.String())
	}
	l.Roles = watch.Roles()
	for _, s := range dispatcher.States() {
		l.States = append(l.States, s.String())
	}
	return l
}

// read gives every series as `name{labels} value`; a histogram as its count and sum.
func read(t *testing.T, reg prometheus.Gatherer) []string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var pairs []string
			for _, l := range m.GetLabel() {
				pairs = append(pairs, l.GetName()+"="+l.GetValue())
			}
			name := f.GetName()
			if len(pairs) > 0 {
				name += "{" + strings.Join(pairs, ",") + "}"
			}
			out = append(out, name+" "+figure(m))
		}
	}
	return out
}

func figure(m *dto.Metric) string {
	switch {
	case m.Counter != nil:
		return fmt.Sprint(m.Counter.GetValue())
	case m.Gauge != nil:
		return fmt.Sprint(m.Gauge.GetValue())
	}
	return fmt.Sprintf("%d %g", m.Histogram.GetSampleCount(), m.Histogram.GetSampleSum())
}

func TestEverySeriesIsThereFromTheStart(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	metrics.New(reg, labels())
	want := []string{
		"postrider_alerts_open 0", "postrider_alerts{kind=endpoint.dead} 0", "postrider_alerts{kind=endpoint.disabled} 0",
		"postrider_attempt_duration_seconds 0 0", "postrider_auth_failures_total{reason=unknown} 0", "postrider_breakers{state=open} 0",
		"postrider_build_info{goversion=" + runtime.Version() + ",revision=0123abc,version=1.2.3} 1",
		"postrider_claim_deliveries 0 0", "postrider_claim_duration_seconds 0 0", "postrider_delivery_latency_seconds 0 0",
		"postrider_endpoints{health=dead} 0", "postrider_endpoints{health=healthy} 0", "postrider_enqueue_duration_seconds 0 0",
		"postrider_events_accepted_total 0", "postrider_in_flight 0", "postrider_intake_commit_events 0 0",
		"postrider_leases_lost_total 0", "postrider_leases_rescued_total 0", "postrider_oldest_due_seconds 0",
		"postrider_oldest_overdue_seconds 0", "postrider_partitions_ahead 0", "postrider_record_attempts 0 0", "postrider_record_duration_seconds 0 0",
		"postrider_records_failed_total 0", "postrider_alert_notices_oldest_seconds 0", "postrider_alert_notices_total{result=sent} 0",
		"postrider_alert_notices_total{result=failed} 0", "postrider_alert_notices_total{result=given_up} 0",
	}
	for _, class := range []string{"2xx", "3xx", "4xx", "5xx", "none"} {
		want = append(want, "postrider_attempt_answers_total{status_class="+class+"} 0")
		if class != "none" {
			want = append(want, "postrider_http_requests_total{route=other,status_class="+class+"} 0")
		}
	}
	for _, o := range labels().Outcomes {
		want = append(want, "postrider_attempts_total{outcome="+o+"} 0")
	}
	want = append(want, "postrider_canary_duration_seconds 0 0", "postrider_canary_last_success_timestamp_seconds 0")
	for _, r := range labels().Roles {
		want = append(want, "postrider_processes{role="+r+"} 0")
	}
	for _, s := range labels().States {
		want = append(want, "postrider_deliveries{state="+s+"} 0")
	}
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(read(t, reg))); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestFiguresArrive(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m := metrics.New(reg, labels())
	m.Accepted(3)
	m.Attempt("timeout", 0, 2*time.Second)
	m.Attempt("retryable", 503, 500*time.Millisecond)
	m.Attempt("protocol_error", 600, 0)
	m.Delivered(90 * time.Second)
	m.InFlight(5)
	m.InFlight(-2)
	m.Claimed(7, 2*time.Second)
	m.Recorded(3, time.Second)
	m.RecordFailed()
	m.Rescued(2)
	m.LeasesLost(4)
	m.Committed(12)
	m.SetDeliveries("held", 7)
	m.SetOldestDue(90 * time.Second)
	m.SetOldestOverdue(30 * time.Second)
	m.Notices("sent", 6)
	m.SetOldestNotice(time.Minute)
	m.SetAlertsOpen([]string{"endpoint.dead", "endpoint.disabled"}, func(kind string) int64 {
		return map[string]int64{"endpoint.dead": 3, "endpoint.disabled": 1}[kind]
	})
	m.SetEndpoints("dead", 5)
	m.SetBreakers("open", 6)
	m.ExpectRoutes("GET /v1/tenants")
	m.Request("GET /v1/tenants", 200)
	m.Request("GET /v1/tenants", 0) // a handler that says nothing
	m.Request("GET /console/whatever", 404)
	m.Enqueued(20 * time.Millisecond)
	m.SetProcesses("dispatcher", 2)
	m.CanaryCame(20 * time.Millisecond)
	m.SetCanarySucceeded(time.UnixMilli(1500))
	got := read(t, reg)
	for _, want := range []string{
		"postrider_events_accepted_total 3", "postrider_attempts_total{outcome=timeout} 1",
		"postrider_attempt_answers_total{status_class=none} 2", "postrider_attempt_answers_total{status_class=5xx} 1",
		"postrider_attempt_duration_seconds 2 2.5", "postrider_delivery_latency_seconds 1 90", "postrider_in_flight 3",
		"postrider_claim_deliveries 1 7", "postrider_claim_duration_seconds 1 2", "postrider_record_attempts 1 3",
		"postrider_record_duration_seconds 1 1", "postrider_records_failed_total 1", "postrider_leases_rescued_total 2",
		"postrider_alert_notices_total{result=sent} 6", "postrider_alert_notices_oldest_seconds 60",
		"postrider_leases_lost_total 4", "postrider_intake_commit_events 1 12",
		"postrider_deliveries{state=held} 7", "postrider_oldest_due_seconds 90", "postrider_oldest_overdue_seconds 30",
		"postrider_alerts_open 4", "postrider_alerts{kind=endpoint.dead} 3", "postrider_endpoints{health=dead} 5",
		"postrider_breakers{state=open} 6", "postrider_http_requests_total{route=GET /v1/tenants,status_class=2xx} 2",
		"postrider_http_requests_total{route=other,status_class=4xx} 1", "postrider_enqueue_duration_seconds 1 0.02",
		"postrider_processes{role=dispatcher} 2", "postrider_canary_duration_seconds 1 0.02", "postrider_canary_last_success_timestamp_seconds 1.5",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not among\n%s", want, strings.Join(got, "\n"))
		}
	}
}

func TestUpkeepIsThereBeforeItHasRun(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m := metrics.New(reg, labels())
	m.ExpectUpkeep("partitions")
	m.ExpectUpkeep("retention")
	m.UpkeepRan("retention", "done", time.Unix(1_800_000_000, 0))
	m.UpkeepRan("retention", "failed", time.Unix(1_900_000_000, 0))
	m.SetDaysAhead(7)
	m.SetDefaultRows("events", 12)
	got := read(t, reg)
	for _, want := range []string{
		"postrider_upkeep_runs_total{result=done,task=partitions} 0", "postrider_upkeep_runs_total{result=failed,task=partitions} 0",
		"postrider_upkeep_last_success_timestamp_seconds{task=partitions} 0", "postrider_upkeep_runs_total{result=done,task=retention} 1",
		"postrider_upkeep_runs_total{result=failed,task=retention} 1", "postrider_upkeep_last_success_timestamp_seconds{task=retention} 1.8e+09",
		"postrider_partitions_ahead 7", "postrider_partitions_default_rows{table=events} 12",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not among\n%s", want, strings.Join(got, "\n"))
		}
	}
}

func Example() {
	reg := prometheus.NewRegistry()
	m := metrics.New(reg, metrics.Labels{Outcomes: []string{"succeeded"}, States: []string{"pending"}, Version: "1.0"})
	m.Attempt("succeeded", 200, 40*time.Millisecond)
	families, err := reg.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() == "postrider_attempts_total" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	// Output: postrider_attempts_total 1
}
