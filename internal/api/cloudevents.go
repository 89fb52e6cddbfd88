package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/postrider/postrider/internal/cloudevents"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/intake"
)

// cloudEvent is a CloudEvent as it was taken out of a request, its values not yet judged.
type cloudEvent struct {
	attributes map[string]any // of whatever type they came
	payload    []byte
	where      func(attribute string) string // in the request, for faults
}

// event judges a CloudEvent and makes an event of it. Its type and its id, as the uid, are the event's own; what an event
// has no place for stays with it in its metadata.
func (c cloudEvent) event(faults *fault.Fields) intake.Event {
	attributes := maps.Clone(c.attributes)
	take := func(name string) string {
		value, given := attributes[name]
		delete(attributes, name)
		text, ok := value.(string)
		switch {
		case !given:
			faults.Addf(c.where(name), "is required in a CloudEvent")
		case !ok:
			faults.Addf(c.where(name), "has to be a string")
		case text == "":
			faults.Addf(c.where(name), "is empty")
		}
		return text
	}
	if version := take("specversion"); version != "" && version != cloudevents.SpecVersion {
		faults.Addf(c.where("specversion"), "only CloudEvents %s are taken", cloudevents.SpecVersion)
	}
	ev := intake.Event{UID: take("id"), Type: take("type"), ContentType: jsonType, Payload: c.payload}
	if _, given := attributes["datacontenttype"]; given {
		ev.ContentType = take("datacontenttype")
	}
	if _, given := attributes["source"]; !given {
		faults.Addf(c.where("source"), "is required in a CloudEvent")
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		faults.Add(c.where(name), cloudevents.Check(name, attributes[name]))
	}
	ev.Metadata = map[string]any{cloudevents.MetadataName: attributes}
	return ev
}

// headerPrefix is what headers of binary mode begin with, in the spelling of net/http.
const headerPrefix = "Ce-"

// binaryEvent reads the CloudEvent of a request in binary mode (HTTP protocol binding, § 3.1). pathType is the type that the
// path names, if it does: it has to be the header's.
func binaryEvent(faults *fault.Fields, h http.Header, pathType string, payload []byte) cloudEvent {
	c := cloudEvent{
		attributes: map[string]any{}, payload: payload, where: func(name string) string { return "ce-" + name },
	}
	for header, values := range h {
		name, ours := strings.CutPrefix(header, headerPrefix)
		if !ours {
			continue
		}
		name = strings.ToLower(name)
		if len(values) > 1 {
			faults.Addf(c.where(name), "is given %d times", len(values))
		}
		if name == "datacontenttype" {
			faults.Addf(c.where(name), "stands in Content-Type, in binary mode")
			continue
		}
		text, err := cloudevents.ParseHeader(values[0])
		faults.Add(c.where(name), err)
		c.attributes[name] = text
	}
	c.attributes["datacontenttype"] = h.Get("Content-Type")
	if c.attributes["datacontenttype"] == "" {
		c.attributes["datacontenttype"] = binaryType
	}
	if given, ok := c.attributes["type"].(string); pathType != "" && ok && given != "" && given != pathType {
		faults.Addf(c.where("type"), "is another type than the path's")
	}
	return c
}

// structuredEvent reads one of the JSON format (§ 3), which stands at a place of the body: "", or "/3" of a batch.
func structuredEvent(faults *fault.Fields, members map[string]json.RawMessage, at string) cloudEvent {
	c := cloudEvent{attributes: map[string]any{}, where: func(name string) string { return at + "/" + pointerStep(name) }}
	for name, raw := range members {
		if name == "data" || name == "data_base64" || string(raw) == "null" { // an attribute that is null is not set (§ 2.2)
			continue
		}
		var value any
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if err := dec.Decode(&value); err != nil {
			faults.Addf(c.where(name), "cannot be read")
		}
		c.attributes[name] = value
	}
	var err error
	var where string
	c.payload, where, err = dataOf(members, c.attributes["datacontenttype"])
	faults.Add(c.where(where), err)
	return c
}

// dataOf gives the payload: of JSON the very bytes that stand in the body, of all else what the string says (JSON format,
// § 3.1.2).
func dataOf(members map[string]json.RawMessage, contentType any) (payload []byte, at string, err error) {
	data, plain := members["data"]
	encoded, inBase64 := members["data_base64"]
	inBase64 = inBase64 && string(encoded) != "null"
	switch {
	case plain && inBase64:
		return nil, "data_base64", errors.New("goes without data: one of the two holds the payload")
	case inBase64:
		var text string
		if json.Unmarshal(encoded, &text) != nil {
			return nil, "data_base64", errors.New("has to be a string")
		}
		if payload, err = base64.StdEncoding.Strict().DecodeString(text); err != nil || strings.ContainsAny(text, "\r\n") {
			return nil, "data_base64", errors.New("is no base64 of RFC 4648, section 4")
		}
		return payload, "", nil
	case !plain:
		return nil, "", nil
	}
	if text, ok := contentType.(string); contentType == nil || ok && cloudevents.IsJSON(text) {
		return data, "", nil
	}
	var text string
	if data[0] != '"' || !utf8.Valid(data) || json.Unmarshal(data, &text) != nil {
		return nil, "data", errors.New("has to be a string, as its datacontenttype is not JSON; bytes go into data_base64")
	}
	return []byte(text), "", nil
}

// readStructured reads a body in the JSON format, or a batch of them.
func readStructured(faults *fault.Fields, body []byte, batch bool) ([]cloudEvent, error) {
	if _, err := readTreeAround(body, dataAt(batch)); err != nil {
		return nil, fault.New(fault.Malformed, "%s", err.Error())
	}
	var all []json.RawMessage
	if !batch {
		all = []json.RawMessage{body}
	} else if json.Unmarshal(body, &all) != nil || all == nil {
		return nil, fault.InvalidAt("", "a batch of CloudEvents is an array")
	}
	if len(all) == 0 || len(all) > maxBatch {
		return nil, fault.InvalidAt("", "a batch has 1 to %d events", maxBatch)
	}
	events := make([]cloudEvent, len(all))
	for n, raw := range all {
		at := ""
		if batch {
			at = "/" + strconv.Itoa(n)
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil || members == nil {
			return nil, fault.InvalidAt(at, "a CloudEvent is an object")
		}
		events[n] = structuredEvent(faults, members, at)
	}
	return events, nil
}

// dataAt says which member of a body holds a payload, whose bytes are passed over.
func dataAt(batch bool) func(name, at string, depth int) bool {
	depthOfEvents := 0
	if batch {
		depthOfEvents = 1
	}
	return func(name, _ string, depth int) bool { return name == "data" && depth == depthOfEvents }
}

// checkKept judges the attributes that an envelope gives for endpoints which get CloudEvents.
func checkKept(faults *fault.Fields, at string, given metadata) {
	value, there := given[cloudevents.MetadataName]
	if !there {
		return
	}
	at += "/metadata/" + cloudevents.MetadataName
	attributes, ok := value.(map[string]any)
	if !ok {
		faults.Addf(at, "has to be an object of attributes of a CloudEvent")
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		faults.Add(at+"/"+pointerStep(name), cloudevents.Check(name, attributes[name]))
	}
}

// pointerStep spells a name as a pointer has it (RFC 6901).
func pointerStep(name string) string { return keyUnquoter.Replace(quoteKey(name)) }
