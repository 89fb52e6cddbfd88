package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/schema"
)

const described = `{
	"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"},
	"webhooks": {
		"order.paid": {"post": {
			"summary": "An order was paid", "requestBody": {"content": {"application/json": {
				"schema": {"$ref": "#/components/schemas/Order"}, "examples": {"b": {"value": 2}, "a": {"value": {"id": 1, "lines": []}}}
			}}}
		}},
		"order.gone": {"$ref": "#/components/pathItems/Gone"},
		"file.made": {"post": {"deprecated": true, "requestBody": {"content": {"application/pdf": {}}}}}
	},
	"components": {
		"schemas": {
			"Order": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}, "lines": {"items": {"$ref": "#/components/schemas/Line"}}}},
			"Line": {"type": "object", "properties": {"part": {"$ref": "#/components/schemas/Line"}, "order": {"$ref": "#/components/schemas/Order/properties/id"}}},
			"Unused": {"type": "null"}
		},
		"pathItems": {"Gone": {"description": "It is gone", "post": {"requestBody": {"content": {"application/json": {"schema": {"type": "object"}, "example": {}}}}}}}
	}
}`

func TestWebhooksOfADescription(t *testing.T) {
	t.Parallel()
	types, err := webhooksOf([]byte(described))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, fields := range types {
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = string(text)
	}
	for name, want := range map[string]string{
		"order.paid": `{"description":"An order was paid","example":{"id":1,"lines":[]},"schema":{"$defs":{` +
			`"Line":{"properties":{"order":{"$ref":"#/$defs/Order/properties/id"},"part":{"$ref":"#/$defs/Line"}},"type":"object"},` +
			`"Order":{"properties":{"id":{"type":"integer"},"lines":{"items":{"$ref":"#/$defs/Line"}}},"required":["id"],"type":"object"}},` +
			`"$ref":"#/$defs/Order"}}`,
		"order.gone": `{"description":"It is gone","example":{},"schema":{"type":"object"}}`,
		"file.made":  `{"archived":true}`,
	} {
		if got[name] != want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got[name], want)
		}
	}
	text, err := json.Marshal(types["order.paid"]["schema"])
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile(text)
	if err != nil || s.Check([]byte(`{"id":1,"lines":[{"order":2}]}`)) != nil || s.Check([]byte(`{"id":1,"lines":[{"order":"2"}]}`)) == nil {
		t.Errorf("the schema does not do: %v", err)
	}
}

func TestDescriptionsThatCannotBeImported(t *testing.T) {
	t.Parallel()
	hook := func(schema string) string {
		return `{"openapi":"3.1.0","webhooks":{"a":{"post":{"requestBody":{"content":{"application/json":{"schema":` + schema + `}}}}}}}`
	}
	for text, want := range map[string]string{
		`openapi: 3.1.0`: "no OpenAPI in JSON",
		`{"openapi":"3.0.3","webhooks":{"a":{}}}`: "only 3.1",
		`{"swagger":"2.0"}`:                       "only 3.1",
		`{"openapi":"3.1.0"}`:                     "no webhooks",
		`{"openapi":"3.1.0","webhooks":{"a":{}}}`: "has no post",
		`{"openapi":"3.1.0","webhooks":{"a":{"$ref":"#/components/pathItems/B"}}}`: "leads to nothing",
		hook(`{"$ref":"#/components/schemas/B"}`):                                  "leads to nothing",
		hook(`{"$ref":"https://a.example/b"}`):                                     "leads elsewhere",
	} {
		if _, err := webhooksOf([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestEventTypeCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	schemaFile, openapi := file("schema", `{"b": 1, "a": 2}`), file("openapi", described)
	const answer = `{"type":"order.paid","schema":null,"example":[],"updated_at":"2026-11-30T09:00:00Z"}`
	for name, c := range map[string]struct {
		line  []string
		asked []string
		out   string
	}{
		"put": {
			[]string{"put", "order.paid", "--description", "d", "--schema", schemaFile},
			[]string{`PUT /v1/event-types/order.paid {"description":"d","schema":{"b":1,"a":2}}`},
			"put order.paid\n",
		},
		"archive": {
			[]string{"put", "order.paid", "--archived"},
			[]string{`PUT /v1/event-types/order.paid {"archived":true}`},
			"put order.paid\n",
		},
		"delete": {[]string{"delete", "a/b"}, []string{`DELETE /v1/event-types/a%2Fb `}, "deleted a/b\n"},
		"import": {
			[]string{"import", openapi},
			[]string{
				`PUT /v1/event-types/file.made {"archived":true}`,
				`PUT /v1/event-types/order.gone {"description":"It is gone","example":{},"schema":{"type":"object"}}`,
				`PUT /v1/event-types/order.paid {"description":"An order was paid"`,
			},
			"put order.paid\nput order.paid\nput order.paid\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t, answerJSON(200, answer))
			out := must(t, nil, s.args(append([]string{"event-types"}, c.line...)...)...)
			if out != c.out || len(s.asked) != len(c.asked) {
				t.Errorf("%q, asked %+v", out, s.asked)
				return
			}
			for n, want := range c.asked {
				if got := s.asked[n]; !strings.HasPrefix(got.method+" "+got.uri+" "+got.body, want) {
					t.Errorf("asked %s %s %s, want %s", got.method, got.uri, got.body, want)
				}
			}
		})
	}
	s := newStandIn(t, answerJSON(200, `{"data":[`+answer+`],"next_cursor":null}`))
	if out := must(t, nil, s.args("event-types", "list")...); !strings.Contains(out, "order.paid") || !strings.Contains(out, "yes") {
		t.Errorf("%s", out)
	}
}
