// Package metrics holds the figures that alarms may be built on: their names are part of the contract. It is a leaf, a
// place to write figures to; who measures, counts and serves them is elsewhere. docs/metrics.md has the list.
package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the figures, a file for each kind of them. Its methods may be called by many at once. Every series is there from
// the start, at 0: an alarm on one that is missing never rings.
type Metrics struct {
	traffic
	engine
	queue
	web
	upkeep
	watched
	notices
}

// Labels are the values that labels can have. None of them grows with what strangers do.
type Labels struct {
	Outcomes   []string // of attempts
	States     []string // of deliveries
	Healths    []string // of endpoints
	Breakers   []string // of endpoints' circuit breakers
	AlertKinds []string // of alerts
	Failures   []string // of authentications
	Roles      []string // of processes
	Version    string   // of this build
	Revision   string   // its commit; "" if it is not known
}

// New makes the figures and registers them. Registering twice panics: a process has one of each.
func New(reg prometheus.Registerer, labels Labels) *Metrics {
	m := &Metrics{
		traffic: newTraffic(labels), engine: newEngine(), queue: newQueue(labels), web: newWeb(labels), upkeep: newUpkeep(),
		watched: newWatched(labels), notices: newNotices(),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "postrider_build_info",
		Help: "1, with the build in its labels.",
	}, []string{"version", "revision", "goversion"})
	build.WithLabelValues(labels.Version, labels.Revision, runtime.Version()).Set(1)
	reg.MustRegister(build)
	m.traffic.register(reg)
	m.engine.register(reg)
	m.queue.register(reg)
	m.web.register(reg)
	m.upkeep.register(reg)
	m.watched.register(reg)
	m.notices.register(reg)
	return m
}

// each makes the series of a label's values.
func each[T any](values []string, with func(...string) T) map[string]T {
	series := make(map[string]T, len(values))
	for _, v := range values {
		series[v] = with(v)
	}
	return series
}
