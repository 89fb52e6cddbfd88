package subscriptions

import (
	"strings"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/traceparent"
	"github.com/postrider/postrider/signer"
)

func anyBool(b bool) (bool, error) { return b, nil }

// checkTraceContext keeps the header, which Postrider sets only where an endpoint asks for it, from being sent twice: by us, and as one of the endpoint's own or with its signature.
// The fault points to what was given.
func checkTraceContext(faults *fault.Fields, e Endpoint, p EndpointPatch) {
	if !e.TraceContext || !p.TraceContext.Given && !p.Headers.Given && !p.SignatureHeader.Given {
		return
	}
	for _, h := range e.Headers {
		if !strings.EqualFold(h.Name, traceparent.Name) {
			continue
		}
		at := "/trace_context"
		if p.Headers.Given {
			at = "/headers/" + pointerToken(h.Name)
		}
		faults.Addf(at, "with trace_context Postrider sets the header %s; it cannot be one of the endpoint's own as well", traceparent.Name)
	}
	if strings.EqualFold(signer.SignatureHeader(e.Scheme, e.SignatureHeader), traceparent.Name) {
		at := "/trace_context"
		if p.SignatureHeader.Given {
			at = "/signature/header"
		}
		faults.Addf(at, "with trace_context Postrider sets the header %s; it cannot carry the signature as well", traceparent.Name)
	}
}
