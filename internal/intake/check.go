package intake

import (
	"fmt"
	"mime"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/traceparent"
	"github.com/postrider/postrider/subscriptions"
)

// The bounds of CONTRACT §3, and ours where it is silent.
const (
	maxEvents      = 1000
	maxWord        = 128 // characters of a type or a uid
	maxKey         = 255 // characters
	maxContentType = 255 // characters
	maxGroupKey    = 256 // characters
	maxEndpointIDs = 100
	maxAhead       = 90 * 24 * time.Hour // of deliver_at

	defaultContentType = "application/json"
)

// isWord reports whether s has 1 to 128 ASCII letters, digits and characters of others.
func isWord(s, others string) bool {
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return 0 < len(s) && len(s) <= maxWord
}

// request is one caller's events after their checks.
type request struct {
	tenant    id.ID
	tenantUID string // what the tenant was named by; "": its id
	key       string // "": none
	digest    digest // of all the events together: what a repeated key is held against; zero if nothing makes it repeatable
	items     []item
	bytes     int                 // of the payloads
	only      *id.ID              // a test's endpoint: this one alone, whatever it subscribes to
	tester    audit.Actor         // who tests
	trace     traceparent.Context // of the call; zero: none
}

// item is one event of a request, in the form that is stored.
type item struct {
	Event
	at       string // where it stands in the caller's body: "" or "/events/3"
	metadata string // JSON, "" for none
	digest   digest // zero as that of its request
	broken   error  // what the schema of its type has against it, for when it turns out to be new; else it was accepted before
	same     int    // the first item of the request with this uid, which is this very one unless it is a repetition
}

func plainPointer(int) string   { return "" }
func batchPointer(n int) string { return fmt.Sprintf("/events/%d", n) }

// check refuses what needs no look into the database to be refused, all faults of all events at once.
func (i *Intake) check(
	tenant id.ID, key string, events []Event, pointer func(int) string, schemas *subscriptions.Schemas,
) (*request, error) {
	if len(events) == 0 || len(events) > maxEvents {
		return nil, fault.InvalidAt("/events", "a batch has 1 to %d events", maxEvents)
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	r := &request{tenant: tenant, key: key, items: make([]item, len(events))}
	var at fault.Fields
	now := i.now()
	for n, ev := range events {
		if int64(len(ev.Payload)) > i.maxPayload {
			return nil, fault.New(fault.TooLarge, "%s is %d bytes; events.max_payload allows %d",
				pointer(n)+"/payload", len(ev.Payload), i.maxPayload)
		}
		r.bytes += len(ev.Payload)
		var own fault.Fields
		r.items[n] = ev.settle(now, &own)
		r.items[n].at, r.items[n].same = pointer(n), n
		for _, f := range own {
			at.Addf(pointer(n)+f.Pointer, "%s", f.Detail)
		}
		if schemas != nil {
			it := &r.items[n]
			it.broken = schemas.Check(it.Type, it.ContentType, it.Payload)
		}
	}
	if len(at) > 0 || !r.repeatable() {
		r.refuseBroken(&at)
	}
	if r.repeatable() {
		for n := range r.items {
			r.items[n].digest = r.items[n].sum()
		}
		r.pairUp(&at)
		r.digest = digestOf(r.items)
	}
	if err := at.Err(); err != nil {
		return nil, err
	}
	return r, nil
}

// refuseBroken tells of payloads that break their type's schema. What can be told from a repetition has it done later: a call
// that was accepted before a schema came gets its answer again.
func (r *request) refuseBroken(at *fault.Fields) {
	for n := range r.items {
		at.Add(r.items[n].at, r.items[n].broken)
	}
}

// repeatable reports whether anything of the request can be told from a repetition.
func (r *request) repeatable() bool {
	return r.key != "" || slices.ContainsFunc(r.items, func(it item) bool { return it.UID != "" })
}

func checkKey(key string) error {
	if len(key) > maxKey || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
		return wrong("", "an Idempotency-Key has 1 to %d printable ASCII characters", maxKey)
	}
	return nil
}

// wrong is an Invalid fault whose sentence says by itself what is wrong, for what is no plain field of the body.
func wrong(pointer, format string, args ...any) error {
	f := fault.InvalidAt(pointer, format, args...)
	f.Detail = f.Fields[0].Detail
	return f
}

// settle checks an event and fills its defaults in.
func (ev Event) settle(now time.Time, at *fault.Fields) item {
	if !isWord(ev.Type, "_.-") {
		at.Addf("/type", "an event type has 1 to 128 letters, digits, '_', '.' and '-'")
	}
	if ev.ContentType = strings.TrimSpace(ev.ContentType); ev.ContentType == "" {
		ev.ContentType = defaultContentType
	}
	at.Add("/content_type", checkContentType(ev.ContentType))
	at.Add("/uid", checkUID(ev.UID))
	at.Add("/group_key", checkGroupKey(ev.GroupKey))
	if ev.DeliverAt != nil {
		when := ev.DeliverAt.UTC().Truncate(time.Microsecond) // what PostgreSQL keeps
		ev.DeliverAt = &when
		if when.Sub(now) > maxAhead {
			at.Addf("/deliver_at", "lies more than %d days ahead", int(maxAhead.Hours()/24))
		}
	}
	if ev.EndpointIDs != nil && (len(ev.EndpointIDs) == 0 || len(ev.EndpointIDs) > maxEndpointIDs) {
		at.Addf("/endpoint_ids", "names 1 to %d endpoints, or is left out for all that subscribe", maxEndpointIDs)
	}
	if ev.Payload == nil {
		ev.Payload = []byte{} // nil would be stored as NULL
	}
	metadata, err := encodeMetadata(ev.Metadata)
	at.Add("/metadata", err)
	return item{Event: ev, metadata: metadata}
}

// checkContentType wants a media type (RFC 9110 §8.3.1) that a header can hold.
func checkContentType(s string) error {
	if s == defaultContentType {
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(s)
	printable := !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
	if err != nil || !printable || len(s) > maxContentType || !strings.Contains(mediaType, "/") {
		return fmt.Errorf("is no media type such as application/json, in at most %d characters", maxContentType)
	}
	return nil
}

func checkUID(s string) error {
	switch {
	case s == "":
		return nil
	case !isWord(s, "_.:-"):
		return fmt.Errorf("a uid has 1 to 128 letters, digits, '_', '.', ':' and '-'")
	case id.LooksLikeID(s):
		return fmt.Errorf("a uid must not begin like an id of ours")
	}
	return nil
}

func checkGroupKey(s string) error {
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > maxGroupKey || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("a group key has 1 to %d characters, in UTF-8, and no control characters", maxGroupKey)
	}
	return nil
}

// pairUp finds the events of one request that have the same uid: with the same content they are one event.
func (r *request) pairUp(at *fault.Fields) {
	first := map[string]int{}
	for n := range r.items {
		it := &r.items[n]
		if it.UID == "" {
			continue
		}
		m, again := first[it.UID]
		switch {
		case !again:
			first[it.UID] = n
		case r.items[m].digest == it.digest:
			it.same = m
		default:
			at.Addf(it.at+"/uid", "%s has the same uid and other content", r.items[m].at)
		}
	}
}
