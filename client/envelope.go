package client

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// faults gathers what is wrong with events before anything is asked.
type faults []FieldError

func (f *faults) add(pointer, detail string) {
	*f = append(*f, FieldError{Pointer: pointer, Detail: detail})
}

func (f *faults) err() error {
	if len(*f) == 0 {
		return nil
	}
	first := (*f)[0]
	return &Error{Detail: strings.TrimPrefix(first.Pointer+": "+first.Detail, ": "), Errors: *f}
}

// check looks for what would make another request of this one, or another event, instead of being refused by the server, which
// knows the rules. at is where the event stands.
func (e Event) check(at string) faults {
	var f faults
	if e.Tenant == "" || strings.Trim(e.Tenant, ".") == "" {
		f.add(at+"/tenant", "names the tenant, by its id or uid")
	}
	if !isType(e.Type) {
		f.add(at+"/type", "an event type has 1 to 128 letters, digits, '_', '.' and '-'")
	}
	if !isPrintable(e.ContentType) {
		f.add(at+"/content_type", "is no media type such as application/json")
	}
	if !utf8.ValidString(e.UID) {
		f.add(at+"/uid", "has bytes that are no UTF-8")
	}
	if !utf8.ValidString(e.GroupKey) {
		f.add(at+"/group_key", "has bytes that are no UTF-8")
	}
	return f
}

// isType wants more than dots: a path takes them for something else.
func isType(s string) bool {
	other := func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("_.-", c))
	}
	return len(s) <= maxWord && strings.Trim(s, ".") != "" && !strings.ContainsFunc(s, other)
}

// appendEnvelope writes the event as an envelope. The payload is put in as it stands: encoding/json would take out its blanks and
// write some of its characters otherwise.
func (e Event) appendEnvelope(b []byte, at string, f *faults) []byte {
	const blanks = " \t\r\n"
	switch {
	case !json.Valid(e.Payload):
		f.add(at+"/payload", "is no JSON value, which it has to be in a batch, with EndpointIDs or Metadata, and as a CloudEvent")
	case len(bytes.Trim(e.Payload, blanks)) != len(e.Payload):
		f.add(at+"/payload", "has blanks around its JSON value, which get lost in a batch, with EndpointIDs or Metadata, and as a CloudEvent")
	}
	head := struct {
		Type        string         `json:"type"`
		UID         string         `json:"uid,omitempty"`
		ContentType string         `json:"content_type,omitempty"`
		GroupKey    string         `json:"group_key,omitempty"`
		DeliverAt   string         `json:"deliver_at,omitempty"`
		EndpointIDs []string       `json:"endpoint_ids,omitzero"` // an empty list is for the server to refuse: it is not everybody
		Metadata    map[string]any `json:"metadata,omitempty"`
	}{
		Type: e.Type, UID: e.UID, ContentType: e.ContentType, GroupKey: e.GroupKey, EndpointIDs: e.EndpointIDs, Metadata: e.Metadata,
	}
	if !e.DeliverAt.IsZero() {
		head.DeliverAt = e.DeliverAt.UTC().Format(time.RFC3339Nano)
	}
	text, err := json.Marshal(head)
	if err != nil {
		f.add(at+"/metadata", "is not to be written as JSON: "+err.Error())
		return b
	}
	b = append(b, text[:len(text)-1]...) // without its brace
	b = append(b, `,"payload":`...)
	b = append(b, e.Payload...)
	return append(b, '}')
}
