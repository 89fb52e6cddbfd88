package subscriptions

import (
	"slices"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/signer"
)

// NewEndpoint is what a new endpoint shall be. Zero values stand for the defaults; only URL is needed,
// and of kind pull not even that.
type NewEndpoint struct {
	UID             *string
	Kind            Kind // "": Push
	URL             string
	Description     string
	EventTypes      []string
	Filter          string // CEL; "": none
	Headers         []signer.Header
	Scheme          signer.Scheme // "": standard
	SignatureHeader string
	Secret          string // "": one is made
	MaxInFlight     *int
	RateLimit       *RateLimit // nil: none
	Ordering        Ordering   // "": OrderingNone
	Format          Format     // "": FormatRaw
	TraceContext    bool
	Timeout         *time.Duration
	RetrySchedule   []time.Duration
	TLS             TLSPatch
	Metadata        map[string]any
	Disabled        bool // it begins disabled
}

// EndpointPatch is what shall be different. Each list and object is replaced as a whole; null gives back the default.
type EndpointPatch struct {
	UID             Optional[string]
	Kind            Optional[Kind] // only the one that the endpoint has
	URL             Optional[string]
	Description     Optional[string]
	EventTypes      Optional[[]string]
	Filter          Optional[string] // "" is none, as null
	Headers         Optional[[]signer.Header]
	Scheme          Optional[signer.Scheme]
	SignatureHeader Optional[string]
	Secret          Optional[string] // only along with another Scheme: RotateSecret is for the rest
	MaxInFlight     Optional[int]
	RateLimit       Optional[RateLimit]
	Ordering        Optional[Ordering]
	Format          Optional[Format]
	TraceContext    Optional[bool]
	Timeout         Optional[time.Duration]
	RetrySchedule   Optional[[]time.Duration]
	TLS             Optional[TLSPatch] // not as a whole: what it does not give stays
	Metadata        Optional[map[string]any]
	Status          *Status // Enabled or Disabled
}

// patch gives a new endpoint as a change of an empty one, so that the rules are written once.
func (n NewEndpoint) patch() EndpointPatch {
	if n.Scheme == "" {
		n.Scheme = signer.Standard
	}
	if n.Kind == "" {
		n.Kind = Push
	}
	if n.Ordering == "" {
		n.Ordering = OrderingNone
	}
	if n.Format == "" {
		n.Format = FormatRaw
	}
	p := EndpointPatch{
		UID:             givenIf(n.UID),
		Kind:            given(n.Kind),
		URL:             given(n.URL),
		Description:     given(n.Description),
		EventTypes:      given(n.EventTypes),
		Filter:          given(n.Filter),
		Headers:         given(n.Headers),
		Scheme:          given(n.Scheme),
		SignatureHeader: given(n.SignatureHeader),
		MaxInFlight:     givenIf(n.MaxInFlight),
		RateLimit:       givenIf(n.RateLimit),
		Ordering:        given(n.Ordering),
		Format:          given(n.Format),
		TraceContext:    given(n.TraceContext),
		Timeout:         givenIf(n.Timeout),
		RetrySchedule:   given(n.RetrySchedule),
		TLS:             given(n.TLS),
		Metadata:        given(n.Metadata),
	}
	if n.Secret != "" {
		p.Secret = given(n.Secret)
	}
	return p
}

// apply makes e what the patch says, or tells of every fault in it at once. Only what is given is judged, so that a rule
// that came later does not stand in the way of a change elsewhere; only where two fields have to go together is the one
// looked at that is there already. The secret that came along is given back, zero if none did.
func (r rules) apply(e *Endpoint, p EndpointPatch, now time.Time) (signer.Secret, error) {
	var faults fault.Fields
	applyKind(&faults, e, p.Kind)
	set(&faults, "/url", p.URL, &e.URL, "", r.urlOf(e.Kind))
	setOrNil(&faults, "/uid", p.UID, &e.UID, checkUID)
	set(&faults, "/description", p.Description, &e.Description, "", checkDescription)
	set(&faults, "/event_types", p.EventTypes, &e.EventTypes, nil, checkEventTypes)
	setOrNil(&faults, "/filter", unlessBlank(p.Filter), &e.Filter, checkFilter)
	secret := applySignature(&faults, e, p)
	setOrNil(&faults, "/max_in_flight", p.MaxInFlight, &e.MaxInFlight, checkInFlight)
	setOrNil(&faults, "/rate_limit", p.RateLimit, &e.RateLimit, checkRateLimit)
	set(&faults, "/ordering", p.Ordering, &e.Ordering, OrderingNone, checkOrdering)
	set(&faults, "/format", p.Format, &e.Format, FormatRaw, checkFormat)
	set(&faults, "/trace_context", p.TraceContext, &e.TraceContext, false, anyBool)
	checkTraceContext(&faults, *e, p)
	setOrNil(&faults, "/timeout", p.Timeout, &e.Timeout, r.timeout)
	set(&faults, "/retry_schedule", p.RetrySchedule, &e.RetrySchedule, nil, checkSchedule)
	applyTLS(&faults, e, p.TLS, now)
	checkTLSIsUsed(&faults, *e, p)
	checkPull(&faults, *e)
	set(&faults, "/metadata", p.Metadata, &e.Metadata, nil, checkMetadata)
	if p.Status != nil {
		faults.Add("", e.setStatus(*p.Status, now))
	}
	return secret, faults.Err()
}

// applySignature does the part of apply in which fields depend on each other: the scheme says which secrets there can
// be and whether its header can be chosen, and that header may not be one of the static ones.
func applySignature(faults *fault.Fields, e *Endpoint, p EndpointPatch) (secret signer.Secret) {
	before, had := e.Scheme, len(*faults)
	signatureBefore := signer.SignatureHeader(e.Scheme, e.SignatureHeader)
	set(faults, "/signature/scheme", p.Scheme, &e.Scheme, signer.Standard, checkScheme)
	if e.Scheme != before && !p.SignatureHeader.Given {
		e.SignatureHeader = "" // it belonged to the scheme that was
	}
	if len(*faults) == had { // else all that follows would be measured by the wrong scheme
		set(faults, "/signature/header", p.SignatureHeader, &e.SignatureHeader, "", checkSignatureHeader(e.Scheme))
		secret = applySecret(faults, e.Scheme, before, p.Secret)
	}
	signature := signer.SignatureHeader(e.Scheme, e.SignatureHeader)
	switch {
	case p.Headers.Given:
		set(faults, "/headers", p.Headers, &e.Headers, nil, checkHeaders(signature))
	case signature != signatureBefore:
		checkKeptHeaders(faults, headerNames(e.Headers), signature)
	}
	return secret
}

// applySecret reads a secret that came along. Under the scheme that the endpoint has already, it is refused: a secret
// that changes without an overlap by accident makes a receiver refuse everything.
func applySecret(faults *fault.Fields, scheme, before signer.Scheme, o Optional[string]) (secret signer.Secret) {
	const at = "/signature/secret"
	switch {
	case !o.Given:
	case scheme == before:
		faults.Addf(at, "the secret changes by a call of its own, rotate, which says how long the old one goes on signing")
	case o.Value == nil:
		faults.Addf(at, "a secret cannot be taken away")
	default:
		var err error
		secret, err = signer.ParseSecret(scheme, *o.Value)
		faults.Add(at, err)
	}
	return secret
}

func headerNames(headers []signer.Header) []string {
	names := make([]string, 0, len(headers))
	for _, h := range headers {
		names = append(names, h.Name)
	}
	return slices.Clip(names)
}
