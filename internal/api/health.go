package api

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/postrider/postrider/internal/fault"
)

type healthOut struct {
	Body struct {
		Status string `json:"status" enum:"ok"`
	} `nameHint:"Health"`
}

func healthy() *healthOut {
	out := &healthOut{}
	out.Body.Status = "ok"
	return out
}

// live says that the process can answer at all. It asks nobody: a database that is away is no reason to restart us.
func (*server) live(context.Context, *struct{}) (*healthOut, error) { return healthy(), nil }

// pingTime bounds the look at the database, so that whoever asks hears of it before he loses patience.
const pingTime = 2 * time.Second

// ready says that requests can be served now.
func (s *server) ready(ctx context.Context, _ *struct{}) (*healthOut, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	if err := s.d.Ping(ctx); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the database does not answer")
	}
	return healthy(), nil
}

func (s *server) metrics() http.Handler {
	return promhttp.HandlerFor(s.d.Metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}
