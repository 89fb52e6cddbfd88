package subscriptions

import (
	"errors"
	"regexp"
	"strings"
)

// SkipReason says why an endpoint gets no delivery of an event. Its value is what the API shows under `skipped` and the
// database keeps.
type SkipReason string

// The reasons, in the order in which they are looked for: an endpoint that never asked for the type is not told apart
// by being dead.
const (
	SkipEventType SkipReason = "event_type"    // none of its patterns matches
	SkipDead      SkipReason = "endpoint_dead" // its receiver said 410 Gone
	SkipFilter    SkipReason = "filter"        // its filter says no
	// SkipFilterError means that its filter could not tell, which counts as no. What it stumbled over is kept beside it.
	SkipFilterError SkipReason = "filter_error"
)

// Match says whether an event of this type becomes a delivery for the candidate as far as its filter allows (Passes), and if
// not, why. A disabled endpoint matches: its deliveries are made and held.
func (c Candidate) Match(eventType string) (matched bool, skip SkipReason) {
	if !wants(c.EventTypes, eventType) {
		return false, SkipEventType
	}
	if c.Status == Dead {
		return false, SkipDead
	}
	return true, ""
}

// wants reports whether any of the patterns matches; no patterns want everything.
func wants(patterns []string, eventType string) bool {
	for _, p := range patterns {
		if MatchPattern(p, eventType) {
			return true
		}
	}
	return len(patterns) == 0
}

const (
	everything = "*"
	wildcard   = ".*"
)

// MatchPattern reports whether a pattern that CheckPattern takes matches a type. `order.*` matches whatever follows
// `order.`, one segment or several, and not `order` itself; `*` alone matches every type; anything else matches itself,
// letter case included.
func MatchPattern(pattern, eventType string) bool {
	if pattern == everything {
		return true
	}
	if prefix, wild := strings.CutSuffix(pattern, wildcard); wild {
		rest, ok := strings.CutPrefix(eventType, prefix+".")
		return ok && rest != ""
	}
	return pattern == eventType
}

// eventTypeForm is the form of an event type's name (CONTRACT §3, and a CHECK of the tables event_types and events).
var eventTypeForm = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,128}$`)

// CheckPattern refuses, in words, what is no pattern of event types. A `*` stands only for whole segments at the end.
func CheckPattern(pattern string) error {
	if pattern == everything || eventTypeForm.MatchString(strings.TrimSuffix(pattern, wildcard)) {
		return nil
	}
	return errors.New("a pattern is an event type (1 to 128 letters, digits and any of _ . -), " +
		"an event type and .* (such as order.*), or * alone")
}
