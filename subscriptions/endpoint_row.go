package subscriptions

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/signer"
)

// endpointRow is a row of endpoints with its pace, and for the scheme standard-ed25519 its current secret, whose public
// half is shown.
type endpointRow struct {
	Shard                int16
	ID, TenantID         int64
	UID                  *string
	Kind                 string
	URL, Description     string
	EventTypes           []string
	Filter               *string
	HeaderNames          []string
	HeadersSealed        []byte
	HeadersKeyID         *string
	Scheme               string
	SignatureHeader      string
	MaxInFlight          *int
	RateLimit            *int
	RatePerMS            *int64
	Ordering             string
	Format               string
	TraceContext         bool
	TimeoutMS            *int64
	RetryScheduleMS      []int64
	TLSCA                *string
	TLSCertificate       *string
	TLSKeySealed         []byte
	TLSKeyID             *string
	Metadata             []byte
	Status               string
	StatusReason         *string
	StatusChangedAt      time.Time
	ConsecutiveFailures  int
	FailingSince         *time.Time
	LastError            *string
	Version              int
	CreatedAt, UpdatedAt time.Time
	DeletedAt            *time.Time
	SecretKeyID          *string
	SecretSealed         []byte
	Breaker              string
	BreakerUntil         *time.Time
	BreakerChangedAt     *time.Time
	PausedUntil          *time.Time
}

// selectEndpoint reads endpointRows; a WHERE on e follows it. The secret is found by the unique index
// endpoint_secrets_current_key, the pace by its primary key.
const selectEndpoint = `
SELECT e.shard, e.id, e.tenant_id, e.uid, e.kind::text, e.url, e.description, e.event_types, e.filter, e.header_names, e.headers_sealed,
       e.headers_key_id, e.scheme, e.signature_header, e.max_in_flight, e.rate_limit, e.rate_per_ms, e.ordering::text, e.format::text,
       e.trace_context, e.timeout_ms, e.retry_schedule_ms, e.tls_ca, e.tls_certificate, e.tls_key_sealed, e.tls_key_id, e.metadata,
       e.status::text, e.status_reason, e.status_changed_at,
       e.consecutive_failures, e.failing_since, e.last_error, e.version, e.created_at, e.updated_at, e.deleted_at,
       k.key_id AS secret_key_id, k.sealed AS secret_sealed,
       coalesce(p.breaker, 'closed')::text AS breaker, p.breaker_until, p.breaker_changed_at, p.paused_until
  FROM endpoints e
  LEFT JOIN endpoint_secrets k
    ON k.shard = @shard AND k.endpoint_id = e.id AND k.expires_at IS NULL AND e.scheme = 'standard-ed25519'
  LEFT JOIN endpoint_pace p ON p.shard = @shard AND p.endpoint_id = e.id`

func (r endpointRow) id() id.ID { return id.ID{Shard: r.Shard, N: r.ID} }

// endpoint opens the row. What is sealed under a key that is gone is left out and said so, instead of hiding the rest.
func (s *Store) endpoint(r endpointRow) (Endpoint, error) {
	metadata, err := decodeObject(r.Metadata)
	if err != nil {
		return Endpoint{}, fmt.Errorf("read an endpoint's metadata: %w", err)
	}
	e := Endpoint{
		ID: r.id(), TenantID: id.ID{Shard: r.Shard, N: r.TenantID}, UID: r.UID, Kind: Kind(r.Kind), URL: r.URL, Description: r.Description,
		EventTypes: r.EventTypes, Filter: r.Filter, Scheme: signer.Scheme(r.Scheme), SignatureHeader: r.SignatureHeader,
		MaxInFlight: r.MaxInFlight, RateLimit: rateLimit(r.RateLimit, r.RatePerMS), Ordering: Ordering(r.Ordering), Format: Format(r.Format), TraceContext: r.TraceContext,
		Timeout: fromMillisecond(r.TimeoutMS), RetrySchedule: fromMilliseconds(r.RetryScheduleMS),
		TLS:      TLS{CA: orEmpty(r.TLSCA), Certificate: orEmpty(r.TLSCertificate)},
		Metadata: metadata, Status: Status(r.Status), StatusReason: r.StatusReason, StatusChangedAt: r.StatusChangedAt.UTC(),
		ConsecutiveFailures: r.ConsecutiveFailures, FailingSince: utc(r.FailingSince), LastError: r.LastError, Pace: s.pace(r),
		Version: r.Version, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(), DeletedAt: utc(r.DeletedAt),
	}
	if e.Headers, err = s.openHeaders(e.ID, r.HeadersKeyID, r.HeadersSealed); err != nil {
		e.Unreadable = err.Error()
		for _, name := range r.HeaderNames {
			e.Headers = append(e.Headers, signer.Header{Name: name})
		}
	}
	if r.SecretKeyID != nil {
		secret, err := s.openSecret(e.ID, e.Scheme, *r.SecretKeyID, r.SecretSealed)
		if err != nil {
			e.Unreadable = err.Error()
		}
		e.PublicKey = secret.PublicKey()
	}
	if r.TLSKeyID != nil {
		if _, err := s.openTLSKey(e.ID, *r.TLSKeyID, r.TLSKeySealed); err != nil {
			e.Unreadable = err.Error()
		}
	}
	return e, nil
}

