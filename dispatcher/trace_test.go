package dispatcher

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/traceparent"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// tracer notes attempts.
type tracer struct {
	mu    sync.Mutex
	begun []AttemptFacts
	ended []AttemptEnd
}

type tracedAttempt struct {
	t  *tracer
	at traceparent.Context
}

func (t *tracer) Attempt(_ context.Context, f AttemptFacts) AttemptSpan {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = append(t.begun, f)
	return tracedAttempt{t, traceparent.Context{Trace: [16]byte{9}, Span: [8]byte{byte(len(t.begun))}, Flags: 1}}
}

func (a tracedAttempt) Context() traceparent.Context { return a.at }

func (a tracedAttempt) Finish(e AttemptEnd) {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	a.t.ended = append(a.t.ended, e)
}

// What the event's enqueue was known by comes with every way to claim, and what began ends, once, whatever came of it.
func TestAttemptsAreTraced(t *testing.T) {
	t.Parallel()
	enqueued, _ := traceparent.Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	var sent []string
	w := newWorld(t, func(r *http.Request) (*http.Response, error) {
		sent = append(sent, r.Header[traceparent.Name]...) //nolint:staticcheck // as it is sent
		if len(sent) == 3 {
			panic("our own fault")
		}
		return reply(http.StatusTeapot, nil, "")
	})
	traced := &tracer{}
	w.d.deps.Tracer = traced
	w.d.cfg.MaxInFlight = 1 // one after the other
	asks, yes := w.endpoint(), true
	_, err := w.store.UpdateEndpoint(t.Context(), w.tenant, id.Endpoint.Format(asks), "", subscriptions.EndpointPatch{
		TraceContext: subscriptions.Optional[bool]{Given: true, Value: &yes},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.enqueue(asks, `{}`)
	w.round(w.d)
	w.enqueueIn(1, asks, `{}`)
	if _, err := w.db.Exec(t.Context(), `UPDATE events SET trace = $1`, enqueued.Bytes()); err != nil {
		t.Fatal(err)
	}
	w.round(w.d)
	w.enqueue(asks, `{}`)
	w.round(w.d)
	want := []string{
		"00-09000000000000000000000000000000-0100000000000000-01", "00-09000000000000000000000000000000-0200000000000000-01",
		"00-09000000000000000000000000000000-0300000000000000-01",
	}
	if len(sent) != 3 || sent[0] != want[0] || sent[1] != want[1] || sent[2] != want[2] {
		t.Errorf("receivers were told %v", sent)
	}
	if len(traced.begun) != 3 || traced.begun[0].Enqueued.Valid() || traced.begun[1].Enqueued != enqueued || traced.begun[1].Attempt != 1 ||
		traced.begun[1].URL != "https://receiver.test/hook" || traced.begun[1].EventType != "order.paid" || traced.begun[1].Tenant != w.tenant.ID {
		t.Errorf("begun %+v", traced.begun)
	}
	if len(traced.ended) != 3 || traced.ended[1] != (AttemptEnd{Made: true, Status: http.StatusTeapot, Outcome: Rejected}) || traced.ended[2].Outcome != Unknown {
		t.Errorf("ended %+v", traced.ended)
	}
}

// While nothing is traced, an attempt takes no memory for it, and its headers no more than they have.
func TestWhatIsNotTracedCostsNothing(t *testing.T) { //nolint:paralleltest // it counts allocations, of which there are others' then
	d := &Dispatcher{}
	eventType := "order.paid"
	r := &result{claimed: claimed{EventType: &eventType}, target: &subscriptions.Target{URL: "https://receiver.test", TraceContext: true}}
	facts := headerFacts{signed: make([]signer.Header, 3)}
	if n := testing.AllocsPerRun(100, func() {
		d.begin(t.Context(), r)
		facts.traceParent = r.traceParent()
		r.endSpan()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { requestHeaders(facts) }); n != 1 {
		t.Errorf("%v allocations for headers, want their one", n)
	}
	facts.traceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	if n := testing.AllocsPerRun(100, func() { requestHeaders(facts) }); n != 1 {
		t.Errorf("%v allocations for headers with a trace, want their one", n)
	}
}
