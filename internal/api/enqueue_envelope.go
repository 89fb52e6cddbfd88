package api

import (
	"slices"

	"github.com/postrider/postrider/internal/intake"
)

// readEnvelope reads an event as newEvent describes it, in one pass and without a copy of the payload. It knows what nearly
// all events are made of; where it says no, which is no fault yet, the body has to be read as all others are. What it
// takes means the same to that reading.
func readEnvelope(body []byte) (ev intake.Event, ok bool) {
	c := cursor{data: body}
	ok = c.envelope(&ev)
	return ev, ok && c.end()
}

// maxBatch is newBatch's maxItems.
const maxBatch = 1000

// readBatch is readEnvelope for newBatch.
func readBatch(body []byte) (events []intake.Event, ok bool) {
	c := cursor{data: body}
	if !c.take('{') {
		return nil, false
	}
	if name, ok := c.plain(); !ok || string(name) != "events" || !c.take(':') || !c.take('[') {
		return nil, false
	}
	for start := c.at; ; {
		if len(events) == 1 { // as many as there may be, if the others are like the first
			events = slices.Grow(events, min(len(body)/(c.at-start), maxBatch))
		}
		events = append(events, intake.Event{})
		if len(events) > maxBatch || !c.envelope(&events[len(events)-1]) {
			return nil, false
		}
		if !c.take(',') {
			break
		}
	}
	return events, c.take(']') && c.take('}') && c.end()
}

// given notes which members an envelope has.
type given uint8

const (
	hasType given = 1 << iota
	hasPayload
	hasUID
	hasContentType
	hasGroupKey
)

// envelope takes strings without escapes only, and each member once.
func (c *cursor) envelope(ev *intake.Event) bool {
	if !c.take('{') {
		return false
	}
	ev.ContentType = jsonType
	var has given
	for {
		name, ok := c.plain()
		if !ok || !c.take(':') {
			return false
		}
		member, ok := c.member(ev, name)
		if !ok || has&member != 0 {
			return false
		}
		has |= member
		if !c.take(',') {
			break
		}
	}
	return c.take('}') && has&hasType != 0 && has&hasPayload != 0
}

// member reads the value of one. An empty uid is a fault, and null stands for what is not given: neither is for here.
func (c *cursor) member(ev *intake.Event, name []byte) (which given, ok bool) {
	var into *string
	switch string(name) {
	case "type":
		which, into = hasType, &ev.Type
	case "uid":
		which, into = hasUID, &ev.UID
	case "content_type":
		which, into = hasContentType, &ev.ContentType
	case "group_key":
		which, into = hasGroupKey, &ev.GroupKey
	case "payload":
		ev.Payload, ok = c.value()
		return hasPayload, ok
	default:
		return 0, false
	}
	text, ok := c.plain()
	*into = string(text)
	return which, ok && (which != hasUID || *into != "")
}
