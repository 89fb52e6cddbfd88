package api

import (
	"context"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/stats"
)

// statsView is an endpoint's figures in an answer.
type statsView struct {
	Since       stamp            `json:"since" doc:"What is counted ended then or later: the quarter of an hour that was asked for, from its beginning."`
	Until       stamp            `json:"until"`
	Attempts    map[string]int64 `json:"attempts" nullable:"false" doc:"How many there were of each outcome, all outcomes named." example:"{\"succeeded\":1042,\"timeout\":3}"`
	Total       int64            `json:"attempts_total"`
	SuccessRate *float64         `json:"success_rate" nullable:"true" doc:"The share of attempts that succeeded, 0 to 1; null if there were none." example:"0.997"`
	Latency     latencyView      `json:"latency" doc:"How long attempts took, from their start to the end of the answer or their failure."`
	OldestDueAt *stamp           `json:"oldest_due_at" nullable:"true" doc:"Since when the delivery that has waited longest is due; null if none is."`
}

// latencyView is in milliseconds; null: nothing was measured.
type latencyView struct {
	P50 *float64 `json:"p50_ms" nullable:"true" doc:"Half of them took no longer. Good to a tenth or so, as the others are; null if there were none." example:"41.5"`
	P95 *float64 `json:"p95_ms" nullable:"true" example:"180.2"`
	P99 *float64 `json:"p99_ms" nullable:"true" example:"960"`
}

func viewStats(s stats.Series, due *time.Time) statsView {
	v := statsView{
		Since: stamp(s.Since), Until: stamp(s.Until), Attempts: map[string]int64{}, Total: s.Attempts.Sum(), OldestDueAt: stampOf(due),
	}
	for _, o := range dispatcher.Outcomes() {
		v.Attempts[o.String()] = s.Attempts.Of(o)
	}
	if rate, known := s.SuccessRate(); known {
		v.SuccessRate = &rate
	}
	if l := s.Latency; l.Measured > 0 {
		v.Latency = latencyView{P50: inMillis(l.P50), P95: inMillis(l.P95), P99: inMillis(l.P99)}
	}
	return v
}

func inMillis(d time.Duration) *float64 {
	d = d.Round(10 * time.Microsecond)
	return milliseconds(&d)
}

type statsIn struct {
	EndpointIn
	Since string `query:"since" format:"date-time" doc:"What ended then or later, to the quarter of an hour; a day ago if absent."`
}

type statsOut struct{ Body statsView }

const statsSpan = 24 * time.Hour

func (s *server) readStats(ctx context.Context, in *statsIn) (*statsOut, error) {
	e, err := s.d.Subscriptions.Endpoint(ctx, tenantOf(ctx), in.Endpoint)
	if err != nil {
		return nil, err
	}
	var faults fault.Fields
	now := s.d.Stats.Now()
	since := parseTime(&faults, "?since", in.Since)
	switch {
	case in.Since == "":
		since = now.Add(-statsSpan)
	case since.After(now):
		faults.Addf("?since", "is in the future")
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	found, err := s.d.Stats.Endpoint(ctx, e.ID, since, 0)
	if err != nil {
		return nil, err
	}
	due, err := s.d.Deliveries.OldestDue(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	return &statsOut{Body: viewStats(found, due)}, nil
}
