package e2e

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	spans "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/postrider/postrider/internal/traceparent"
)

const (
	producersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	producersSpan  = "00f067aa0ba902b7"
	producers      = "00-" + producersTrace + "-" + producersSpan + "-01"
)

// sendTraced enqueues an event as a producer that is traced does.
func (p *process) sendTraced(tenant, kind string) string {
	p.t.Helper()
	r := p.do(http.MethodPost, "/v1/tenants/"+tenant+"/events", "application/json", []byte(`{"type":"`+kind+`","payload":{"a":"c4n4ry"}}`), "traceparent", producers)
	if r.status != http.StatusAccepted {
		p.t.Fatalf("status %d: %s", r.status, r.body)
	}
	return r.object(p.t).text("id")
}

// failsOnce is a receiver whose first answer of each delivery is a 500.
func failsOnce(_ int, r request) string {
	if r.get("postrider-attempt") == "1" {
		return answer(500)
	}
	return answer(200)
}

// An event's way in spans: the producer's, the request below it, the enqueue below that with what the database did for it, and
// each attempt in a trace of its own, linked to the enqueue.
func TestTraces(t *testing.T) {
	t.Parallel()
	c := collect(t)
	asks, silent := receive(t, failsOnce), receive(t, failsOnce)
	p := serve(t, settings{
		"TRACING_ENDPOINT": c.url, "TRACING_HEADERS": "x-token=c4n4ry", "TRACING_SERVICE_NAME": "webhooks",
		"OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test,service.name=no",
	})
	tenant := p.tenant()
	more := object{"headers": object{"Authorization": "Bearer c4n4ry"}}
	plain := p.endpoint(tenant, silent.url("/quiet?token=c4n4ry"), more)
	more["trace_context"], more["uid"] = true, "asks"
	told := p.endpoint(tenant, asks.url("/hook?token=c4n4ry"), more)
	if told["trace_context"] != true || plain["trace_context"] != false {
		t.Errorf("shown: %v and %v", told["trace_context"], plain["trace_context"])
	}
	event := p.sendTraced(tenant, "order.paid")
	eventually(t, func() string {
		if n := len(c.kind(spans.Span_SPAN_KIND_CLIENT, "postrider.event.id", event)); n != 4 {
			return fmt.Sprintf("%d attempts were traced, of 4\n%s", n, p.logged())
		}
		return ""
	})

	server := c.only(spans.Span_SPAN_KIND_SERVER, "http.response.status_code", "202")
	server.wantParent(producersTrace, producersSpan)
	server.want("POST /v1/tenants/{tenant}/events", map[string]string{
		"http.request.method": "POST", "http.route": "/v1/tenants/{tenant}/events", "url.path": "/v1/tenants/" + tenant + "/events",
		"client.address": "127.0.0.1", "network.protocol.version": "1.1", "url.scheme": "http",
	})
	enqueue := c.only(spans.Span_SPAN_KIND_PRODUCER, "postrider.event.id", event)
	enqueue.wantParent(producersTrace, server.span)
	enqueue.want("enqueue", map[string]string{
		"messaging.system": "postrider", "messaging.operation.name": "enqueue", "messaging.operation.type": "send",
		"messaging.message.id": event, "postrider.event.type": "order.paid", "postrider.tenant.id": tenant, "postrider.deliveries": "2",
	})
	stored := c.only(spans.Span_SPAN_KIND_INTERNAL, "postrider.calls", "1")
	stored.wantParent(producersTrace, enqueue.span)
	if of := c.children(stored.span); len(of) == 0 || of[0].attributes["db.system.name"] != "postgresql" {
		t.Errorf("the database's spans below that of the transaction: %v", of)
	}

	seen := map[string]string{} // traceparent by attempt
	for _, r := range asks.requests() {
		seen[r.get("postrider-attempt")] = r.get("traceparent")
	}
	for _, r := range silent.requests() {
		if r.get("traceparent") != "" {
			t.Errorf("a receiver that does not ask got %q", r.get("traceparent"))
		}
	}
	traces := []string{producersTrace}
	for _, a := range c.kind(spans.Span_SPAN_KIND_CLIENT, "postrider.endpoint.id", told.text("id")) {
		if len(a.links) != 1 || a.links[0] != producersTrace+"-"+enqueue.span || a.parent != "" || slices.Contains(traces, a.trace) {
			t.Errorf("%s: trace %s, parent %q, links %v; want a trace of its own and a link to %s", a.name, a.trace, a.parent, a.links, enqueue.span)
		}
		traces = append(traces, a.trace)
		n, host := a.attributes["postrider.attempt"], strings.TrimPrefix(asks.url(""), "http://")
		status, outcome := "200", "succeeded"
		if n == "1" {
			status, outcome = "500", "retryable"
		}
		a.want("POST", map[string]string{
			"http.request.method": "POST", "url.full": "http://" + host + "/hook", "server.address": "127.0.0.1",
			"server.port": strings.TrimPrefix(host, "127.0.0.1:"), "network.peer.address": "127.0.0.1",
			"http.response.status_code": status, "postrider.outcome": outcome,
			"postrider.tenant.id": tenant, "postrider.event.type": "order.paid",
			"http.request.resend_count": map[string]string{"1": "", "2": "1"}[n], "error.type": map[string]string{"1": outcome, "2": ""}[n],
		})
		if got, ok := traceparent.Parse(seen[n]); !ok || got.TraceID() != a.trace || hex.EncodeToString(got.Span[:]) != a.span || !got.Sampled() {
			t.Errorf("attempt %s told its receiver %q; it is %s-%s", n, seen[n], a.trace, a.span)
		}
		eventually(t, func() string {
			if !strings.Contains(p.logged(), `"trace":"`+a.trace+`"`) {
				return "no line of the log names the trace of attempt " + n
			}
			return ""
		})
	}
	if len(traces) != 3 {
		t.Errorf("traces %v", traces)
	}
	c.wantNothingOf("c4n4ry")
	if c.token() != "c4n4ry" || c.resource("service.name") != "webhooks" || c.resource("deployment.environment.name") != "test" {
		t.Errorf("exported with token %q by %q in %q", c.token(), c.resource("service.name"), c.resource("deployment.environment.name"))
	}
}

