package subscriptions

import (
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
)

// Status is whether deliveries go to an endpoint. Its value is what the API, the database and the logs show.
type Status string

// The statuses.
const (
	Enabled  Status = "enabled"
	Disabled Status = "disabled" // its deliveries are made and held
	Dead     Status = "dead"     // its receiver said 410 Gone; it gets nothing until its owner enables it
)

// ReasonByUser is the status reason of an endpoint that its owner disabled.
const ReasonByUser = "disabled_by_user"

// Endpoint is where a tenant wants its webhooks.
type Endpoint struct {
	ID, TenantID id.ID
	UID          *string // the owner's own name for it
	Kind         Kind
	URL          string // "" exactly if Kind is Pull
	Description  string
	EventTypes   []string        // patterns; empty: all
	Filter       *string         // CEL, of events of these types; nil: all of them
	Headers      []signer.Header // static ones, sorted by name. Values may be credentials
	Scheme       signer.Scheme
	// SignatureHeader is the owner's choice for the scheme stripe; "" is the scheme's own (signer.SignatureHeader).
	SignatureHeader string
	PublicKey       string     // of the scheme standard-ed25519; "" otherwise
	MaxInFlight     *int       // nil: the default
	RateLimit       *RateLimit // nil: none
	Ordering        Ordering
	Format          Format
	TraceContext    bool            // its receiver is told in which trace an attempt is
	Timeout         *time.Duration  // nil: the default
	RetrySchedule   []time.Duration // nil: the default
	TLS             TLS             // zero: nothing of its own
	Metadata        map[string]any  // never nil; numbers are json.Number
	Status          Status
	StatusReason    *string // nil exactly if it is enabled
	StatusChangedAt time.Time
	// How it has been of late. An update of these alone is no new version.
	ConsecutiveFailures int
	FailingSince        *time.Time // the first failed attempt after the last success
	LastError           *string    // of the last failed attempt; nil after a success
	Pace                Pace
	Version             int // counts every change by people, and every change of the status
	CreatedAt           time.Time
	UpdatedAt           time.Time  // when Version was counted up last
	DeletedAt           *time.Time // only EndpointByID and DeleteEndpoint give deleted ones

	// Minted is set in the answer of an UpdateEndpoint that changed the secret with the scheme, and nowhere else.
	Minted signer.Secret
	// Unreadable says why static headers or the public key lack, but for the headers' names, or why the key of the client
	// certificate is of no use: they do not open under any of our keys. An endpoint is shown nevertheless, so that it can be
	// mended. "" is the rule.
	Unreadable string
}

// ETag names the endpoint's version for If-Match.
func (e Endpoint) ETag() string { return `"` + strconv.Itoa(e.Version) + `"` }

// checkMatch holds an If-Match header (RFC 9110, 13.1.1) against the present ETag. "" is no header. Weak tags never
// match.
func (e Endpoint) checkMatch(ifMatch string) error {
	if ifMatch == "" {
		return nil
	}
	for tag := range strings.SplitSeq(ifMatch, ",") {
		if tag = strings.TrimSpace(tag); tag == e.ETag() || tag == "*" {
			return nil
		}
	}
	return fault.New(fault.PreconditionFailed, "the endpoint was changed in the meantime; its ETag is %s now", e.ETag())
}

// setStatus puts the endpoint into a status that its owner asked for. Asking for the one it has changes nothing.
func (e *Endpoint) setStatus(want Status, now time.Time) error {
	switch want {
	case Enabled, Disabled:
	case Dead:
		return fault.InvalidAt("/status", "only a receiver makes an endpoint dead, by answering 410 Gone; disable it instead")
	default:
		return fault.InvalidAt("/status", "is neither %s nor %s", Enabled, Disabled)
	}
	if want == e.Status {
		return nil
	}
	e.Status, e.StatusReason, e.StatusChangedAt = want, nil, now
	if want == Disabled {
		reason := ReasonByUser
		e.StatusReason = &reason
		return nil
	}
	// Revived: what was before does not count against it.
	e.ConsecutiveFailures, e.FailingSince, e.LastError = 0, nil, nil
	return nil
}

// noEndpoint is the answer for an endpoint that is not there, was deleted or is another tenant's.
func noEndpoint() error { return fault.New(fault.NotFound, "no such endpoint") }

// SecretInfo is one of the secrets that sign for an endpoint.
type SecretInfo struct {
	Secret    signer.Secret
	CreatedAt time.Time
	ExpiresAt *time.Time // nil: the current one
}
