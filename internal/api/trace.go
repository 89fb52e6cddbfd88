package api

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"github.com/postrider/postrider/internal/traceparent"
)

// Tracer hears of requests to /v1 as they begin and end. It must not keep them waiting.
type Tracer interface {
	// Request begins the span of a request. What is done for it is done in the ctx that it gives.
	Request(r *http.Request) (context.Context, RequestSpan)
}

// RequestSpan is one request to a Tracer.
type RequestSpan interface {
	Context() traceparent.Context
	Finish(end RequestEnd)
}

// RequestEnd is what is known of a request in the end.
type RequestEnd struct {
	Pattern   string // of the route, as the mux has it; "": none
	Status    int    // 0: it was broken off
	From      netip.Addr
	RequestID string
}

// traced gives the request in its own trace, or while nothing is traced here, in its caller's: that is kept with what is enqueued.
func (s *server) traced(r *http.Request, t *trace) *http.Request {
	if !strings.HasPrefix(r.URL.Path, "/v1/") {
		return r
	}
	if s.d.Tracer != nil {
		ctx, span := s.d.Tracer.Request(r)
		t.span, t.context = span, span.Context()
		return r.WithContext(ctx)
	}
	c, ok := traceparent.Of(r.Header)
	if !ok {
		return r
	}
	t.context = c
	return r.WithContext(traceparent.With(r.Context(), c))
}

// endSpan ends what traced began.
func (t *trace) endSpan(r *http.Request, w *answer) {
	if t.span != nil {
		t.span.Finish(RequestEnd{Pattern: r.Pattern, Status: w.status, From: t.from, RequestID: t.id})
	}
}
