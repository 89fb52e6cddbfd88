package dispatcher

import (
	"strconv"

	"github.com/postrider/postrider/internal/traceparent"
	"github.com/postrider/postrider/signer"
)

// headerFacts is what an attempt's request headers are made of.
type headerFacts struct {
	contentType string
	userAgent   string
	deliveryID  string
	eventType   string
	attempt     int
	replay      bool
	fetched     bool            // by the endpoint's owner: nobody posts it, so that nothing is about the request itself
	signed      []signer.Header // what the signature scheme adds
	static      []signer.Header // the endpoint's own
	traceParent string          // "": the endpoint did not ask for it, or there is none
}

// requestHeaders gives all headers of an attempt but Host and Content-Length, which the transport writes. Sending and
// showing an attempt both come here, so what is shown is what was sent, but for traceparent, which is not kept.
func requestHeaders(h headerFacts) []signer.Header {
	room := 6
	if h.traceParent != "" {
		room++
	}
	out := make([]signer.Header, 0, room+len(h.signed)+len(h.static))
	out = append(out, signer.Header{Name: "Content-Type", Value: h.contentType})
	if !h.fetched {
		out = append(
			out,
			signer.Header{Name: "User-Agent", Value: h.userAgent},
			signer.Header{Name: "Accept-Encoding", Value: "identity"},
		)
	}
	out = append(out, h.signed...)
	out = append(
		out,
		signer.Header{Name: signer.HeaderDeliveryID, Value: h.deliveryID},
		signer.Header{Name: signer.HeaderEventType, Value: h.eventType},
		signer.Header{Name: signer.HeaderAttempt, Value: strconv.Itoa(h.attempt)},
	)
	if h.replay {
		out = append(out, signer.Header{Name: signer.HeaderReplay, Value: "true"})
	}
	if h.traceParent != "" {
		out = append(out, signer.Header{Name: traceparent.Name, Value: h.traceParent})
	}
	return append(out, h.static...)
}
