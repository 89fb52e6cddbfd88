package tracing

import (
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// sampler keeps what the span's parent was kept of, and a share of what has no parent.
func sampler(share float64) sdk.Sampler {
	return sdk.ParentBased(byLink{sdk.TraceIDRatioBased(share)})
}

// byLink has an attempt, whose trace is its own, be kept exactly if the enqueue that it is linked to was: by chance anew for
// each, a share of a tenth would leave a hundredth of the events whole.
type byLink struct{ sdk.Sampler }

func (s byLink) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	if len(p.Links) == 0 {
		return s.Sampler.ShouldSample(p)
	}
	decision := sdk.Drop
	if p.Links[0].SpanContext.IsSampled() {
		decision = sdk.RecordAndSample
	}
	return sdk.SamplingResult{Decision: decision, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
}

func (s byLink) Description() string { return "ByLink{" + s.Sampler.Description() + "}" }
