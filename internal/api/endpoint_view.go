package api

import (
	"time"

	"github.com/postrider/postrider/internal/duration"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// endpointView is an endpoint in an answer. It carries the signing secret only in the answer to the call that made it.
type endpointView struct {
	ID                  string            `json:"id" example:"ep_07xk9v0e8g0003f"`
	TenantID            string            `json:"tenant_id" example:"ten_07xk9v0e8g0003f"`
	UID                 *string           `json:"uid"`
	URL                 *string           `json:"url" example:"https://acme.example/hooks" doc:"null of the kind pull."`
	Description         string            `json:"description"`
	EventTypes          []string          `json:"event_types" nullable:"false" doc:"Empty: all."`
	Filter              *string           `json:"filter" doc:"A CEL expression that events have to fulfil; null: none."`
	Headers             map[string]string `json:"headers" doc:"Sent with every delivery."`
	Signature           signatureView     `json:"signature"`
	MaxInFlight         *int              `json:"max_in_flight" doc:"null: the default."`
	RateLimit           *rateLimit        `json:"rate_limit"`
	Ordering            string            `json:"ordering" enum:"none,group"`
	Timeout             *string           `json:"timeout" example:"15s" doc:"null: the default."`
	RetrySchedule       []string          `json:"retry_schedule" nullable:"true" example:"[\"1m\",\"5m\"]" doc:"null: the default."`
	TLS                 *tlsView          `json:"tls" doc:"Its own authorities and client certificate; null: none."`
	Format              string            `json:"format" enum:"raw,cloudevents"`
	TraceContext        bool              `json:"trace_context" doc:"Whether attempts carry a traceparent header, where there is a trace."`
	Kind                string            `json:"kind" enum:"push,pull" doc:"push: deliveries are posted to its URL; pull: its owner fetches them."`
	Metadata            metadata          `json:"metadata"`
	Status              string            `json:"status" enum:"enabled,disabled,dead"`
	StatusReason        *string           `json:"status_reason" doc:"null if it is enabled."`
	StatusChangedAt     stamp             `json:"status_changed_at"`
	ConsecutiveFailures int               `json:"consecutive_failures" doc:"Failed attempts since the last success."`
	FailingSince        *stamp            `json:"failing_since" nullable:"true"`
	LastError           *string           `json:"last_error"`
	Breaker             breakerView       `json:"breaker"`
	PausedUntil         *stamp            `json:"paused_until" nullable:"true" doc:"Its receiver asked, by Retry-After, to be left alone until then."`
	CreatedAt           stamp             `json:"created_at"`
	UpdatedAt           stamp             `json:"updated_at"`
}

type signatureView struct {
	Scheme    string  `json:"scheme" enum:"standard,standard-ed25519,stripe,github,timestamped-hex"`
	Header    *string `json:"header" doc:"The header that carries the signature, where the scheme lets it be chosen."`
	PublicKey *string `json:"public_key" doc:"Of standard-ed25519: what the receiver verifies with."`
	Secret    string  `json:"secret,omitempty" doc:"Only in the answer to the call that made it."`
}

// breakerView is the circuit breaker of an endpoint.
type breakerView struct {
	State       string `json:"state" enum:"closed,open,half_open" doc:"open: its receiver failed again and again, nothing is sent until the next probe; half_open: a probe is on its way."`
	Since       *stamp `json:"since" nullable:"true" doc:"null: it was never anything but closed."`
	NextProbeAt *stamp `json:"next_probe_at" nullable:"true" doc:"Not before; null if it is closed."`
}

func viewEndpoint(e subscriptions.Endpoint) endpointView {
	return endpointView{
		ID: id.Endpoint.Format(e.ID), TenantID: id.Tenant.Format(e.TenantID), UID: e.UID, URL: unlessEmpty(e.URL),
		Description: e.Description, EventTypes: append([]string{}, e.EventTypes...), Filter: e.Filter, Headers: viewHeaders(e.Headers),
		Signature: viewSignature(e), MaxInFlight: e.MaxInFlight, Timeout: formatSpan(e.Timeout),
		RetrySchedule: formatSpans(e.RetrySchedule), RateLimit: viewRateLimit(e.RateLimit),
		Ordering: string(e.Ordering), TLS: viewTLS(e.TLS), Format: string(e.Format), TraceContext: e.TraceContext, Kind: string(e.Kind), Metadata: shown(e.Metadata),
		Status: string(e.Status), StatusReason: e.StatusReason, StatusChangedAt: stamp(e.StatusChangedAt),
		ConsecutiveFailures: e.ConsecutiveFailures, FailingSince: stampOf(e.FailingSince), LastError: e.LastError,
		Breaker: breakerView{
			State: string(e.Pace.Breaker), Since: stampOf(e.Pace.Since), NextProbeAt: stampOf(e.Pace.NextProbeAt),
		},
		PausedUntil: stampOf(e.Pace.PausedUntil),
		CreatedAt:   stamp(e.CreatedAt), UpdatedAt: stamp(e.UpdatedAt),
	}
}

// withSecret shows a secret that was just made.
func (v endpointView) withSecret(secret signer.Secret) endpointView {
	v.Signature.Secret = secret.Reveal()
	return v
}

func viewRateLimit(l *subscriptions.RateLimit) *rateLimit {
	if l == nil {
		return nil
	}
	return &rateLimit{Limit: whole(l.Limit), Per: duration.Format(l.Per)}
}

func viewSignature(e subscriptions.Endpoint) signatureView {
	v := signatureView{Scheme: string(e.Scheme)}
	if e.Scheme == signer.Stripe {
		header := signer.SignatureHeader(e.Scheme, e.SignatureHeader)
		v.Header = &header
	}
	if e.PublicKey != "" {
		v.PublicKey = &e.PublicKey
	}
	return v
}

func viewHeaders(headers []signer.Header) map[string]string {
	out := make(map[string]string, len(headers))
	for _, h := range headers {
		out[h.Name] = h.Value
	}
	return out
}

func formatSpans(spans []time.Duration) []string {
	if spans == nil {
		return nil
	}
	out := make([]string, len(spans))
	for i, d := range spans {
		out[i] = duration.Format(d)
	}
	return out
}
