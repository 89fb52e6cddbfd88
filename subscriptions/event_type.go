package subscriptions

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/schema"
)

// EventType is an entry of the catalogue, which is the operator's and one for all tenants. It is there to be read and to hold
// payloads against a schema: a type that is in no catalogue is as good as one that is.
type EventType struct {
	ID          id.ID // in bucket 0, as it is no tenant's
	Name        string
	Description string
	Schema      []byte     // a JSON Schema, as it was written; nil: none
	Example     []byte     // a JSON payload, as it was written; nil: none
	ArchivedAt  *time.Time // not offered any more, and otherwise as before: its schema still holds
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// EventTypeSettings are what an entry of the catalogue shall be, all of it.
type EventTypeSettings struct {
	Description string
	Schema      []byte // nil: none
	Example     []byte // nil: none
	Archived    bool
}

const maxExample = 64 << 10

// check tells of all faults at once, and gives the schema that payloads are held against; nil: there is none.
func (t EventTypeSettings) check(name string) (*schema.Schema, error) {
	var faults fault.Fields
	if !eventTypeForm.MatchString(name) {
		faults.Addf("/type", "an event type has 1 to 128 letters, digits, '_', '.' and '-'")
	}
	faults.Add("/description", checkText(t.Description, maxDescription))
	var compiled *schema.Schema
	if t.Schema != nil {
		var err error
		compiled, err = schema.Compile(t.Schema)
		faults.Add("/schema", err)
	}
	if t.Example != nil {
		faults.Add("/example", checkExample(t.Example))
		if compiled != nil {
			faults.Add("/example", compiled.Check(t.Example))
		}
	}
	return compiled, faults.Err()
}

func checkExample(text []byte) error {
	switch {
	case len(text) > maxExample:
		return fmt.Errorf("is more than %d bytes of JSON", maxExample)
	case !json.Valid(text) || !utf8.Valid(text):
		return errors.New("is not JSON")
	}
	return nil
}

// noEventType is the answer for a type that is not in the catalogue.
func noEventType() error { return fault.New(fault.NotFound, "no such event type in the catalogue") }