// While nothing is traced, the producer's own trace goes to whom it is asked for by, and what OpenTelemetry's variables say
// switches nothing on.
func TestProducersTraceIsPassedOn(t *testing.T) {
	t.Parallel()
	c := collect(t)
	asks, silent := receive(t, failsOnce), receive(t, failsOnce)
	p := start(t, settings{"OTEL_EXPORTER_OTLP_ENDPOINT": c.url, "OTEL_TRACES_EXPORTER": "otlp"})
	tenant := p.tenant()
	p.endpoint(tenant, asks.url("/"), object{"trace_context": true})
	p.endpoint(tenant, silent.url("/"), nil)
	p.sendTraced(tenant, "traced")
	p.send(tenant, "untraced", 1)
	eventually(t, func() string {
		if n := asks.count() + silent.count(); n != 8 {
			return fmt.Sprintf("%d requests of 8", n)
		}
		return ""
	})
	for _, r := range append(asks.requests(), silent.requests()...) {
		want := ""
		if r.get("postrider-event-type") == "traced" && slices.ContainsFunc(asks.requests(), func(o request) bool {
			return o.get("postrider-delivery-id") == r.get("postrider-delivery-id")
		}) {
			want = producers
		}
		if got := r.get("traceparent"); got != want {
			t.Errorf("%s, attempt %s: %q, want %q", r.get("postrider-event-type"), r.get("postrider-attempt"), got, want)
		}
	}
	p.stop()
	if n := c.count(); n != 0 {
		t.Errorf("%d spans were exported", n)
	}
	if n := strings.Count(p.logged(), `"trace":"`+producersTrace+`"`); n != 5 {
		t.Errorf("%d lines name the producer's trace, want the request's and four attempts'", n)
	}
}

// A share of nothing exports nothing, but of a trace that a caller began the caller decides; and what one of them has as its
// enqueue, its attempts have.
func TestSampleOfNothing(t *testing.T) {
	t.Parallel()
	c := collect(t)
	to := receive(t, failsOnce)
	p := start(t, settings{"TRACING_ENDPOINT": c.url, "TRACING_SAMPLE": "0", "OTEL_BSP_SCHEDULE_DELAY": "50"})
	tenant := p.tenant()
	p.endpoint(tenant, to.url("/"), object{"trace_context": true})
	quiet := p.send(tenant, "order.paid", 1)
	p.await(quiet, "succeeded")
	if n := c.count(); n != 0 {
		t.Errorf("%d spans were exported", n)
	}
	for _, r := range to.requests() {
		if got, ok := traceparent.Parse(r.get("traceparent")); !ok || got.Sampled() {
			t.Errorf("%q says that the trace is kept", r.get("traceparent"))
		}
	}
	loud := p.sendTraced(tenant, "order.paid")
	p.await(loud, "succeeded")
	p.stop()
	if n := len(c.kind(spans.Span_SPAN_KIND_CLIENT, "postrider.event.id", loud)); n != 2 {
		t.Errorf("%d attempts were exported of a trace that its caller keeps, want 2", n)
	}
	if n := len(c.kind(spans.Span_SPAN_KIND_CLIENT, "postrider.event.id", quiet)); n != 0 {
		t.Errorf("%d attempts were exported of one that is not kept", n)
	}
}

// A collector that is away or does not answer costs deliveries nothing, and a stop little.
func TestDeadCollector(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"away": fmt.Sprintf("http://127.0.0.1:%d", freePort(t)), "deaf": deaf(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := receive(t, always(200))
			p := start(t, settings{"TRACING_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "20", "OTEL_BSP_MAX_QUEUE_SIZE": "64", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "32"})
			tenant := p.tenant()
			p.endpoint(tenant, to.url("/"), nil)
			for i := range 100 {
				p.send(tenant, "order.paid", i)
			}
			eventually(t, func() string {
				if n := to.count(); n != 100 {
					return fmt.Sprintf("%d of 100 were delivered", n)
				}
				return ""
			})
			p.stop() // in its time, or the test fails
			if n := strings.Count(p.logged(), "tracing.export_failed"); n < 1 || n > 2 {
				t.Errorf("%d lines of failed exports, want one a minute", n)
			}
		})
	}
}
