package tracing

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/traceparent"
)

// Attempt begins the span of an attempt. It begins a trace and is linked to the enqueue, instead of being its child: hours may
// lie between, after which tools take a trace for finished; a replay would add to one of last month; and where an event goes to
// a thousand endpoints the trace would be too large to look at.
func (t *Tracing) Attempt(ctx context.Context, a dispatcher.AttemptFacts) dispatcher.AttemptSpan {
	opts := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindClient)}
	if a.Enqueued.Valid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: spanContext(a.Enqueued)}))
	}
	_, span := t.tracer.Start(ctx, http.MethodPost, opts...)
	if span.IsRecording() {
		span.SetAttributes(
			requestMethodKey.String(http.MethodPost), deliveryKey.String(id.Delivery.Format(a.Delivery)),
			eventKey.String(id.Event.Format(a.Event)), endpointKey.String(id.Endpoint.Format(a.Endpoint)),
			tenantKey.String(id.Tenant.Format(a.Tenant)), attemptKey.Int(a.Attempt),
		)
		if a.EventType != "" {
			span.SetAttributes(eventTypeKey.String(a.EventType))
		}
		if a.Attempt > 1 {
			span.SetAttributes(semconv.HTTPRequestResendCount(a.Attempt - 1))
		}
		describe(span, a.URL)
	}
	return attemptSpan{span}
}

// describe tells of a URL what is no secret: queries and what stands before an @ often are.
func describe(span trace.Span, text string) {
	u, err := url.Parse(text)
	if err != nil {
		return
	}
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	span.SetAttributes(semconv.URLFull(bare.String()), semconv.ServerAddress(u.Hostname()))
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		if port = 443; u.Scheme == "http" {
			port = 80
		}
	}
	span.SetAttributes(semconv.ServerPort(port))
}

type attemptSpan struct{ trace.Span }

func (s attemptSpan) Context() traceparent.Context { return contextOf(s.Span) }

// Finish says what came of the attempt. Of an error only its kind is told, as everywhere outside of the attempt's own record.
func (s attemptSpan) Finish(a dispatcher.AttemptEnd) {
	defer s.End()
	if !s.IsRecording() {
		return
	}
	if a.Status != 0 {
		s.SetAttributes(semconv.HTTPResponseStatusCode(a.Status))
	}
	if peer, err := netip.ParseAddrPort(a.Address); err == nil {
		s.SetAttributes(semconv.NetworkPeerAddress(peer.Addr().String()), semconv.NetworkPeerPort(int(peer.Port())))
	}
	if !a.Made {
		s.SetStatus(codes.Error, "")
		s.SetAttributes(errorTypeKey.String("not_attempted"))
		return
	}
	s.SetAttributes(outcomeKey.String(a.Outcome.String()))
	if a.Outcome != dispatcher.Succeeded {
		s.SetStatus(codes.Error, "")
		s.SetAttributes(errorTypeKey.String(a.Outcome.String()))
	}
}
