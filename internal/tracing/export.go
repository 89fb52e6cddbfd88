package tracing

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// exporter says of spans that could not be exported how many they were, which the SDK does not.
type exporter struct {
	sdk.SpanExporter
	told *complaints
}

// ExportSpans fails for nobody: who made the spans does not wait for it.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.told.add(err, len(spans))
	}
	return nil
}

// complainEvery is the least time between two lines about a collector. There may be a failure each second for days.
const complainEvery = time.Minute

// complaints writes of failed exports now and then, and how many spans were lost meanwhile.
type complaints struct {
	log zerolog.Logger

	mu   sync.Mutex
	last time.Time
	lost int // since then
}

// Handle takes what the SDK has to complain of.
func (c *complaints) Handle(err error) { c.add(err, 0) }

func (c *complaints) add(err error, spans int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost += spans
	if now := time.Now(); c.last.IsZero() || now.Sub(c.last) >= complainEvery {
		c.log.Warn().Err(err).Int("spans", c.lost).Msg("tracing.export_failed")
		c.last, c.lost = now, 0
	}
}
