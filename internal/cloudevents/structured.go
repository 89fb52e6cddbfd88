package cloudevents

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"mime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Event is an event of ours that is to be told as a CloudEvent.
type Event struct {
	ID          string // evt_…
	UID         string // its producer's; "": none
	Tenant      string // ten_…
	Type        string
	ContentType string
	AcceptedAt  time.Time
	Kept        []byte // its metadata under MetadataName, as JSON; nil: none
	Payload     []byte
}

// Structured writes the event in the JSON format. It makes the same bytes of the same event, whenever it is asked.
//
// One that came as a CloudEvent, or that was given a source, goes out with that source, its producer's id and all other
// attributes as they came. Any other is of this tenant's source, with our id and the time at which it was accepted.
func (e Event) Structured() []byte {
	kept := Kept(e.Kept)
	if kept == nil {
		kept = map[string]any{}
	}
	id := e.ID
	if _, given := kept["source"]; given {
		if e.UID != "" {
			id = e.UID
		}
	} else {
		kept["source"] = "/tenants/" + e.Tenant
		if _, given := kept["time"]; !given {
			kept["time"] = e.AcceptedAt.UTC().Format("2006-01-02T15:04:05.000Z")
		}
	}
	b := bytes.NewBuffer(make([]byte, 0, len(e.Payload)*4/3+512))
	b.WriteString(`{"specversion":"` + SpecVersion + `"`)
	write(b, "id", id)
	write(b, "source", kept["source"])
	write(b, "type", e.Type)
	delete(kept, "source")
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		write(b, name, kept[name])
	}
	write(b, "datacontenttype", e.ContentType)
	e.writeData(b)
	b.WriteByte('}')
	return b.Bytes()
}

// write adds a member. A value is a string, a bool or a number: to encode it cannot fail.
func write(b *bytes.Buffer, name string, value any) {
	b.WriteString(`,"` + name + `":`)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false) // nobody reads it as HTML
	_ = enc.Encode(value)
	b.Truncate(b.Len() - 1) // the newline
}

// writeData puts JSON in as its bytes stand, text as a string, and all else in base64 (JSON format, § 3.1.1). What calls
// itself JSON and is none must not break what is around it.
func (e Event) writeData(b *bytes.Buffer) {
	if len(e.Payload) == 0 {
		return
	}
	switch kindOf(e.ContentType) {
	case isJSON:
		if utf8.Valid(e.Payload) && json.Valid(e.Payload) {
			b.WriteString(`,"data":`)
			b.Write(e.Payload)
			return
		}
	case isText:
		if utf8.Valid(e.Payload) {
			write(b, "data", string(e.Payload))
			return
		}
	case isBytes:
	}
	b.WriteString(`,"data_base64":"`)
	b.Write(base64.StdEncoding.AppendEncode(b.AvailableBuffer(), e.Payload))
	b.WriteByte('"')
}

type kind int

const (
	isBytes kind = iota
	isJSON
	isText
)

// IsJSON reports whether a content type says that what is under it is JSON.
func IsJSON(contentType string) bool { return kindOf(contentType) == isJSON }

func kindOf(contentType string) kind {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return isBytes
	}
	top, sub, _ := strings.Cut(media, "/")
	switch charset := strings.ToLower(params["charset"]); {
	case sub == "json", strings.HasSuffix(sub, "+json"):
		return isJSON
	case charset != "" && charset != "utf-8" && charset != "us-ascii":
		return isBytes
	case top == "text", sub == "xml", strings.HasSuffix(sub, "+xml"):
		return isText
	}
	return isBytes
}
