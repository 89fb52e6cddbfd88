// Package metrics holds the figures that alarms may be built on: their names are part of the contract. It is a leaf, a
// place to write figures to; who measures, counts and serves them is elsewhere.
package metrics

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the figures. Its methods may be called by many at once. Every series is there from the start, at 0: an
// alarm on one that is missing never rings.
type Metrics struct {
	accepted   prometheus.Counter
	attempts   *prometheus.CounterVec
	duration   prometheus.Histogram
	latency    prometheus.Histogram
	deliveries *prometheus.GaugeVec
	oldestDue  prometheus.Gauge
	inFlight   prometheus.Gauge
	alertsOpen prometheus.Gauge
	authFailed *prometheus.CounterVec
}

// Labels are the values that labels can have.
type Labels struct {
	Outcomes []string // of attempts
	States   []string // of deliveries
	Failures []string // of authentications
	Version  string   // of this build
	Revision string   // the commit it was made of
}

// New makes the figures and registers them. Registering twice panics: a process has one of each.
func New(reg prometheus.Registerer, labels Labels) *Metrics {
	m := &Metrics{
		accepted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "postrider_events_accepted_total",
			Help: "Events accepted, counted when their transaction has committed.",
		}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "postrider_attempts_total",
			Help: "Attempts made, by outcome.",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "postrider_attempt_duration_seconds",
			Help: "How long an attempt took, from its start to the end of the answer or its failure.",
			// Up to delivery.timeout (15 s), and what an endpoint may set.
			Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60},
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "postrider_delivery_latency_seconds",
			Help: "From accepting an event to the success of a delivery of it.",
			// To the second for a first try; then the places of the default schedule: 1m, 6m, 36m, 2h36m, 8h36m.
			Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 90, 450, 2700, 11000, 36000, 86400},
		}),
		deliveries: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "postrider_deliveries",
			Help: "Deliveries there are, by state; finished ones as long as history is kept.",
		}, []string{"state"}),
		oldestDue: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "postrider_oldest_due_seconds",
			Help: "For how long the oldest delivery has been due that an enabled endpoint could have had; 0 when none is.",
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "postrider_in_flight",
			Help: "Deliveries that this process is trying.",
		}),
		alertsOpen: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "postrider_alerts_open",
			Help: "Alerts that are open and that nobody has acknowledged.",
		}),
		authFailed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "postrider_auth_failures_total",
			Help: "Requests that no good API key came with, by reason.",
		}, []string{"reason"}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "postrider_build_info",
		Help: "1, with the build in its labels.",
	}, []string{"version", "revision", "goversion"})
	build.WithLabelValues(labels.Version, labels.Revision, runtime.Version()).Set(1)
	for _, o := range labels.Outcomes {
		m.attempts.WithLabelValues(o)
	}
	for _, s := range labels.States {
		m.deliveries.WithLabelValues(s)
	}
	for _, f := range labels.Failures {
		m.authFailed.WithLabelValues(f)
	}
	reg.MustRegister(m.authFailed, m.accepted, m.attempts, m.duration, m.latency, m.deliveries, m.oldestDue, m.inFlight, m.alertsOpen, build)
	return m
}

// Accepted counts events whose transaction has committed.
func (m *Metrics) Accepted(n int) { m.accepted.Add(float64(n)) }

// Attempt counts an attempt and how long it took; 0: nobody knows, or it was no request.
func (m *Metrics) Attempt(outcome string, took time.Duration) {
	m.attempts.WithLabelValues(outcome).Inc()
	if took > 0 {
		m.duration.Observe(took.Seconds())
	}
}

// Delivered notes how long after its event's acceptance a delivery succeeded.
func (m *Metrics) Delivered(latency time.Duration) { m.latency.Observe(latency.Seconds()) }

// InFlight changes the number of deliveries that this process is trying.
func (m *Metrics) InFlight(delta int) { m.inFlight.Add(float64(delta)) }

// SetDeliveries sets how many deliveries are in a state.
func (m *Metrics) SetDeliveries(state string, n int64) {
	m.deliveries.WithLabelValues(state).Set(float64(n))
}

// SetOldestDue sets for how long the oldest due delivery has been so; 0: none is.
func (m *Metrics) SetOldestDue(age time.Duration) { m.oldestDue.Set(age.Seconds()) }

// AuthFailed counts a request that no good API key came with.
func (m *Metrics) AuthFailed(reason string) { m.authFailed.WithLabelValues(reason).Inc() }

// SetAlertsOpen sets how many alerts are open.
func (m *Metrics) SetAlertsOpen(n int64) { m.alertsOpen.Set(float64(n)) }
