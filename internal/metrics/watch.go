package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// watched is what says whether deliveries are made.
type watched struct {
	processes  *prometheus.GaugeVec
	canary     prometheus.Histogram
	canaryLast prometheus.Gauge
}

func newWatched(labels Labels) watched {
	w := watched{
		processes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "postrider_processes",
			Help: "Processes that do what the role is for, of all on the database, as this one sees it.",
		}, []string{"role"}),
		canary: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "postrider_canary_duration_seconds",
			Help: "From accepting a canary to its receiver's having it, of those that this process has sent.",
			// As long as postrider_delivery_latency_seconds, up to the longest that one is waited for.
			Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 30, 60},
		}),
		canaryLast: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "postrider_canary_last_success_timestamp_seconds",
			Help: "When a canary came the whole way last, whoever sent it; 0: none has, or canary.enabled is off.",
		}),
	}
	each(labels.Roles, w.processes.WithLabelValues)
	return w
}

func (w *watched) register(reg prometheus.Registerer) {
	reg.MustRegister(w.processes, w.canary, w.canaryLast)
}

// SetProcesses sets how many processes do what a role is for.
func (w *watched) SetProcesses(role string, n int) { w.processes.WithLabelValues(role).Set(float64(n)) }

// CanaryCame notes how long a canary took.
func (w *watched) CanaryCame(took time.Duration) { w.canary.Observe(took.Seconds()) }

// SetCanarySucceeded sets when a canary came the whole way last.
func (w *watched) SetCanarySucceeded(at time.Time) {
	w.canaryLast.Set(float64(at.UnixMilli()) / 1000)
}
