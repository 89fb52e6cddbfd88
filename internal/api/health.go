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

// live says that the process can answer at all, and that no part of it hangs for a fault of its own. It asks nobody: a database that is
// away is no reason to restart us.
func (s *server) live(context.Context, *struct{}) (*healthOut, error) {
	if part := s.d.Hanging(); part != "" {
		return nil, fault.New(fault.Unavailable, "%s hangs: restart this process", part)
	}
	return healthy(), nil
}

// pingTime bounds the look at the database, so that whoever asks hears of it before he loses patience.
const pingTime = 2 * time.Second

// ready says that requests can be served now, and that what the process's roles are for gets on.
func (s *server) ready(ctx context.Context, _ *struct{}) (*healthOut, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	if err := s.d.Ping(ctx); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the database does not answer")
	}
	if part := s.d.Standing(); part != "" {
		return nil, fault.New(fault.Unavailable, "%s does not get on", part)
	}
	return healthy(), nil
}

func (s *server) metrics() http.Handler {
	return promhttp.HandlerFor(s.d.Metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}
