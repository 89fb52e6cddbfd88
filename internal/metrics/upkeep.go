package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// upkeep has the figures of the role scheduler's jobs and of history's partitions. Of several processes one does each job: take the
// sum of what is counted, and the max of the rest. The label is not named job, which is Prometheus' own for what it scrapes.
type upkeep struct {
	runs        *prometheus.CounterVec
	success     *prometheus.GaugeVec
	daysAhead   prometheus.Gauge
	defaultRows *prometheus.GaugeVec
}

func newUpkeep() upkeep {
	return upkeep{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "postrider_upkeep_runs_total",
			Help: "Runs of the scheduler's jobs in this process, by task and result.",
		}, []string{"task", "result"}),
		success: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "postrider_upkeep_last_success_timestamp_seconds",
			Help: "When a job went well last in this process, in Unix seconds; 0: never.",
		}, []string{"task"}),
		daysAhead: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "postrider_partitions_ahead",
			Help: "For how many whole days after today partitions are made; 0 in a process that does not make them.",
		}),
		defaultRows: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "postrider_partitions_default_rows",
			Help: "Rows that no day's partition took, by table; an estimate beyond some thousand.",
		}, []string{"table"}),
	}
}

func (u *upkeep) register(reg prometheus.Registerer) {
	reg.MustRegister(u.runs, u.success, u.daysAhead, u.defaultRows)
}

// ExpectUpkeep has a job's series be there before it has run.
func (u *upkeep) ExpectUpkeep(job string) {
	u.runs.WithLabelValues(job, "done")
	u.runs.WithLabelValues(job, "failed")
	u.success.WithLabelValues(job)
}

// UpkeepRan counts a run of a job, which is done or failed.
func (u *upkeep) UpkeepRan(job, result string, at time.Time) {
	u.runs.WithLabelValues(job, result).Inc()
	if result == "done" {
		u.success.WithLabelValues(job).Set(float64(at.UnixMilli()) / 1000)
	}
}

// SetDaysAhead sets for how many days to come partitions are made.
func (u *upkeep) SetDaysAhead(n int) { u.daysAhead.Set(float64(n)) }

// SetDefaultRows sets how many rows of a table are in no day's partition.
func (u *upkeep) SetDefaultRows(table string, n int64) {
	u.defaultRows.WithLabelValues(table).Set(float64(n))
}
