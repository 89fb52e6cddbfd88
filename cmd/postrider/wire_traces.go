package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/config"
	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/tracing"
	"github.com/rs/zerolog"
)

// traces is what each part is given to have it traced: all nil while tracing is off, so that nothing is asked of anybody.
type traces struct {
	export     *tracing.Tracing
	statements pgx.QueryTracer // of all but the dispatcher's queue, whose statements are on nobody's behalf
	requests   api.Tracer
	enqueues   intake.Tracer
	attempts   dispatcher.Tracer
}

func newTraces(ctx context.Context, c config.Tracing, log zerolog.Logger) (t traces, err error) {
	if c.Endpoint == "" {
		return traces{}, nil
	}
	headers := make(map[string]string, len(c.Headers))
	for _, h := range c.Headers {
		headers[h.Name] = h.Value
	}
	t.export, err = tracing.New(ctx, tracing.Options{
		Endpoint: c.Endpoint, Headers: headers, Sample: c.Sample, ServiceName: c.ServiceName, Version: buildVersion(), Log: log,
	})
	if err != nil {
		return traces{}, fmt.Errorf("use tracing.endpoint: %w", err)
	}
	t.statements = t.export.Statements()
	t.requests, t.enqueues, t.attempts = t.export, t.export, t.export
	return t, nil
}

// close exports what is left.
func (t traces) close() {
	if t.export != nil {
		t.export.Close()
	}
}

// addTraces adds the export of spans, before all that makes some, so that it ends after them.
func (w *wiring) addTraces() {
	if w.traces.export == nil {
		return
	}
	w.add(part{name: "the traces", stop: tracing.ClosePatience + settle, run: func(ctx context.Context) error {
		<-ctx.Done()
		w.traces.close()
		return nil
	}})
}
