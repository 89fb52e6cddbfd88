package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// traffic is what goes through: events in, attempts and their answers out.
type traffic struct {
	accepted prometheus.Counter
	attempts *prometheus.CounterVec
	answers  [6]prometheus.Counter // by the first digit of the status; 0: none came
	duration prometheus.Histogram
	latency  prometheus.Histogram
	inFlight prometheus.Gauge
	byClass  *prometheus.CounterVec
}

// statusClasses are the values of status_class, by the first digit of a status. 1xx is no final answer.
var statusClasses = [6]string{0: "none", 2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}

func newTraffic(labels Labels) traffic {
	t := traffic{
		accepted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "postrider_events_accepted_total",
			Help: "Events accepted, counted when their transaction has committed.",
		}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "postrider_attempts_total",
			Help: "Attempts made, by outcome.",
		}, []string{"outcome"}),
		byClass: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "postrider_attempt_answers_total",
			Help: "Attempts made, by the class of the answer's status; none: no whole answer came.",
		}, []string{"status_class"}),
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
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "postrider_in_flight",
			Help: "Deliveries that this process is trying.",
		}),
	}
	each(labels.Outcomes, t.attempts.WithLabelValues)
	for digit, class := range statusClasses {
		if class != "" {
			t.answers[digit] = t.byClass.WithLabelValues(class)
		}
	}
	return t
}

func (t *traffic) register(reg prometheus.Registerer) {
	reg.MustRegister(t.accepted, t.attempts, t.byClass, t.duration, t.latency, t.inFlight)
}

// Accepted counts events whose transaction has committed.
func (t *traffic) Accepted(n int) { t.accepted.Add(float64(n)) }

// Attempt counts an attempt, the status of its answer (0: none came, or nobody saw it) and how long it took; 0: nobody knows, or it
// was no request.
func (t *traffic) Attempt(outcome string, status int, took time.Duration) {
	t.attempts.WithLabelValues(outcome).Inc()
	digit := status / 100
	if digit < 2 || digit >= len(statusClasses) {
		digit = 0
	}
	t.answers[digit].Inc()
	if took > 0 {
		t.duration.Observe(took.Seconds())
	}
}

// Delivered notes how long after its event's acceptance a delivery succeeded.
func (t *traffic) Delivered(latency time.Duration) { t.latency.Observe(latency.Seconds()) }

// InFlight changes the number of deliveries that this process is trying.
func (t *traffic) InFlight(delta int) { t.inFlight.Add(float64(delta)) }
