package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// engine is how this process gets on with the queue.
type engine struct {
	claimed       prometheus.Histogram
	claimTook     prometheus.Histogram
	rescued       prometheus.Counter
	leasesLost    prometheus.Counter
	recorded      prometheus.Histogram
	recordTook    prometheus.Histogram
	recordsFailed prometheus.Counter
	committed     prometheus.Histogram
}

func newEngine() engine {
	// Of a claim, a record and a group of enqueues: 500 at most, 1,000 if one request brings as many.
	rows := []float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1000}
	times := []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return engine{
		claimed:       histogram("postrider_claim_deliveries", "Deliveries that a claim took; 0 where there was nothing after all.", append([]float64{0}, rows...)),
		claimTook:     histogram("postrider_claim_duration_seconds", "How long a claim's round trip to the database took.", times),
		rescued:       counter("postrider_leases_rescued_total", "Attempts whose process did not come back before the lease ended, put back by this process."),
		leasesLost:    counter("postrider_leases_lost_total", "Attempts of this process that ended after their lease and changed nothing."),
		recorded:      histogram("postrider_record_attempts", "Attempts that were recorded in one transaction.", rows),
		recordTook:    histogram("postrider_record_duration_seconds", "How long recording them took, with the commit.", times),
		recordsFailed: counter("postrider_records_failed_total", "Transactions of attempts that the database did not take; they are tried again."),
		committed:     histogram("postrider_intake_commit_events", "Events that were stored in one transaction of the API.", rows),
	}
}

func (e *engine) register(reg prometheus.Registerer) {
	reg.MustRegister(e.claimed, e.claimTook, e.rescued, e.leasesLost, e.recorded, e.recordTook, e.recordsFailed, e.committed)
}

// Claimed notes a claim: how many deliveries it took, and how long.
func (e *engine) Claimed(deliveries int, took time.Duration) {
	e.claimed.Observe(float64(deliveries))
	e.claimTook.Observe(took.Seconds())
}

// Rescued counts attempts whose lease ran out with their process.
func (e *engine) Rescued(attempts int) { e.rescued.Add(float64(attempts)) }

// LeasesLost counts attempts that came back after their lease.
func (e *engine) LeasesLost(attempts int) { e.leasesLost.Add(float64(attempts)) }

// Recorded notes a transaction of attempts.
func (e *engine) Recorded(attempts int, took time.Duration) {
	e.recorded.Observe(float64(attempts))
	e.recordTook.Observe(took.Seconds())
}

// RecordFailed counts one that the database did not take.
func (e *engine) RecordFailed() { e.recordsFailed.Inc() }

// Committed notes how many events went into a transaction together.
func (e *engine) Committed(events int) { e.committed.Observe(float64(events)) }
