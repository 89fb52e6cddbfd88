package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// web is what callers of the API ask for and get.
type web struct {
	authFailed *prometheus.CounterVec
	requests   *prometheus.CounterVec
	enqueue    prometheus.Histogram
	routes     map[string]bool
}

// OtherRoute is the route of a request for what is no call of the API: a page, a file, a health check, or nothing that there is.
const OtherRoute = "other"

func newWeb(labels Labels) web {
	w := web{
		authFailed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "postrider_auth_failures_total",
			Help: "Requests that no good API key came with, by reason.",
		}, []string{"reason"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "postrider_http_requests_total",
			Help: "Requests answered, by route and by the class of the status.",
		}, []string{"route", "status_class"}),
		enqueue: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "postrider_enqueue_duration_seconds",
			Help:    "How long a request that enqueues took, to its answer after the commit.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
		}),
		routes: map[string]bool{},
	}
	each(labels.Failures, w.authFailed.WithLabelValues)
	w.ExpectRoutes(OtherRoute)
	return w
}

func (w *web) register(reg prometheus.Registerer) {
	reg.MustRegister(w.authFailed, w.requests, w.enqueue)
}

// AuthFailed counts a request that no good API key came with.
func (w *web) AuthFailed(reason string) { w.authFailed.WithLabelValues(reason).Inc() }

// ExpectRoutes names the routes that are counted by themselves, before the first request; all others are OtherRoute.
func (w *web) ExpectRoutes(routes ...string) {
	for _, route := range routes {
		w.routes[route] = true
		for _, class := range statusClasses[2:] {
			w.requests.WithLabelValues(route, class)
		}
	}
}

// Request counts a request that was answered.
func (w *web) Request(route string, status int) {
	if !w.routes[route] {
		route = OtherRoute
	}
	class := statusClasses[2] // net/http's when a handler says nothing
	if digit := status / 100; digit >= 2 && digit < len(statusClasses) {
		class = statusClasses[digit]
	}
	w.requests.WithLabelValues(route, class).Inc()
}

// Enqueued notes how long a request that enqueues took.
func (w *web) Enqueued(took time.Duration) { w.enqueue.Observe(took.Seconds()) }
