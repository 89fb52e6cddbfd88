package tracing

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/traceparent"
)

// Enqueue begins the span of a call that enqueues.
func (t *Tracing) Enqueue(ctx context.Context, c intake.Call) intake.EnqueueSpan {
	_, span := t.tracer.Start(ctx, "enqueue", trace.WithSpanKind(trace.SpanKindProducer))
	if span.IsRecording() {
		span.SetAttributes(
			systemKey.String(system), semconv.MessagingOperationName("enqueue"), operationTypeKey.String("send"),
			tenantKey.String(id.Tenant.Format(c.Tenant)),
		)
		if c.Batch || len(c.Events) > 1 {
			span.SetAttributes(semconv.MessagingBatchMessageCount(len(c.Events)))
		}
	}
	return enqueueSpan{span}
}

type enqueueSpan struct{ trace.Span }

func (s enqueueSpan) Context() traceparent.Context { return contextOf(s.Span) }

// Finish says what became of the call. Of a batch, which may be a thousand, it does not name the events: their attempts
// name the span.
func (s enqueueSpan) Finish(receipts []intake.Receipt, replayed bool, err error) {
	defer s.End()
	if !s.IsRecording() {
		return
	}
	if err != nil {
		s.SetStatus(codes.Error, "")
		s.SetAttributes(errorTypeKey.String(string(fault.CodeOf(err))))
		return
	}
	if len(receipts) == 1 {
		event := id.Event.Format(receipts[0].ID)
		s.SetAttributes(
			semconv.MessagingMessageID(event), eventKey.String(event), eventTypeKey.String(receipts[0].Type),
			deliveriesKey.Int(receipts[0].Deliveries),
		)
	}
	if replayed {
		s.SetAttributes(replayedKey.Bool(true))
	}
}

// Store begins the span of a transaction that several calls share. It lies below the first of them that is recorded and is
// linked to the others: there is no other way to be the child of many.
func (t *Tracing) Store(ctx context.Context, calls []traceparent.Context) (context.Context, func(error)) {
	var parent trace.SpanContext
	var links []trace.Link
	for _, c := range calls {
		switch {
		case !c.Sampled():
		case !parent.IsValid():
			parent = spanContext(c)
		default:
			links = append(links, trace.Link{SpanContext: spanContext(c)})
		}
	}
	if !parent.IsValid() {
		return ctx, func(error) {}
	}
	ctx = trace.ContextWithSpanContext(ctx, parent)
	ctx, span := t.tracer.Start(ctx, "store events", trace.WithLinks(links...), trace.WithAttributes(callsKey.Int(len(calls))))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "")
			span.SetAttributes(errorTypeKey.String(string(fault.CodeOf(err))))
		}
		span.End()
	}
}
