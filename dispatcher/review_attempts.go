package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/signer"
)

// Attempt is one attempt as people see it. The headers' values are valid UTF-8 whatever came over the wire; the body is
// the receiver's bytes.
type Attempt struct {
	ID              id.ID
	Delivery        id.ID
	Number          int
	StartedAt       time.Time
	Fetched         bool            // by the endpoint's owner; else it was a request to URL
	URL             string          // as it was then
	RequestHeaders  []signer.Header // the endpoint's own ones without their values
	Status          *int
	Outcome         Outcome
	Error           string // in plain words, for everybody; "" for a success
	ErrorDetail     string // in the programs' words, with addresses: not for tenants; "" if there was an answer
	Timings         Timings
	Address         string // dialled: not for tenants; "" when it did not come to that
	ResponseHeaders []signer.Header
	ResponseBody    []byte // the beginning of it
	Truncated       bool   // there was more of the body
}

// Timings are an attempt's stages; nil: that stage did not happen, or nobody saw it. FirstByte and Total count from the
// attempt's start.
type Timings struct {
	DNS, Connect, TLS, FirstByte, Total *time.Duration
}

// attemptRow is a row of attemptsSQL.
type attemptRow struct {
	ID                                            int64
	WebhookTimestamp                              int64
	Attempt                                       int
	Status                                        *int
	Outcome                                       string
	DNSUs, ConnectUs, TLSUs, FirstByteUs, TotalUs *int64
	Address, UserAgent, Signature                 *string
	Error, ErrorDetail                            *string
	ResponseHeaders, ResponseBody                 []byte
	ResponseTruncated                             bool
	Replay                                        bool

	URL             *string
	HeaderNames     []string
	Scheme          *string
	SignatureHeader *string
	Format          *string
}

// Index attempts_pkey in the partitions since the delivery was made; an attempt names a version of its endpoint,
// and endpoint_versions has those that changed something an attempt shows, so the newest one up to it is the one
// (endpoint_versions_pkey, backwards).
const attemptsSQL = `
SELECT a.id, a.webhook_timestamp, a.attempt, a.status, a.outcome::text, a.dns_us, a.connect_us, a.tls_us,
    a.first_byte_us, a.total_us, a.address,
    (SELECT u.name FROM user_agents u WHERE u.id = a.user_agent) AS user_agent, a.signature, a.error, a.error_detail,
    a.response_headers, a.response_body,
    a.response_truncated, coalesce(a.replay, false) AS replay, v.url, v.header_names, v.scheme, v.signature_header,
    v.format::text
FROM attempts a LEFT JOIN LATERAL (
    SELECT * FROM endpoint_versions v
    WHERE v.shard = @shard AND v.endpoint_id = a.endpoint_id AND v.version <= a.endpoint_version
    ORDER BY v.version DESC LIMIT 1) v ON true
WHERE a.shard = @shard AND a.delivery_id = @delivery AND a.id >= @from AND a.id < @before
ORDER BY a.id DESC LIMIT @limit`

// clockSlack is how much earlier than its delivery an attempt's id may be, since two processes made them: far more than
// their clocks differ.
const clockSlack = time.Hour

// Attempts gives a delivery's attempts, newest first like every list, at most limit of them and only older ones than
// before (zero: from the newest). A delivery without any has none; an unknown one is a not_found fault.
func (k *Desk) Attempts(ctx context.Context, dlv id.ID, limit int, before id.ID) ([]Attempt, error) {
	event, err := k.eventOf(ctx, dlv)
	if err != nil {
		return nil, err
	}
	below := before.N
	if before.IsZero() {
		below = math.MaxInt64
	}
	rows, err := k.deps.DB.Query(ctx, attemptsSQL, pgx.StrictNamedArgs{
		"shard": dlv.Shard, "delivery": dlv.N, "from": id.Floor(dlv.Time().Add(-clockSlack)), "before": below,
		"limit": max(limit, 1),
	})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read attempts: %w", err))
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[attemptRow])
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read attempts: %w", err))
	}
	if slices.ContainsFunc(found, attemptRow.isCloudEvent) {
		if err := k.measure(ctx, &event, dlv.Shard); err != nil {
			return nil, err
		}
	}
	out := make([]Attempt, 0, len(found))
	for _, r := range found {
		a, err := r.attempt(dlv, event)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// eventFacts is what a delivery's event puts into its requests.
type eventFacts struct {
	EventID     int64
	TenantID    int64
	Type        *string // nil: the event is not kept any more
	ContentType *string
	Size        *int

	envelope *int // the size of the CloudEvent that is made of it, if some attempt sent that
}

// Indexes deliveries_pkey, deliveries_finished_pkey, events_pkey.
const eventOfSQL = `
SELECT x.event_id, x.tenant_id, ev.type, ev.content_type, ev.size
FROM (SELECT d.event_id, d.tenant_id FROM deliveries d WHERE d.shard = @shard AND d.id = @id
    UNION ALL SELECT f.event_id, f.tenant_id FROM deliveries_finished f WHERE f.shard = @shard AND f.id = @id) x
LEFT JOIN LATERAL (SELECT e.type, e.content_type, octet_length(e.payload) AS size FROM events e
    WHERE e.shard = @shard AND e.id = x.event_id LIMIT 1) ev ON true`

func (k *Desk) eventOf(ctx context.Context, dlv id.ID) (eventFacts, error) {
	rows, err := k.deps.DB.Query(ctx, eventOfSQL, pgx.StrictNamedArgs{"shard": dlv.Shard, "id": dlv.N})
	if err != nil {
		return eventFacts{}, pg.Fault(fmt.Errorf("read a delivery's event: %w", err))
	}
	facts, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[eventFacts])
	if errors.Is(err, pgx.ErrNoRows) {
		return eventFacts{}, noSuchDelivery()
	}
	if err != nil {
		return eventFacts{}, pg.Fault(fmt.Errorf("read a delivery's event: %w", err))
	}
	return facts, nil
}

func (r attemptRow) attempt(dlv id.ID, event eventFacts) (Attempt, error) {
	outcome, err := ParseOutcome(r.Outcome)
	if err != nil {
		return Attempt{}, err
	}
	a := Attempt{
		ID: id.ID{Shard: dlv.Shard, N: r.ID}, Delivery: dlv, Number: r.Attempt, StartedAt: id.TimeOf(r.ID),
		Fetched: r.fetched(), URL: value(r.URL), RequestHeaders: r.requestHeaders(dlv, event), Status: r.Status, Outcome: outcome,
		Error: value(r.Error), ErrorDetail: value(r.ErrorDetail), Address: value(r.Address),
		ResponseHeaders: parseFieldLines(r.ResponseHeaders), ResponseBody: r.ResponseBody, Truncated: r.ResponseTruncated,
		Timings: Timings{
			DNS: fromMicros(r.DNSUs), Connect: fromMicros(r.ConnectUs), TLS: fromMicros(r.TLSUs),
			FirstByte: fromMicros(r.FirstByteUs), Total: fromMicros(r.TotalUs),
		},
	}
	return a, nil
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func fromMicros(n *int64) *time.Duration {
	if n == nil {
		return nil
	}
	d := time.Duration(*n) * time.Microsecond
	return &d
}
