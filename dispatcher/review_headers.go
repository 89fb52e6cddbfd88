package dispatcher

import (
	"strconv"
	"strings"

	"github.com/postrider/postrider/internal/cloudevents"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
)

// redactedValue stands for the value of a header that the endpoint's owner set: it may be a credential.
const redactedValue = "[redacted]"

// requestHeaders rebuilds the headers of an attempt from what is kept of it. They are put together by the very function
// that sending uses. What is not known any more (the event is gone), or never was (the process died with the attempt),
// is left out.
func (r attemptRow) requestHeaders(dlv id.ID, event eventFacts) []signer.Header {
	facts := headerFacts{
		contentType: value(event.ContentType), userAgent: value(r.UserAgent), deliveryID: id.Delivery.Format(dlv),
		eventType: value(event.Type), attempt: r.Attempt, replay: r.Replay,
		fetched: r.fetched(),
		signed:  r.signedHeaders(dlv, event),
	}
	size := event.Size
	if r.isCloudEvent() {
		facts.contentType, size = cloudevents.ContentType, event.envelope
	}
	for _, name := range r.HeaderNames {
		facts.static = append(facts.static, signer.Header{Name: name, Value: redactedValue})
	}
	known := requestHeaders(facts)
	out := known[:0]
	for _, h := range known {
		if h.Value != "" {
			out = append(out, h)
		}
	}
	if size != nil && !facts.fetched { // the transport writes this one, from the body
		out = append(out, signer.Header{Name: "Content-Length", Value: strconv.Itoa(*size)})
	}
	return out
}

// fetched reports whether the attempt was a fetch by the endpoint's owner: only where nothing is sent to is there no URL.
func (r attemptRow) fetched() bool { return r.URL != nil && *r.URL == "" }

// signedHeaders lays out what the scheme added, around the signature that was made then.
func (r attemptRow) signedHeaders(dlv id.ID, event eventFacts) []signer.Header {
	return signer.Headers(signer.Scheme(value(r.Scheme)), value(r.SignatureHeader), value(r.Signature), signer.Message{
		EventID: id.Event.Format(id.ID{Shard: dlv.Shard, N: event.EventID}), DeliveryID: id.Delivery.Format(dlv),
		EventType: value(event.Type), Timestamp: r.WebhookTimestamp,
	})
}

// parseFieldLines reads HTTP/1.1 field lines as a receiver sent them, and takes whatever comes: a line without a colon is
// a name without a value, a line that begins with a blank goes on with the one before it (obs-fold, RFC 9112 §5.2), and
// what is not UTF-8 is replaced.
func parseFieldLines(lines []byte) []signer.Header {
	var out []signer.Header
	for line := range strings.Lines(strings.ToValidUTF8(string(lines), "\uFFFD")) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		if (line[0] == ' ' || line[0] == '\t') && len(out) > 0 {
			last := &out[len(out)-1]
			last.Value = strings.TrimSpace(last.Value + " " + strings.TrimSpace(line))
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		out = append(out, signer.Header{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	return out
}
