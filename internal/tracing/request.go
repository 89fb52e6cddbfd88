package tracing

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/traceparent"
)

// Request begins the span of a request to the API: below the span that the caller names in traceparent, if they do.
func (t *Tracing) Request(r *http.Request) (context.Context, api.RequestSpan) {
	ctx := r.Context()
	if c, ok := traceparent.Of(r.Header); ok {
		ctx = trace.ContextWithRemoteSpanContext(ctx, spanContext(c))
	}
	ctx, span := t.tracer.Start(ctx, methodOf(r), trace.WithSpanKind(trace.SpanKindServer))
	return ctx, requestSpan{span, r}
}

type requestSpan struct {
	trace.Span
	asked *http.Request // as it came
}

func (s requestSpan) Context() traceparent.Context { return contextOf(s.Span) }

// Finish names the span by the route: which one it was is known only now. The path is told and the query is not.
func (s requestSpan) Finish(a api.RequestEnd) {
	defer s.End()
	if !s.IsRecording() {
		return
	}
	method := methodOf(s.asked)
	if route := strings.TrimPrefix(a.Pattern, s.asked.Method+" "); route != "" {
		s.SetName(method + " " + route)
		s.SetAttributes(semconv.HTTPRoute(route))
	}
	s.SetAttributes(
		requestMethodKey.String(method), semconv.URLPath(s.asked.URL.Path), semconv.URLScheme("http"),
		semconv.ClientAddress(a.From.String()), semconv.NetworkProtocolVersion(strings.TrimPrefix(s.asked.Proto, "HTTP/")),
		requestIDKey.String(a.RequestID),
	)
	if agent := s.asked.UserAgent(); agent != "" {
		s.SetAttributes(semconv.UserAgentOriginal(agent))
	}
	if a.Status == 0 { // the connection was broken off
		s.SetStatus(codes.Error, "")
		s.SetAttributes(errorTypeKey.String("aborted"))
		return
	}
	s.SetAttributes(semconv.HTTPResponseStatusCode(a.Status))
	if a.Status >= http.StatusInternalServerError { // what the caller did wrong is no error of a server
		s.SetStatus(codes.Error, "")
		s.SetAttributes(errorTypeKey.Int(a.Status))
	}
}

// methodOf is the method as far as it is one of the known ones: anybody may send any word for it.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "_OTHER"
}
