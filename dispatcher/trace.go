package dispatcher

import (
	"context"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/traceparent"
)

// Tracer hears of attempts as they begin and end, and says in which trace they are. It must not keep them waiting.
type Tracer interface {
	Attempt(ctx context.Context, facts AttemptFacts) AttemptSpan
}

// AttemptSpan is one attempt to a Tracer.
type AttemptSpan interface {
	// Context is what the attempt's receiver may be told.
	Context() traceparent.Context
	Finish(end AttemptEnd)
}

// AttemptFacts is what is known of an attempt as it begins.
type AttemptFacts struct {
	Delivery, Event, Endpoint, Tenant id.ID
	EventType                         string
	Attempt                           int
	URL                               string
	Enqueued                          traceparent.Context // of the call that enqueued the event; zero: nobody knows
}

// AttemptEnd is what came of it.
type AttemptEnd struct {
	Made    bool // else nothing went out
	Status  int  // 0: no answer
	Address string
	Outcome Outcome
}

// enqueued is the context of the call that the delivery's event came by: our own span of it if it was traced, or the producer's.
func (c claimed) enqueued() traceparent.Context { return traceparent.FromBytes(c.Trace) }

// begin has the attempt traced, if anything is.
func (d *Dispatcher) begin(ctx context.Context, r *result) {
	if d.deps.Tracer == nil {
		return
	}
	c := r.claimed
	facts := AttemptFacts{
		Delivery: c.delivery(), Event: c.event(), Endpoint: c.endpoint(), Tenant: id.ID{Shard: c.Shard, N: c.TenantID},
		Attempt: c.Attempts, URL: r.target.URL, Enqueued: c.enqueued(),
	}
	if c.EventType != nil {
		facts.EventType = *c.EventType
	}
	r.span = d.deps.Tracer.Attempt(ctx, facts)
}

// traced is where the attempt belongs: its own trace, or while nothing is traced here, the one of whoever enqueued the event.
func (r *result) traced() traceparent.Context {
	if r.span != nil {
		return r.span.Context()
	}
	return r.claimed.enqueued()
}

// traceParent is what the receiver is told, if its endpoint asks for it; "" is nothing.
func (r *result) traceParent() string {
	if !r.target.TraceContext {
		return ""
	}
	if c := r.traced(); c.Valid() {
		return c.String()
	}
	return ""
}

// endSpan ends what begin began.
func (r *result) endSpan() {
	if r.span != nil {
		r.span.Finish(AttemptEnd{Made: r.made, Status: r.answer.status, Address: r.answer.address, Outcome: r.outcome})
	}
}
