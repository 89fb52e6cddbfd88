package api

import (
	"strconv"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// newEndpoint is the body that makes an endpoint. Only types are checked here; what a value may be, the store knows.
type newEndpoint struct {
	URL           string            `json:"url,omitempty" nullable:"true" example:"https://acme.example/hooks" doc:"Where deliveries are posted to. Of the kind pull there is none."`
	Kind          *string           `json:"kind,omitempty" nullable:"true" example:"push" doc:"push (the default), or pull: nothing is sent, its owner fetches what waits (poll, ack). It stays what it is."`
	UID           *string           `json:"uid,omitempty" nullable:"true" doc:"Your own name for it; it then stands in paths as well."`
	Description   string            `json:"description,omitempty" nullable:"true"`
	EventTypes    []string          `json:"event_types,omitempty" nullable:"true" example:"[\"order.*\"]" doc:"Absent or empty: all. order.* matches one or more further segments."`
	Filter        *string           `json:"filter,omitempty" nullable:"true" example:"payload.amount > 100" doc:"A CEL expression over event (id, uid, type, group_key, created_at) and payload (the JSON, or null): only events for which it is true. Empty: none."`
	Headers       map[string]string `json:"headers,omitempty" nullable:"true" doc:"Sent with every delivery."`
	Signature     *newSignature     `json:"signature,omitempty"`
	MaxInFlight   *whole            `json:"max_in_flight,omitempty" nullable:"true"`
	RateLimit     *rateLimit        `json:"rate_limit,omitempty" doc:"How many attempts in a span of time, evenly spaced, over all processes."`
	Ordering      string            `json:"ordering,omitempty" nullable:"true" doc:"none (the default), or group: what has the same group_key goes one at a time, in the order it was accepted."`
	Format        string            `json:"format,omitempty" nullable:"true" doc:"raw (the default): the payload as it is; or cloudevents: a CloudEvent 1.0 in structured mode with the payload in it."`
	TraceContext  bool              `json:"trace_context,omitempty" nullable:"true" doc:"true: attempts carry a traceparent header (W3C Trace Context), where there is a trace."`
	Timeout       *string           `json:"timeout,omitempty" nullable:"true" example:"15s"`
	RetrySchedule []string          `json:"retry_schedule,omitempty" nullable:"true" example:"[\"1m\",\"5m\",\"30m\"]"`
	TLS           *newTLS           `json:"tls,omitempty" doc:"Authorities and a client certificate of its own."`
	Metadata      metadata          `json:"metadata,omitempty" nullable:"true"`
	Disabled      bool              `json:"disabled,omitempty" nullable:"true" doc:"It begins disabled: its deliveries are made and held."`
}

func (newEndpoint) example() string {
	return `{"url":"https://acme.example/hooks","event_types":["order.*"],"description":"the shop","timeout":"10s"}`
}

type newSignature struct {
	Scheme string  `json:"scheme,omitempty" nullable:"true" example:"standard" doc:"standard (the default), standard-ed25519, stripe, github or timestamped-hex."`
	Header *string `json:"header,omitempty" nullable:"true" doc:"Of the scheme stripe: the header that carries the signature."`
	Secret *string `json:"secret,omitempty" nullable:"true" doc:"Absent: one is made."`
}

type rateLimit struct {
	_     struct{} `nullable:"true"`
	Limit whole    `json:"limit" example:"100" doc:"1 to 10,000, and no more than 10,000 a second."`
	Per   string   `json:"per" example:"1s" doc:"1ms to 1d."`
}

func readRateLimit(faults *fault.Fields) func(rateLimit) (subscriptions.RateLimit, bool) {
	return func(l rateLimit) (subscriptions.RateLimit, bool) {
		per, ok := parseSpan(faults, "/rate_limit/per", l.Per)
		return subscriptions.RateLimit{Limit: int(l.Limit), Per: per}, ok
	}
}

func (b newEndpoint) read() (subscriptions.NewEndpoint, error) {
	var faults fault.Fields
	n := subscriptions.NewEndpoint{
		UID: b.UID, Kind: subscriptions.Kind(text(b.Kind)), URL: b.URL, Description: b.Description, EventTypes: b.EventTypes, Headers: readHeaders(b.Headers),
		MaxInFlight: (*int)(b.MaxInFlight), Metadata: b.Metadata, Disabled: b.Disabled,
		Ordering: subscriptions.Ordering(b.Ordering), Format: subscriptions.Format(b.Format), Filter: text(b.Filter),
		TraceContext: b.TraceContext,
	}
	if b.Timeout != nil {
		if d, ok := parseSpan(&faults, "/timeout", *b.Timeout); ok {
			n.Timeout = &d
		}
	}
	if b.RateLimit != nil {
		if l, ok := readRateLimit(&faults)(*b.RateLimit); ok {
			n.RateLimit = &l
		}
	}
	n.RetrySchedule, _ = readSchedule(&faults)(b.RetrySchedule)
	n.TLS = b.TLS.read()
	if sig := b.Signature; sig != nil {
		n.Scheme = signer.Scheme(sig.Scheme)
		if sig.Header != nil {
			n.SignatureHeader = *sig.Header
		}
		n.Secret = givenSecret(&faults, "/signature/secret", sig.Secret)
	}
	return n, faults.Err()
}

// givenSecret refuses an empty secret, which stands for "make one" further on: whoever sends one means something else.
func givenSecret(faults *fault.Fields, at string, secret *string) string {
	if secret == nil {
		return ""
	}
	if *secret == "" {
		faults.Addf(at, "is empty; leave it out to have one made")
	}
	return *secret
}

func readHeaders(headers map[string]string) []signer.Header {
	out := make([]signer.Header, 0, len(headers))
	for name, value := range headers {
		out = append(out, signer.Header{Name: name, Value: value})
	}
	return out
}

// readSchedule gives nil for nil, which stands for the default.
func readSchedule(faults *fault.Fields) func([]string) ([]time.Duration, bool) {
	return func(texts []string) ([]time.Duration, bool) {
		if texts == nil {
			return nil, true
		}
		before := len(*faults)
		out := make([]time.Duration, len(texts))
		for i, text := range texts {
			out[i], _ = parseSpan(faults, "/retry_schedule/"+strconv.Itoa(i), text)
		}
		return out, len(*faults) == before
	}
}

// endpointPatch is the body that changes an endpoint.
type endpointPatch struct {
	URL           optional[string]            `json:"url,omitempty"`
	Kind          optional[string]            `json:"kind,omitempty" doc:"Only the one that it has: an endpoint stays what it was made."`
	UID           optional[string]            `json:"uid,omitempty" nullable:"true"`
	Description   optional[string]            `json:"description,omitempty" nullable:"true"`
	EventTypes    optional[[]string]          `json:"event_types,omitempty" nullable:"true" doc:"Replaced as a whole."`
	Filter        optional[string]            `json:"filter,omitempty" nullable:"true" doc:"A CEL expression; null or empty takes it away. Holds for events accepted from then on."`
	Headers       optional[map[string]string] `json:"headers,omitempty" nullable:"true" doc:"Replaced as a whole."`
	Signature     *signaturePatch             `json:"signature,omitempty"`
	MaxInFlight   optional[whole]             `json:"max_in_flight,omitempty" nullable:"true"`
	RateLimit     optional[rateLimit]         `json:"rate_limit,omitempty" doc:"Replaced as a whole; null takes it away."`
	Ordering      optional[string]            `json:"ordering,omitempty" nullable:"true" doc:"none or group; holds for events accepted from then on."`
	Format        optional[string]            `json:"format,omitempty" nullable:"true" doc:"raw or cloudevents; holds for attempts from then on."`
	TraceContext  optional[bool]              `json:"trace_context,omitempty" nullable:"true" doc:"Whether attempts carry a traceparent header, from then on."`
	Timeout       optional[string]            `json:"timeout,omitempty" nullable:"true" example:"15s"`
	RetrySchedule optional[[]string]          `json:"retry_schedule,omitempty" nullable:"true" doc:"Replaced as a whole."`
	TLS           optional[tlsPatch]          `json:"tls,omitempty" doc:"What it does not name stays; null takes it all away."`
	Metadata      optional[metadata]          `json:"metadata,omitempty" nullable:"true" doc:"Replaced as a whole."`
	Status        optional[string]            `json:"status,omitempty" doc:"enabled revives the endpoint and goes on with what is held; or disabled."`
}

func (endpointPatch) example() string {
	return `{"event_types":["order.*","invoice.paid"],"timeout":null,"rate_limit":{"limit":100,"per":"1s"},"status":"enabled"}`
}

type signaturePatch struct {
	Scheme optional[string] `json:"scheme,omitempty" nullable:"true"`
	Header optional[string] `json:"header,omitempty" nullable:"true"`
	Secret optional[string] `json:"secret,omitempty" doc:"Only along with another scheme; otherwise there is secret/rotate."`
}

func (b endpointPatch) read() (subscriptions.EndpointPatch, error) {
	var faults fault.Fields
	p := subscriptions.EndpointPatch{
		URL: b.URL.Optional, UID: b.UID.Optional, Description: b.Description.Optional, EventTypes: b.EventTypes.Optional,
		Filter: b.Filter.Optional, TraceContext: b.TraceContext.Optional,
		Kind:        convert(b.Kind, func(text string) (subscriptions.Kind, bool) { return subscriptions.Kind(text), true }),
		Headers:     convert(b.Headers, func(h map[string]string) ([]signer.Header, bool) { return readHeaders(h), true }),
		MaxInFlight: convert(b.MaxInFlight, func(w whole) (int, bool) { return int(w), true }),
		RateLimit:   convert(b.RateLimit, readRateLimit(&faults)),
		Ordering: convert(b.Ordering, func(text string) (subscriptions.Ordering, bool) {
			return subscriptions.Ordering(text), true
		}),
		Format: convert(b.Format, func(text string) (subscriptions.Format, bool) {
			return subscriptions.Format(text), true
		}),
		Timeout: convert(b.Timeout, func(text string) (time.Duration, bool) {
			return parseSpan(&faults, "/timeout", text)
		}),
		RetrySchedule: convert(b.RetrySchedule, readSchedule(&faults)),
		TLS:           convert(b.TLS, readTLSPatch),
		Metadata:      convert(b.Metadata, plainMetadata),
	}
	if sig := b.Signature; sig != nil {
		p.Scheme = convert(sig.Scheme, func(text string) (signer.Scheme, bool) { return signer.Scheme(text), true })
		p.SignatureHeader, p.Secret = sig.Header.Optional, sig.Secret.Optional
	}
	if b.Status.Given {
		status := subscriptions.Status("") // null: the store says what there is
		if b.Status.Value != nil {
			status = subscriptions.Status(*b.Status.Value)
		}
		p.Status = &status
	}
	return p, faults.Err()
}
