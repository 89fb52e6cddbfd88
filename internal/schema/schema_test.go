package schema_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/schema"
)

// spelled is a fault as "pointer: detail" lines.
func spelled(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.Invalid {
		t.Fatalf("no Invalid fault: %v", err)
	}
	var lines []string
	for _, field := range f.Fields {
		lines = append(lines, field.Pointer+": "+field.Detail)
	}
	return strings.Join(lines, "\n")
}

const order = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object", "required": ["order", "amount"], "additionalProperties": false,
	"properties": {
		"order": {"type": "integer", "minimum": 1},
		"amount": {"$ref": "#/$defs/money"},
		"state": {"enum": ["paid", "open"]},
		"a/b~c": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
		"lines": {"type": "array", "items": {"type": "object", "required": ["sku"]}, "uniqueItems": true},
		"who": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["name"]}]},
		"mail": {"type": "string", "format": "email"}
	},
	"$defs": {"money": {"type": "object", "properties": {"value": {"type": "number", "exclusiveMinimum": 0}}}}
}`

func TestCheck(t *testing.T) {
	t.Parallel()
	s, err := schema.Compile([]byte(order))
	if err != nil {
		t.Fatal(err)
	}
	for payload, want := range map[string]string{
		`{"order":1,"amount":{"value":49.90}}`:                  "",
		` {"order":1.0,"amount":{},"mail":"not one"} `:          "",
		`{"order":1,"amount":{},"who":"me"}`:                    "",
		`{"amount":{}}`:                                         "/order: is required",
		`{"order":0,"amount":{"value":0}}`:                      "/amount/value: is not more than 0\n/order: is less than 1",
		`{"order":"1","amount":[]}`:                             "/amount: is no object but array\n/order: is no integer but string",
		`{"order":1,"amount":{},"total":1}`:                     "/total: there is no such field",
		`{"order":1,"amount":{},"state":"lost"}`:                `/state: is none of "paid","open"`,
		`{"order":1,"amount":{},"a/b~c":"ABCD"}`:                "/a~1b~0c: does not match the pattern ^[a-z]+$\n/a~1b~0c: has more than 3 characters",
		`{"order":1,"amount":{},"lines":[{"sku":1},{}]}`:        "/lines/1/sku: is required",
		`{"order":1,"amount":{},"lines":[{"sku":1},{"sku":1}]}`: "/lines: has the same item at 0 and 1",
		`{"order":1,"amount":{},"who":1}`:                       "/who: is no object but number\n/who: is no string but number",
		`{"order":1e999999999,"amount":{}}`:                     "/order: is a number beyond what a double-precision number can be",
		`{"order":1e-999999999,"amount":{}}`:                    "/order: is a number beyond what a double-precision number can be",
		`null`:                                                  ": is no object but null",
		``:                                                      ": is not JSON, and the event type has a schema",
		`{`:                                                     ": is not JSON, and the event type has a schema",
		`{"order":1,"amount":{}}}`:                              ": is not JSON, and the event type has a schema",
		`{"order":1,"amount":{}} x`:                             ": is not JSON, and the event type has a schema",
		"\xff":                                                  ": is not JSON, and the event type has a schema",
	} {
		if got := spelled(t, s.Check([]byte(payload))); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", payload, got, want)
		}
	}
}

// What is told of a broken payload has an end, and none of the payload's values in it.
func TestFaultsAreFewAndTellNoValues(t *testing.T) {
	t.Parallel()
	s, err := schema.Compile([]byte(`{"items":{"type":"string","pattern":"^a$","maxLength":2}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := spelled(t, s.Check([]byte("["+strings.Repeat(`"private",`, 999)+`"private"]`)))
	if n := strings.Count(got, "\n") + 1; n != 21 || !strings.Contains(got, "and 1980 more places") || strings.Contains(got, "private") {
		t.Errorf("%d lines: %s", n, got)
	}
	long := spelled(t, s.Check([]byte(`[{"`+strings.Repeat("x", 5000)+`":1e9999}]`)))
	if len(long) > 500 {
		t.Errorf("a long name is repeated: %d bytes", len(long))
	}
	many := spelled(t, s.Check([]byte("["+strings.Repeat("1,", 300_000)+"1]")))
	if many != ": has too many values to be checked" {
		t.Errorf("many values: %s", many)
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"items":`, 40) + "{}" + strings.Repeat("}", 40)
	for text, want := range map[string]string{
		`{"type":"objekt"}`:                                        "/type: ",
		`{"properties":{"a":{"minLength":-1}}}`:                    "/properties/a/minLength: ",
		`{"properties":{"a":{"minimum":1e999999999}}}`:             "/properties/a/minimum: ",
		`{"required":"a"}`:                                         "/required: is no array but string",
		`{"properties":{"a":{"pattern":"^(?=a)"}}}`:                "/properties/a/pattern: ",
		`{"properties":{"a":{"pattern":"("}}}`:                     "/properties/a/pattern: ",
		`{"patternProperties":{"(?<!a)b":{}}}`:                     "/patternProperties",
		`{"properties":{"a":{"$ref":"#/$defs/none"}}}`:             "/properties/a/$ref: leads to nothing",
		`{"properties":{"a":{"$ref":"#none"}}}`:                    "/properties/a/$ref: leads to nothing",
		`{"properties":{"a":{"$ref":"https://a.example/s.json"}}}`: "/properties/a/$ref: leads out of the schema",
		`{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`:       "/properties/a/$ref: leads out of the schema",
		`{"properties":{"a":{"$ref":"other.json#/x"}}}`:            "/properties/a/$ref: leads out of the schema",
		`{"$schema":"http://json-schema.org/draft-07/schema#"}`:    "/$schema: is not https://json-schema.org/draft/2020-12/schema",
		`{"$schema":1}`: "/$schema: ",
		`1`:             ": is neither an object",
		`"x"`:           ": is neither an object",
		`[]`:            ": is neither an object",
		`{`:             ": is not JSON",
		``:              ": is not JSON",
		deep:            "/items/items/items",
		`{"description":"` + strings.Repeat("x", schema.MaxBytes) + `"}`: ": is more than",
	} {
		_, err := schema.Compile([]byte(text))
		if got := spelled(t, err); err == nil || !strings.HasPrefix(got, want) {
			t.Errorf("%.80s:\n%s\nwant:\n%s…", text, got, want)
		}
	}
}

func TestCompileTakes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`, `true`, `false`, `{"$ref":"#"}`, `{"$id":"https://acme.example/order","$ref":"#/$defs/a","$defs":{"a":{"$anchor":"x"}}}`,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema#"}`,
		`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, // it is part of the library
		`{"unevaluatedProperties":false,"x-own":{"anything":1}}`,
	} {
		if _, err := schema.Compile([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzCompileAndCheck(f *testing.F) {
	f.Add([]byte(order), []byte(`{"order":1,"amount":{}}`))
	f.Add([]byte(`{"items":{"$ref":"#"},"pattern":"a+"}`), []byte(`[[["a"]]]`))
	f.Fuzz(func(t *testing.T, text, payload []byte) {
		s, err := schema.Compile(text)
		if err != nil {
			_ = spelled(t, err)
			return
		}
		_ = spelled(t, s.Check(payload))
	})
}

func ExampleSchema_Check() {
	s, _ := schema.Compile([]byte(`{"properties":{"amount":{"minimum":1}}}`))
	fmt.Println(s.Check([]byte(`{"amount":0}`)))
	// Output: the request breaks a rule: /amount is less than 1
}
