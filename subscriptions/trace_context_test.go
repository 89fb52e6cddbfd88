package subscriptions_test

import (
	"slices"
	"testing"

	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// The header is sent by one of the two, Postrider or the owner, whichever of the settings comes second.
func TestTraceContextAndTheOwnersHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	type patch = subscriptions.EndpointPatch
	stripe := func(n *subscriptions.NewEndpoint) { n.Scheme = signer.Stripe }
	for name, c := range map[string]struct {
		made func(*subscriptions.NewEndpoint)
		p    patch
		at   []string
	}{
		"its own without ours":           {nil, patch{Headers: put(headers("Traceparent", "x"))}, nil},
		"both at once":                   {nil, patch{Headers: put(headers("TRACEPARENT", "x")), TraceContext: put(true)}, []string{"/headers/TRACEPARENT"}},
		"its own first":                  {func(n *subscriptions.NewEndpoint) { n.Headers = headers("traceparent", "x") }, patch{TraceContext: put(true)}, []string{"/trace_context"}},
		"ours first":                     {func(n *subscriptions.NewEndpoint) { n.TraceContext = true }, patch{Headers: put(headers("traceparent", "x"))}, []string{"/headers/traceparent"}},
		"another header":                 {func(n *subscriptions.NewEndpoint) { n.TraceContext = true }, patch{Headers: put(headers("tracestate", "x"))}, nil},
		"ours off again, and its own":    {func(n *subscriptions.NewEndpoint) { n.TraceContext = true }, patch{TraceContext: put(false), Headers: put(headers("traceparent", "x"))}, nil},
		"its own gone, and ours":         {func(n *subscriptions.NewEndpoint) { n.Headers = headers("traceparent", "x") }, patch{TraceContext: put(true), Headers: null[[]signer.Header]()}, nil},
		"the signature's header":         {stripe, patch{SignatureHeader: put("traceparent"), TraceContext: put(true)}, []string{"/signature/header"}},
		"the signature's header is kept": {func(n *subscriptions.NewEndpoint) { stripe(n); n.SignatureHeader = "traceparent" }, patch{TraceContext: put(true)}, []string{"/trace_context"}},
		"of kind pull":                   {func(n *subscriptions.NewEndpoint) { n.Kind, n.URL = subscriptions.Pull, "" }, patch{TraceContext: put(true)}, []string{"/trace_context"}},
	} {
		e, _ := w.endpoint(tenant, c.made)
		got, err := w.UpdateEndpoint(t.Context(), tenant, ref(e), "", c.p)
		if c.at == nil && (err != nil || got.TraceContext != (c.p.TraceContext.Given && *c.p.TraceContext.Value || e.TraceContext && !c.p.TraceContext.Given)) {
			t.Errorf("%s: %v, %v", name, got.TraceContext, err)
		}
		if c.at != nil {
			if at := pointers(t, err); !slices.Equal(at, c.at) {
				t.Errorf("%s: at fault are %v, want %v", name, at, c.at)
			}
		}
	}
}