// pace gives what is shown of an endpoint's pace. A pause that has passed is none.
func (s *Store) pace(r endpointRow) Pace {
	p := Pace{
		Breaker: Breaker(r.Breaker), Since: utc(r.BreakerChangedAt), NextProbeAt: utc(r.BreakerUntil),
		PausedUntil: utc(r.PausedUntil),
	}
	if p.PausedUntil != nil && !p.PausedUntil.After(s.now()) {
		p.PausedUntil = nil
	}
	return p
}

// settings gives the columns an owner may set, for an INSERT or UPDATE that adds the rest. What is sealed is not among
// them: it changes only with what is in it.
func (e Endpoint) settings() (pgx.StrictNamedArgs, error) {
	metadata, err := encodeJSON(e.Metadata)
	if err != nil {
		return nil, err
	}
	limit, perMS := e.RateLimit.columns()
	return pgx.StrictNamedArgs{
		"shard": e.ID.Shard, "id": e.ID.N, "uid": e.UID, "url": e.URL, "description": e.Description,
		"event_types": e.EventTypes, "filter": e.Filter, "header_names": headerNames(e.Headers), "scheme": string(e.Scheme),
		"signature_header": e.SignatureHeader, "max_in_flight": e.MaxInFlight, "rate_limit": limit,
		"rate_per_ms": perMS, "ordering": string(e.Ordering), "format": string(e.Format), "trace_context": e.TraceContext, "timeout_ms": toMillisecond(e.Timeout),
		"retry_schedule_ms": toMilliseconds(e.RetrySchedule), "tls_ca": textOrNull(e.TLS.CA),
		"tls_certificate": textOrNull(e.TLS.Certificate), "metadata": string(metadata), "status": string(e.Status),
		"status_reason": e.StatusReason, "status_changed_at": e.StatusChangedAt, "version": e.Version,
		"updated_at": e.UpdatedAt,
	}, nil
}

// sealHeaders gives an endpoint's static headers as one encrypted value, or nil, nil where there are none.
func (s *Store) sealHeaders(ctx context.Context, tx pgx.Tx, e Endpoint) (keyID *string, sealed []byte, err error) {
	if len(e.Headers) == 0 {
		return nil, nil, nil
	}
	plain, err := encodeJSON(kept(e.Headers))
	if err != nil {
		return nil, nil, err
	}
	name, sealed, err := s.box.Seal(ctx, tx, plain, seal.EndpointAD(e.ID), e.UpdatedAt)
	if err != nil {
		return nil, nil, fmt.Errorf("encrypt the static headers: %w", err)
	}
	return &name, sealed, nil
}

func (s *Store) openHeaders(e id.ID, keyID *string, sealed []byte) ([]signer.Header, error) {
	if keyID == nil {
		return nil, nil
	}
	plain, err := s.box.Open(*keyID, sealed, seal.EndpointAD(e))
	if err != nil {
		return nil, fmt.Errorf("open the static headers: %w", err)
	}
	var stored []keptHeader
	if err := json.Unmarshal(plain, &stored); err != nil {
		return nil, fmt.Errorf("read the static headers: %w", err)
	}
	headers := make([]signer.Header, 0, len(stored))
	for _, h := range stored {
		headers = append(headers, signer.Header(h))
	}
	return headers, nil
}

// keptHeader is a static header in the form that is sealed and stored.
type keptHeader struct {
	Name  string `json:"n"`
	Value string `json:"v"`
}

func kept(headers []signer.Header) []keptHeader {
	out := make([]keptHeader, 0, len(headers))
	for _, h := range headers {
		out = append(out, keptHeader(h))
	}
	return out
}

func fromMillisecond(ms *int64) *time.Duration {
	if ms == nil {
		return nil
	}
	d := time.Duration(*ms) * time.Millisecond
	return &d
}

func toMillisecond(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

func fromMilliseconds(ms []int64) []time.Duration {
	if ms == nil {
		return nil
	}
	out := make([]time.Duration, len(ms))
	for i, m := range ms {
		out[i] = time.Duration(m) * time.Millisecond
	}
	return out
}

func toMilliseconds(ds []time.Duration) []int64 {
	if ds == nil {
		return nil
	}
	out := make([]int64, len(ds))
	for i, d := range ds {
		out[i] = d.Milliseconds()
	}
	return out
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// utc brings a time that may be missing to UTC: pgx gives them in the machine's zone.
func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
