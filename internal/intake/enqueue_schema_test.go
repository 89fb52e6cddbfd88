package intake_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/schema"
)

// What is plain is refused in the caller's transaction, with its place; the rest is judged at the fan-out.
func TestAPlainBreachIsRefusedBySQL(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	ten := d.staffed(t)
	const rules = `{"type": "object", "required": ["id", "a/b"], "additionalProperties": false, "properties": {
		"id": {"type": "integer", "minimum": 1}, "a/b": {"$ref": "#/$defs/name"}, "to": {"enum": ["x", 1.5, null]},
		"lines": {"type": "array", "maxItems": 2, "items": {"allOf": [{"$ref": "#/$defs/name"}, {"minLength": 2}]}},
		"not": {"not": {"const": 1}}}, "$defs": {"name": {"type": ["string", "null"], "maxLength": 3}}}`
	d.exec(t, `INSERT INTO event_types (name, id, schema, created_at, updated_at) VALUES ('ruled', 1, '`+rules+`', now(), now())`)
	for payload, want := range map[string]string{
		`{"id": 1, "a/b": "x"}`: "", `{"id": 1.0, "a/b": null, "to": 1.50, "lines": ["äöü", "ab"]}`: "",
		`{"id": 1, "a/b": "x", "not": 1}`: "", // beyond what SQL knows
		`{`:                               "/payload: is not JSON", ``: "/payload: is not JSON", `[]`: "/payload: is no object but array",
		`{"id": 1}`: "/payload/a~1b: is required", `{"id": "1", "a/b": "x"}`: "/payload/id: is no integer but string",
		`{"id": 1.5, "a/b": "x"}`: "/payload/id: is no integer but number", `{"id": 0, "a/b": "x"}`: "/payload/id: is beyond",
		`{"id": 1, "a/b": 7}`: "/payload/a~1b: is no string or null but number", `{"id": 1, "a/b": "four"}`: "/payload/a~1b: is shorter or longer",
		`{"id": 1, "a/b": "x", "more": 1}`: "/payload/more: may not be there", `{"id": 1, "a/b": "x", "to": "y"}`: "/payload/to: is none",
		`{"id": 1, "a/b": "x", "lines": ["ab", "b"]}`: "/payload/lines/1: is shorter", `{"id": 1, "a/b": "x", "lines": [1, 2, 3]}`: "/payload/lines: has less or more",
	} {
		_, err := enqueue(t.Context(), d.db, id.Tenant.Format(ten), intake.Event{Type: "ruled", Payload: []byte(payload)})
		var pgErr *pgconn.PgError
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", payload, err)
		case want != "" && (!errors.As(err, &pgErr) || pgErr.Code != "22023" || !strings.HasPrefix(pgErr.Message, want)):
			t.Errorf("%s: %v, want %s", payload, err, want)
		}
	}
	if _, err := enqueue(t.Context(), d.db, id.Tenant.Format(ten), intake.Event{Type: "ruled", ContentType: "text/csv", Payload: []byte("a;b")}); sqlstate(err) != "22023" {
		t.Errorf("no JSON: %v", err)
	}
}

// What SQL refuses the judge refuses: the other way round it need not be.
func TestWhatSQLRefusesTheJudgeRefuses(t *testing.T) {
	t.Parallel()
	d := liveDesk(t)
	judged, refused := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		rules := spell(r, drawSchema(r, 3))
		judge, err := schema.Compile([]byte(rules))
		if err != nil { // a reference to nothing, most of the time
			return
		}
		judged++
		var payloads []string
		for range 10 {
			payloads = append(payloads, spell(r, drawValue(r, 3)))
		}
		var breaches []*string
		err = d.db.QueryRow(t.Context(), `SELECT array_agg(postrider.payload_breach($1::json, 'application/json', convert_to(p.text, 'UTF8')) ORDER BY p.n)
			FROM unnest($2::text[]) WITH ORDINALITY AS p (text, n)`, rules, payloads).Scan(&breaches)
		if err != nil {
			r.Fatalf("%s: %v", rules, err)
		}
		for n, b := range breaches {
			if b == nil {
				continue
			}
			refused++
			if judge.Check([]byte(payloads[n])) == nil {
				r.Fatalf("%s is good by %s, and SQL says %s", payloads[n], rules, *b)
			}
		}
	})
	if judged == 0 || refused == 0 {
		t.Errorf("%d schemas, and %d payloads were refused", judged, refused)
	}
}

