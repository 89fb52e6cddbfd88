package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// notices are those of the sender of alerts, which every process has: take the sum of what is counted, and the max of the age.
type notices struct {
	results *prometheus.CounterVec
	oldest  prometheus.Gauge
}

func newNotices() notices {
	n := notices{
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "postrider_alert_notices_total",
			Help: "Notices of alerts: sent everywhere they go, failed on a channel and to be tried again, or given up on one.",
		}, []string{"result"}),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "postrider_alert_notices_oldest_seconds",
			Help: "For how long the oldest notice of an alert has not been sent everywhere it goes; 0 when there is none.",
		}),
	}
	each([]string{"sent", "failed", "given_up"}, n.results.WithLabelValues)
	return n
}

func (n *notices) register(reg prometheus.Registerer) { reg.MustRegister(n.results, n.oldest) }

// Notices counts notices of alerts by what became of them: sent, failed or given_up.
func (n *notices) Notices(result string, count int) {
	n.results.WithLabelValues(result).Add(float64(count))
}

// SetOldestNotice sets for how long the oldest notice has waited.
func (n *notices) SetOldestNotice(age time.Duration) { n.oldest.Set(age.Seconds()) }
