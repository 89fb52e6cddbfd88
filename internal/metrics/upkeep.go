package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// upkeepFigures are those of the role scheduler's jobs and of history's partitions. Of several processes one does each job: take the
// sum of what is counted, and the max of the rest.
type upkeepFigures struct {
	runs        *prometheus.CounterVec
	success     *prometheus.GaugeVec
	daysAhead   prometheus.Gauge
	defaultRows *prometheus.GaugeVec
}

func (f *upkeepFigures) register(reg prometheus.Registerer) {
	f.runs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "postrider_upkeep_runs_total",
		Help: "Runs of the scheduler's jobs in this process, by job and result.",
	}, []string{"job", "result"})
	f.success = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "postrider_upkeep_last_success_timestamp_seconds",
		Help: "When a job went well last in this process, in Unix seconds; 0: never.",
	}, []string{"job"})
	f.daysAhead = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "postrider_partitions_days_ahead",
		Help: "For how many whole days after today partitions are made; 0 in a process that does not make them.",
	})
	f.defaultRows = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "postrider_partitions_default_rows",
		Help: "Rows that no day's partition took, by table; an estimate beyond some thousand.",
	}, []string{"table"})
	reg.MustRegister(f.runs, f.success, f.daysAhead, f.defaultRows)
}

// ExpectUpkeep has a job's series be there before it has run.
func (m *Metrics) ExpectUpkeep(job string) {
	m.upkeep.runs.WithLabelValues(job, "done")
	m.upkeep.runs.WithLabelValues(job, "failed")
	m.upkeep.success.WithLabelValues(job)
}

// UpkeepRan counts a run of a job, which is done or failed.
func (m *Metrics) UpkeepRan(job, result string, at time.Time) {
	m.upkeep.runs.WithLabelValues(job, result).Inc()
	if result == "done" {
		m.upkeep.success.WithLabelValues(job).Set(float64(at.UnixMilli()) / 1000)
	}
}

// SetDaysAhead sets for how many days to come partitions are made.
func (m *Metrics) SetDaysAhead(n int) { m.upkeep.daysAhead.Set(float64(n)) }

// SetDefaultRows sets how many rows of a table are in no day's partition.
func (m *Metrics) SetDefaultRows(table string, n int64) {
	m.upkeep.defaultRows.WithLabelValues(table).Set(float64(n))
}
