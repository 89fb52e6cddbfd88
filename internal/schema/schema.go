// Package schema holds JSON payloads against a JSON Schema of the draft 2020-12. It is pure: no clock, no database, no
// network and no file.
//
// A schema stands alone: a reference that leads out of it is refused and nothing is ever loaded. Regular expressions are
// Go's, which take time in proportion to the text, so those that only backtracking can do are refused too. `format` is a
// remark and no rule, as the draft has it.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/postrider/postrider/internal/fault"
)

// What a schema may be, and what is held against one.
const (
	MaxBytes = 64 << 10 // of a schema, as JSON
	maxDepth = 32       // of a schema
	// maxValues bounds what the checking of one payload takes: each value at fault is noted with its place.
	maxValues = 250_000
	// deepest is beyond what encoding/json reads: a payload's depth is its own.
	deepest = 1 << 30
)

const (
	draft = "https://json-schema.org/draft/2020-12/schema"
	// home is the address that a schema has for itself. Nothing is there (RFC 2606).
	home = "https://schema.invalid/"
)

// Schema is one that was compiled. It may be used by several goroutines at once.
type Schema struct{ compiled *jsonschema.Schema }

// Compile reads a schema. Its errors are Invalid faults that point into it.
func Compile(text []byte) (s *Schema, err error) {
	if len(text) > MaxBytes {
		return nil, fault.InvalidAt("", "is more than %d bytes of JSON", MaxBytes)
	}
	doc, err := decode(text)
	if err != nil || !utf8.Valid(text) {
		return nil, fault.InvalidAt("", "is not JSON")
	}
	if err := walk(doc, maxDepth, len(text)); err != nil {
		return nil, err
	}
	if err := checkDialect(doc); err != nil {
		return nil, err
	}
	defer func() {
		if what := recover(); what != nil { // the library, over something it was not made for
			s, err = nil, fault.InvalidAt("", "cannot be read as a JSON Schema")
		}
	}()
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(home, doc); err != nil {
		return nil, explain(err, doc)
	}
	compiled, err := c.Compile(home)
	if err != nil {
		return nil, explain(err, doc)
	}
	return &Schema{compiled}, nil
}

// Check holds a JSON text against the schema. Its errors are Invalid faults that point into the text.
func (s *Schema) Check(payload []byte) error {
	value, err := decode(payload)
	if err != nil {
		return fault.InvalidAt("", "is not JSON, and the event type has a schema")
	}
	if err := walk(value, deepest, maxValues); err != nil {
		return err
	}
	var broken *jsonschema.ValidationError
	switch err := s.compiled.Validate(value); {
	case err == nil:
		return nil
	case errors.As(err, &broken):
		return faultsOf(broken).Err()
	default:
		return fmt.Errorf("hold a payload against its schema: %w", err)
	}
}

// nowhere is the loader of everything that is not in the schema itself.
type nowhere struct{}

func (nowhere) Load(string) (any, error) {
	return nil, errors.New("leads out of the schema; only what is within it (#/…) can be referred to")
}

// decode keeps the digits of numbers, and takes nothing after the value.
func decode(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON")
	}
	return value, nil
}

func checkDialect(doc any) error {
	switch doc := doc.(type) {
	case bool:
		return nil
	case map[string]any:
		named, given := doc["$schema"]
		if uri, _ := named.(string); given && strings.TrimSuffix(uri, "#") != draft {
			return fault.InvalidAt("/$schema", "is not %s", draft)
		}
		return nil
	}
	return fault.InvalidAt("", "is neither an object nor true or false, as a JSON Schema has to be")
}
