package client

import "time"

// Event is what a producer wants told to a tenant.
type Event struct {
	Tenant string // id (ten_…) or uid
	Type   string // 1 to 128 letters, digits, '_', '.' and '-', such as order.paid
	// Payload is delivered byte for byte as it stands here, whatever it is. Nothing changes it, and neither may the caller
	// before the call has returned.
	Payload     []byte
	ContentType string // "": application/json
	// UID is the caller's own name for the event, 1 to 128 letters, digits, '_', '.', ':' and '-'; "": none. The same UID and
	// content make one event, however often they are enqueued and for as long as the event is kept; with other content it is
	// an Error of status 422.
	UID       string
	GroupKey  string    // what the event belongs to, such as an order; up to 256 characters; "": nothing
	DeliverAt time.Time // not delivered before, up to 90 days ahead; zero: at once
	// EndpointIDs narrows the endpoints to these (ids or uids, 1 to 100), as far as they want the type. Nil: all that want it.
	EndpointIDs []string
	Metadata    map[string]any // kept with the event and not delivered
	// IdempotencyKey makes it safe to repeat a call over HTTP, for 24 hours at least; up to 255 printable ASCII characters.
	// "": one is made, the same for all tries of the call.
	IdempotencyKey string
}

// Receipt is the answer to an accepted event. It comes after the commit: what has one is not lost.
type Receipt struct {
	ID         string // evt_…
	Type       string
	UID        string
	Status     string // as it was accepted: queued, scheduled, or succeeded if no endpoint wants it
	Deliveries int    // how many endpoints get it
	CreatedAt  time.Time
	DeliverAt  time.Time // zero: at once
	Replayed   bool      // it had been accepted before, by an earlier call or an earlier try of this one
}
