package dispatcher

import (
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Filter says which deliveries are meant; a zero field leaves everything in. Times are of the delivery's making, Since
// included and Until not.
type Filter struct {
	Tenant, Endpoint, Event *id.ID

	States    []State
	EventType string
	Outcomes  []Outcome // of the last attempt
	Since     time.Time
	Until     time.Time
	// Query is free text. An id (evt_, dlv_, ep_, ten_) means that thing. Anything else finds events whose uid or type
	// begins with it, endpoints whose uid does, and payloads whose bytes contain it, spelled just so.
	Query string
}

// maxQuery bounds a free text, in bytes.
const maxQuery = 500

// search is a Filter made ready for SQL.
type search struct {
	Filter
	shards   []int16 // the buckets it can lie in
	delivery *id.ID
	text     string // free text that is no id
	from     int64  // the lowest id, included
	to       int64  // the highest id, included
	below    id.ID  // the page's end: only what comes after it in the list
	way      way
	late     bool // there are deliveries that were made long after their event
}

// way is by what the finished deliveries are found.
type way int

const (
	everyBucket way = iota // the newest of each
	byTenant               // through its endpoints
	byEndpoint             // deliveries_finished_by_endpoint
	byUnhappy              // deliveries_finished_unhappy and its sisters: all but what succeeded
	byType                 // through the events: events_summary
	byPayload              // through the events, all of which are read
	byID                   // an event or a delivery that is named
)

// choose finds the way that has the least to read.
func (s *search) choose() way {
	unhappy := !s.wants(StateSucceeded) || len(s.Outcomes) > 0 && !slices.Contains(s.Outcomes, Succeeded)
	switch {
	case s.Event != nil || s.delivery != nil:
		return byID
	case unhappy && s.wants(finishedStates...):
		return byUnhappy
	case s.Endpoint != nil:
		return byEndpoint
	case s.text != "":
		return byPayload
	case s.EventType != "":
		return byType
	case s.Tenant != nil:
		return byTenant
	}
	return everyBucket
}

// resolve works out where what the filter means can lie. ok is false when nothing can match.
func (f Filter) resolve(before id.ID) (s search, ok bool, err error) {
	s = search{Filter: f, to: math.MaxInt64, below: before}
	s.States = slices.Compact(slices.Sorted(slices.Values(f.States)))
	if len(s.States) == len(States()) {
		s.States = nil
	}
	if err := pg.CheckText("/event_type", f.EventType); err != nil {
		return s, false, err //nolint:wrapcheck // a fault of the caller's
	}
	if ok, err = s.readQuery(); !ok || err != nil {
		return s, ok, err
	}
	if ok = s.place(); !ok {
		return s, false, nil
	}
	if !f.Since.IsZero() {
		s.from = id.Floor(f.Since)
	}
	if !f.Until.IsZero() {
		s.to = id.Floor(f.Until) - 1
	}
	if before.IsZero() {
		s.below = id.ID{N: math.MaxInt64}
	}
	s.to = min(s.to, s.below.N)
	s.way = s.choose()
	return s, s.from <= s.to, nil
}

// readQuery takes an id in the free text for the filter that it is. ok is false when that contradicts another one.
func (s *search) readQuery() (ok bool, err error) {
	s.text = strings.TrimSpace(s.Query)
	if s.text == "" {
		return true, nil
	}
	if len(s.text) > maxQuery || !utf8.ValidString(s.text) || strings.ContainsRune(s.text, 0) {
		return false, fault.New(fault.Invalid, "the search text must be UTF-8 without NUL, of at most %d bytes", maxQuery)
	}
	for kind, field := range map[id.Kind]**id.ID{
		id.Tenant: &s.Tenant, id.Endpoint: &s.Endpoint, id.Event: &s.Event, id.Delivery: &s.delivery,
	} {
		named, err := kind.Parse(s.text)
		if err != nil {
			continue // not an id of this kind
		}
		if *field != nil && **field != named {
			return false, nil
		}
		s.text, *field = "", &named
		break
	}
	return true, nil
}

// place finds the buckets. ok is false when the filter names things that lie in different ones.
func (s *search) place() (ok bool) {
	s.shards = allShards
	for _, named := range []*id.ID{s.Tenant, s.Endpoint, s.Event, s.delivery} {
		if named == nil {
			continue
		}
		if len(s.shards) == 1 && s.shards[0] != named.Shard {
			return false
		}
		s.shards = []int16{named.Shard}
	}
	return true
}

var allShards = id.AllBuckets()

// wants reports whether deliveries in any of these states are asked for.
func (s *search) wants(states ...State) bool {
	return len(s.States) == 0 || slices.ContainsFunc(states, func(st State) bool { return slices.Contains(s.States, st) })
}

// gather says whether sorting what an index finds may be right: an event's few deliveries are found by the event, held ones
// by their endpoints, and a window's candidates in no order. All else is read in the order of ids.
func (s *search) gather() bool {
	return s.way == byID || s.way == byType || s.way == byPayload ||
		s.someUnfinishedStates() && !s.wants(finishedStates...)
}
