// Package tracing makes OpenTelemetry spans of what the other packages do, and exports them by OTLP over HTTP. They know
// it as an interface of their own each (api.Tracer, intake.Tracer, dispatcher.Tracer), which is nil while tracing is off,
// so that only the commands know OpenTelemetry.
//
// Spans are exported in the background from a queue with a bound. A collector that is away loses spans, and holds nothing up.
package tracing

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/traceparent"
)

// Options is what an operator may set. What is not here, the SDK reads from the OTEL_… variables: see docs/tracing.md.
type Options struct {
	Endpoint    string // the collector's URL, to which /v1/traces is added
	Headers     map[string]string
	Sample      float64 // the share of traces that begin here
	ServiceName string
	Version     string
	Log         zerolog.Logger
}

// Tracing makes spans. It is made by New and ended by Close.
type Tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// New starts the export. It asks the collector nothing yet: whether that is there shows when there is something to tell.
func New(ctx context.Context, o Options) (*Tracing, error) {
	opts := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(strings.TrimRight(o.Endpoint, "/") + "/v1/traces")}
	if len(o.Headers) > 0 {
		opts = append(opts, otlptracehttp.WithHeaders(o.Headers))
	}
	collector, err := otlptracehttp.New(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("make the exporter of traces: %w", err)
	}
	is, err := resource.New(
		ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv(),
		resource.WithAttributes(semconv.ServiceName(o.ServiceName), semconv.ServiceVersion(o.Version)),
	)
	if err != nil { // OTEL_RESOURCE_ATTRIBUTES is malformed; what could be read is there
		o.Log.Warn().Err(err).Msg("tracing.resource")
	}
	told := &complaints{log: o.Log}
	otel.SetErrorHandler(told) // of what the SDK has no other place for; else it would go to the standard logger
	p := sdk.NewTracerProvider(
		sdk.WithResource(is), sdk.WithSampler(sampler(o.Sample)), sdk.WithBatcher(&exporter{collector, told}),
	)
	return &Tracing{provider: p, tracer: p.Tracer("github.com/postrider/postrider", trace.WithInstrumentationVersion(o.Version))}, nil
}

// ClosePatience is how long Close takes at most.
const ClosePatience = 5 * time.Second

// Close exports what there is still, as far as that can be done within ClosePatience, and ends the export. That a collector
// took nothing is no fault of a stop.
func (t *Tracing) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), ClosePatience)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// Statements makes spans of the statements that run on behalf of a span that is recorded, and of no others.
func (t *Tracing) Statements() pgx.QueryTracer {
	return otelpgx.NewTracer(otelpgx.WithTracerProvider(t.provider))
}

// spanContext is c as OpenTelemetry has it: of a span that somebody else began.
func spanContext(c traceparent.Context) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: c.Trace, SpanID: c.Span, TraceFlags: trace.TraceFlags(c.Flags), Remote: true,
	})
}

// contextOf is spanContext the other way.
func contextOf(s trace.Span) traceparent.Context {
	c := s.SpanContext()
	return traceparent.Context{Trace: c.TraceID(), Span: c.SpanID(), Flags: byte(c.TraceFlags() & trace.FlagsSampled)}
}
