package tracing

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/traceparent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorded makes spans that lie in memory once they have ended.
func recorded(share float64) (*Tracing, *tracetest.SpanRecorder) {
	r := tracetest.NewSpanRecorder()
	p := sdk.NewTracerProvider(sdk.WithSampler(sampler(share)), sdk.WithSpanProcessor(r))
	return &Tracing{provider: p, tracer: p.Tracer("test")}, r
}

func attributes(s sdk.ReadOnlySpan) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes() {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

// What an attempt is linked to decides, whatever the share; else the share does.
func TestAttemptsAreKeptAsTheirEnqueueIs(t *testing.T) {
	t.Parallel()
	kept, _ := traceparent.Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	left := kept
	left.Flags = 0
	for name, c := range map[string]struct {
		share float64
		of    traceparent.Context
		want  bool
	}{
		"kept, of all":         {1, kept, true},
		"kept, of none":        {0, kept, true},
		"left out, of all":     {1, left, false},
		"left out, of none":    {0, left, false},
		"of nothing, of all":   {1, traceparent.Context{}, true},
		"of nothing, and none": {0, traceparent.Context{}, false},
	} {
		tr, r := recorded(c.share)
		span := tr.Attempt(t.Context(), dispatcher.AttemptFacts{Enqueued: c.of})
		span.Finish(dispatcher.AttemptEnd{Made: true, Outcome: dispatcher.Succeeded})
		if got := span.Context(); len(r.Ended()) == 1 != c.want || got.Sampled() != c.want || !got.Valid() || got.Trace == c.of.Trace {
			t.Errorf("%s: %d kept, %v", name, len(r.Ended()), got)
		}
	}
}

// Where there is a token in a URL as a rule, nothing is told.
func TestAttemptTellsOfItsURLWhatIsNoSecret(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][3]string{
		"https://hooks.example/a%2Fb?token=c4n4ry#x": {"https://hooks.example/a%2Fb", "hooks.example", "443"},
		"http://u:c4n4ry@hooks.example:8080/":        {"http://hooks.example:8080/", "hooks.example", "8080"},
		"http://[::1]/x":                             {"http://[::1]/x", "::1", "80"},
		"https://%zz":                                {"", "", ""},
	} {
		tr, r := recorded(1)
		tr.Attempt(t.Context(), dispatcher.AttemptFacts{URL: url, Attempt: 3}).Finish(dispatcher.AttemptEnd{Address: "[2001:db8::1]:443"})
		got := attributes(r.Ended()[0])
		if got["url.full"] != want[0] || got["server.address"] != want[1] || got["server.port"] != want[2] ||
			got["http.request.resend_count"] != "2" || got["network.peer.address"] != "2001:db8::1" {
			t.Errorf("%s: %v", url, got)
		}
		if r.Ended()[0].Status().Code != codes.Error || got["error.type"] != "not_attempted" {
			t.Errorf("what was not sent: %v", got)
		}
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method string
		end    api.RequestEnd
		span   string
		failed bool
		kind   string
	}{
		"good":       {"GET", api.RequestEnd{Pattern: "GET /v1/jobs/{job}", Status: 200}, "GET /v1/jobs/{job}", false, ""},
		"refused":    {"GET", api.RequestEnd{Pattern: "GET /v1/jobs/{job}", Status: 404}, "GET /v1/jobs/{job}", false, ""},
		"failed":     {"GET", api.RequestEnd{Pattern: "GET /v1/jobs/{job}", Status: 503}, "GET /v1/jobs/{job}", true, "503"},
		"no route":   {"GET", api.RequestEnd{Status: 404}, "GET", false, ""},
		"any word":   {"BREW", api.RequestEnd{Status: 405}, "_OTHER", false, ""},
		"broken off": {"PUT", api.RequestEnd{}, "PUT", true, "aborted"},
	} {
		tr, r := recorded(1)
		c.end.From = netip.MustParseAddr("192.0.2.1")
		_, span := tr.Request(httptest.NewRequest(c.method, "/v1/jobs/job_1?key=c4n4ry", http.NoBody))
		span.Finish(c.end)
		s := r.Ended()[0]
		got := attributes(s)
		if s.Name() != c.span || (s.Status().Code == codes.Error) != c.failed || got["error.type"] != c.kind || got["url.path"] != "/v1/jobs/job_1" ||
			got["client.address"] != "192.0.2.1" || strings.Contains(strings.Join([]string{s.Name(), got["url.path"], got["url.full"], got["url.query"]}, " "), "c4n4ry") {
			t.Errorf("%s: %s %v", name, s.Name(), got)
		}
	}
}

// A transaction for many is the child of one and linked to the rest, as far as they are kept.
func TestStoreIsOfAllThatAreKept(t *testing.T) {
	t.Parallel()
	tr, r := recorded(1)
	quiet, _ := recorded(0)
	var of []traceparent.Context
	for range 3 {
		of = append(of, tr.Enqueue(t.Context(), intake.Call{}).Context(), quiet.Enqueue(t.Context(), intake.Call{}).Context(), traceparent.Context{})
	}
	_, done := tr.Store(t.Context(), of)
	done(errors.New("c4n4ry"))
	s := r.Ended()[0]
	if s.Parent().SpanID() != of[0].Span || len(s.Links()) != 2 || s.Links()[0].SpanContext.SpanID() != of[3].Span ||
		s.Status().Code != codes.Error || s.Status().Description != "" {
		t.Errorf("below %v, linked to %v, %v", s.Parent(), s.Links(), s.Status())
	}
	ctx, done := quiet.Store(t.Context(), of[1:3])
	if done(nil); ctx != t.Context() {
		t.Error("a span of nothing that is kept")
	}
}

// The log is not flooded, and loses count of nothing.
func TestComplaintsAreFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		e := &exporter{failing{}, &complaints{log: zerolog.New(&log)}}
		for range 121 {
			if err := e.ExportSpans(t.Context(), make([]sdk.ReadOnlySpan, 2)); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second) //nolint:forbidigo // of the test's own clock
		}
		if got := strings.Count(log.String(), "tracing.export_failed"); got != 3 || strings.Count(log.String(), `"spans":120`) != 2 {
			t.Errorf("%s", log.String())
		}
	})
}

type failing struct{ sdk.SpanExporter }

func (failing) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return errors.New("away") }
