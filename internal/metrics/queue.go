package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// queue is what the database has, as the role scheduler counts it.
type queue struct {
	deliveries *prometheus.GaugeVec
	oldestDue  prometheus.Gauge
	overdue    prometheus.Gauge
	alertsOpen prometheus.Gauge
	alerts     *prometheus.GaugeVec
	endpoints  *prometheus.GaugeVec
	breakers   *prometheus.GaugeVec
}

func newQueue(labels Labels) queue {
	gauges := func(name, help, label string, values []string) *prometheus.GaugeVec {
		vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{label})
		each(values, vec.WithLabelValues)
		return vec
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	return queue{
		deliveries: gauges("postrider_deliveries", "Deliveries there are, by state; finished ones as long as history is kept.", "state", labels.States),
		oldestDue:  gauge("postrider_oldest_due_seconds", "For how long the oldest delivery has been due that an enabled endpoint could have had; 0 when none is."),
		overdue: gauge("postrider_oldest_overdue_seconds",
			"For how long a delivery has been due that nothing of its endpoint's holds back: no open breaker, pause, rate limit, group or attempt under way; 0 when none is, or for 5 s at most."),
		alertsOpen: gauge("postrider_alerts_open", "Alerts that are open and that nobody has acknowledged."),
		alerts:     gauges("postrider_alerts", "The same, by kind.", "kind", labels.AlertKinds),
		endpoints:  gauges("postrider_endpoints", "Endpoints there are, by how they are.", "health", labels.Healths),
		breakers:   gauges("postrider_breakers", "Circuit breakers of endpoints, by state; all that are not open or half-open are closed.", "state", labels.Breakers),
	}
}

func (q *queue) register(reg prometheus.Registerer) {
	reg.MustRegister(q.deliveries, q.oldestDue, q.overdue, q.alertsOpen, q.alerts, q.endpoints, q.breakers)
}

// SetDeliveries sets how many deliveries are in a state.
func (q *queue) SetDeliveries(state string, n int64) {
	q.deliveries.WithLabelValues(state).Set(float64(n))
}

// SetOldestDue sets for how long the oldest due delivery has been so; 0: none is.
func (q *queue) SetOldestDue(age time.Duration) { q.oldestDue.Set(age.Seconds()) }

// SetOldestOverdue sets it for those that nothing of their endpoint's holds back.
func (q *queue) SetOldestOverdue(age time.Duration) { q.overdue.Set(age.Seconds()) }

// SetAlertsOpen sets how many alerts of each kind are open; kinds that are left out have none.
func (q *queue) SetAlertsOpen(kinds []string, byKind func(kind string) int64) {
	var all int64
	for _, kind := range kinds {
		n := byKind(kind)
		all += n
		q.alerts.WithLabelValues(kind).Set(float64(n))
	}
	q.alertsOpen.Set(float64(all))
}

// SetEndpoints sets how many endpoints there are of a health.
func (q *queue) SetEndpoints(health string, n int64) {
	q.endpoints.WithLabelValues(health).Set(float64(n))
}

// SetBreakers sets how many breakers are in a state.
func (q *queue) SetBreakers(state string, n int64) { q.breakers.WithLabelValues(state).Set(float64(n)) }
