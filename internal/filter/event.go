package filter

import (
	"encoding/json"
	"mime"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
)

// Event is what filters look at. One is made for each event and handed to all its filters, one after the other: the
// payload is read once, when the first of them asks for it, and what they cost is added up.
type Event struct {
	ID            func() string // spelled only for who asks
	UID, GroupKey string        // "": none
	Type          string
	CreatedAt     time.Time
	ContentType   string
	Payload       []byte // is read and never changed

	read  bool
	value any
	spent uint64
}

// ResolveName gives an expression its variables.
func (e *Event) ResolveName(name string) (any, bool) {
	switch name {
	case "event":
		return e, true
	case "payload":
		return e.json(), true
	}
	return nil, false
}

// Parent is for the library: there are no other variables.
func (*Event) Parent() cel.Activation { return nil }

// json is the payload as CEL has JSON: numbers are doubles. What is not JSON is null.
func (e *Event) json() any {
	if !e.read {
		e.read = true
		if !IsJSON(e.ContentType) || json.Unmarshal(e.Payload, &e.value) != nil {
			e.value = nil
		}
	}
	return e.value
}

// IsJSON reports whether a content type is one of JSON (RFC 6839, 3.1). None stands for application/json.
func IsJSON(contentType string) bool {
	if contentType == "" || contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json"))
}