func spell(r *rapid.T, value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		r.Fatal(err)
	}
	return string(text)
}

var (
	names  = rapid.SampledFrom([]string{"a", "b", "a/b", "ä~", "$id", ""})
	scalar = rapid.SampledFrom([]any{
		nil, true, false, "", "a", "ab", "äöü", "\U0001F600", json.Number("0"), json.Number("1"), json.Number("1.0"), json.Number("1e0"), json.Number("-1.5"),
		json.Number("12345678901234567890"), json.Number("1e300"), json.Number("1E-5"),
	})
	bound = rapid.SampledFrom([]json.Number{"0", "1", "1.0", "-1.5", "2", "1e300"})
	size  = rapid.SampledFrom([]json.Number{"0", "1", "2", "3.0"})
	kinds = rapid.SampledFrom([]string{"null", "boolean", "object", "array", "number", "string", "integer"})
)

func drawValue(r *rapid.T, deep int) any {
	switch pick := rapid.IntRange(0, 3).Draw(r, "kind"); {
	case deep == 0 || pick == 0:
		return scalar.Draw(r, "scalar")
	case pick == 1:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(r, "items") {
			list = append(list, drawValue(r, deep-1))
		}
		return list
	}
	object := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(r, "fields") {
		object[names.Draw(r, "name")] = drawValue(r, deep-1)
	}
	return object
}

// drawSchema makes one of the rules that SQL knows and of some that it does not.
func drawSchema(r *rapid.T, deep int) any {
	if deep == 0 {
		return rapid.Bool().Draw(r, "all or nothing")
	}
	s := map[string]any{}
	inner := func() any { return drawSchema(r, deep-1) }
	several := func() []any { return []any{inner(), inner()} }
	for range rapid.IntRange(1, 6).Draw(r, "rules") {
		switch rule := rapid.SampledFrom([]string{
			"type", "types", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems",
			"required", "properties", "additionalProperties", "patternProperties", "items", "prefixItems", "allOf", "anyOf", "not", "if", "$ref", "$defs", "uniqueItems",
		}).Draw(r, "rule"); rule {
		case "type":
			s["type"] = kinds.Draw(r, "type")
		case "types":
			s["type"] = rapid.SliceOfNDistinct(kinds, 1, 3, rapid.ID).Draw(r, "types")
		case "enum":
			s["enum"] = []any{drawValue(r, 1), drawValue(r, 2)}
		case "const":
			s["const"] = drawValue(r, 2)
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
			s[rule] = bound.Draw(r, rule)
		case "minLength", "maxLength", "minItems", "maxItems":
			s[rule] = size.Draw(r, rule)
		case "required":
			s[rule] = rapid.SliceOfNDistinct(names, 0, 2, rapid.ID).Draw(r, rule)
		case "properties", "$defs": // what a reference leads to
			s[rule] = map[string]any{names.Draw(r, "name"): inner(), "a": inner()}
		case "patternProperties":
			s[rule] = map[string]any{"^a": inner()}
		case "prefixItems", "allOf", "anyOf":
			s[rule] = several()
		case "$ref":
			s["$defs"] = map[string]any{"a": inner()}
			s[rule] = rapid.SampledFrom([]string{"#", "#/$defs/a", "#/$defs/a", "#/properties/a", "#/allOf/1"}).Draw(r, rule)
		case "uniqueItems":
			s[rule] = true
		default:
			s[rule] = inner()
		}
	}
	return s
}
