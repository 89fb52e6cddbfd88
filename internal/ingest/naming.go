package ingest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/postrider/postrider/client"
)

// What a message may say of its event, besides what the broker's protocol has a field for.
const (
	HeaderTenant    = "postrider-tenant"
	HeaderType      = "postrider-event-type"
	HeaderGroupKey  = "postrider-group-key"
	HeaderDeliverAt = "postrider-deliver-at" // RFC 3339
	headerContent   = "content-type"
)

// Naming says what a message is an event of.
type Naming struct {
	Tenant string // "": what the message's header says
	Type   string // "": what the message says, else its key
	Prefix string // cut off a key that is taken for the type, such as "events."
}

// event reads a message. Its error says why it can be none.
func (n Naming) event(m *Message) (client.Event, error) {
	e := client.Event{
		Tenant: n.Tenant, Type: n.Type, Payload: m.Body, ContentType: m.ContentType, UID: m.uid(), GroupKey: m.Header[HeaderGroupKey],
	}
	if e.Tenant == "" {
		e.Tenant = m.Header[HeaderTenant]
	}
	if e.Tenant == "" {
		return e, fmt.Errorf("it has no header %s, and --tenant was not given", HeaderTenant)
	}
	for _, said := range []string{m.Header[HeaderType], m.Type, strings.TrimPrefix(m.Key, n.Prefix)} {
		if e.Type == "" {
			e.Type = said
		}
	}
	if e.ContentType == "" {
		e.ContentType = m.Header[headerContent]
	}
	if at := m.Header[HeaderDeliverAt]; at != "" {
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return e, fmt.Errorf("its header %s is no time such as 2026-11-30T09:00:00Z: %q", HeaderDeliverAt, at)
		}
		e.DeliverAt = when
	}
	return e, nil
}

// CONTRACT §3: what a uid may be, and what an id of ours looks like, of a kind to come as well: no message is to have another uid by another
// version, for it would be taken twice.
var (
	uidForm = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)
	idForm  = regexp.MustCompile(`^[a-z]{2,3}_`)
)

// uid is the message's id as the event's, so that a message that comes again is known: as it is where it can be a uid, else
// by its SHA-256. A message without an id is known by its place; where there is none of that either, by nothing.
func (m *Message) uid() string {
	named := m.name()
	if named == "" || uidForm.MatchString(named) && !idForm.MatchString(named) {
		return named
	}
	sum := sha256.Sum256([]byte(named))
	return "message:" + hex.EncodeToString(sum[:])
}

func (m *Message) name() string {
	if m.ID != "" {
		return m.ID
	}
	return m.Place
}

// inBatch reports whether an event may go with others in one call: JSON, whose bytes stand within the call's own. Blanks around it
// would be lost there.
func inBatch(e *client.Event) bool {
	return len(e.Payload) <= maxInBatch && json.Valid(e.Payload) && len(bytes.TrimSpace(e.Payload)) == len(e.Payload)
}
