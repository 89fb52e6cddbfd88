package intake

import (
	"context"

	"github.com/postrider/postrider/internal/traceparent"
)

// Tracer hears of calls that enqueue, and says in which trace they are. It must not keep them waiting.
type Tracer interface {
	// Enqueue begins the span of a call, below the one that ctx leads to.
	Enqueue(ctx context.Context, c Call) EnqueueSpan
	// Store begins the span of a transaction for the calls in these spans. Its statements run in the ctx that it gives.
	Store(ctx context.Context, calls []traceparent.Context) (context.Context, func(error))
}

// EnqueueSpan is one call to a Tracer.
type EnqueueSpan interface {
	// Context is kept with the call's events.
	Context() traceparent.Context
	Finish(receipts []Receipt, replayed bool, err error)
}

// enqueue carries a request out, traced if anything is.
func (i *Intake) enqueue(ctx context.Context, r *request, c Call) ([]Receipt, bool, error) {
	span := i.begin(ctx, r, c)
	rs, replayed, err := i.queue.do(ctx, r)
	finish(span, rs, replayed, err)
	return rs, replayed, err
}

// begin has a request carry its trace: that of the call's own span, or while nothing is traced here, the caller's.
func (i *Intake) begin(ctx context.Context, r *request, c Call) EnqueueSpan {
	if i.tracer == nil {
		r.trace = traceparent.From(ctx)
		return nil
	}
	span := i.tracer.Enqueue(ctx, c)
	r.trace = span.Context()
	return span
}

func finish(span EnqueueSpan, rs []Receipt, replayed bool, err error) {
	if span != nil {
		span.Finish(rs, replayed, err)
	}
}

// storing begins what a transaction for these requests is seen as.
func (i *Intake) storing(ctx context.Context, reqs []*request) (context.Context, func(error)) {
	if i.tracer == nil {
		return ctx, untraced
	}
	calls := make([]traceparent.Context, len(reqs))
	for n, r := range reqs {
		calls[n] = r.trace
	}
	return i.tracer.Store(ctx, calls)
}

func untraced(error) {}
