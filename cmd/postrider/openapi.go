package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// description is as much of an OpenAPI 3.1 description as tells of webhooks.
type description struct {
	OpenAPI    string             `json:"openapi"`
	Webhooks   map[string]webhook `json:"webhooks"`
	Components struct {
		Schemas   map[string]any     `json:"schemas"`
		PathItems map[string]webhook `json:"pathItems"`
	} `json:"components"`
}

type webhook struct {
	Ref         string `json:"$ref"`
	Summary     string `json:"summary"`
	Description string `json:"description"`
	Post        *struct {
		Summary     string `json:"summary"`
		Description string `json:"description"`
		Deprecated  bool   `json:"deprecated"`
		RequestBody struct {
			Content map[string]mediaType `json:"content"`
		} `json:"requestBody"`
	} `json:"post"`
}

type mediaType struct {
	Schema   any `json:"schema"`
	Example  any `json:"example"`
	Examples map[string]struct {
		Value any `json:"value"`
	} `json:"examples"`
}

const (
	schemaRefs   = "#/components/schemas/"
	pathItemRefs = "#/components/pathItems/"
)

// webhooksOf makes of a description what the catalogue takes, by the webhooks' names.
func webhooksOf(text []byte) (map[string]map[string]any, error) {
	var d description
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("the description is no OpenAPI in JSON: %w", err)
	}
	if !strings.HasPrefix(d.OpenAPI, "3.1.") {
		return nil, fmt.Errorf("the description is of OpenAPI %s, and only 3.1 has webhooks with JSON Schemas", quote(d.OpenAPI))
	}
	if len(d.Webhooks) == 0 {
		return nil, errors.New("the description has no webhooks")
	}
	types := make(map[string]map[string]any, len(d.Webhooks))
	for name, hook := range d.Webhooks {
		fields, err := d.eventType(hook)
		if err != nil {
			return nil, fmt.Errorf("the webhook %s: %w", quote(name), err)
		}
		types[name] = fields
	}
	return types, nil
}

func (d description) eventType(hook webhook) (map[string]any, error) {
	if name, is := strings.CutPrefix(hook.Ref, pathItemRefs); is {
		found, there := d.Components.PathItems[unescaped(name)]
		if !there {
			return nil, fmt.Errorf("%s leads to nothing", quote(hook.Ref))
		}
		hook = found
	}
	if hook.Post == nil {
		return nil, errors.New("has no post")
	}
	fields := map[string]any{}
	for _, text := range []string{hook.Post.Description, hook.Post.Summary, hook.Description, hook.Summary} {
		if text != "" {
			fields["description"] = text
			break
		}
	}
	if hook.Post.Deprecated {
		fields["archived"] = true
	}
	body, there := hook.Post.RequestBody.Content["application/json"]
	if !there {
		return fields, nil
	}
	if body.Schema != nil {
		schema, err := d.bundled(body.Schema)
		if err != nil {
			return nil, err
		}
		fields["schema"] = schema
	}
	switch first := slices.Sorted(maps.Keys(body.Examples)); {
	case body.Example != nil:
		fields["example"] = body.Example
	case len(first) > 0 && body.Examples[first[0]].Value != nil:
		fields["example"] = body.Examples[first[0]].Value
	}
	return fields, nil
}

// bundled is a schema with the components that it refers to, also by others of them, under its own $defs.
func (d description) bundled(schema any) (any, error) {
	b := bundle{of: d.Components.Schemas, taken: map[string]any{}}
	own, err := b.rewrite(schema)
	object, is := own.(map[string]any)
	if err != nil || !is || len(b.taken) == 0 {
		return own, err
	}
	defs, _ := object["$defs"].(map[string]any)
	if defs == nil {
		defs = map[string]any{}
	}
	for name, component := range b.taken {
		if _, twice := defs[name]; twice {
			return nil, fmt.Errorf("the schema has a definition %s of its own and refers to a component of this name", quote(name))
		}
		defs[name] = component
	}
	object["$defs"] = defs
	return object, nil
}

type bundle struct {
	of, taken map[string]any
}

// rewrite copies a value with its references turned to where the components will be.
func (b bundle) rewrite(value any) (any, error) {
	switch value := value.(type) {
	case []any:
		out := make([]any, len(value))
		for n, inner := range value {
			var err error
			if out[n], err = b.rewrite(inner); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, inner := range value {
			var err error
			if ref, is := inner.(string); is && name == "$ref" {
				out[name], err = b.refer(ref)
			} else {
				out[name], err = b.rewrite(inner)
			}
			if err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return value, nil
}

func (b bundle) refer(ref string) (string, error) {
	name, is := strings.CutPrefix(ref, schemaRefs)
	if !is {
		return "", fmt.Errorf("the reference %s leads elsewhere than to %s", quote(ref), schemaRefs)
	}
	name, _, _ = strings.Cut(name, "/") // what follows leads into the component
	plain := unescaped(name)
	if _, known := b.taken[plain]; !known {
		component, there := b.of[plain]
		if !there {
			return "", fmt.Errorf("%s leads to nothing", quote(ref))
		}
		b.taken[plain] = nil // before it is rewritten, since it may refer to itself
		copied, err := b.rewrite(component)
		if err != nil {
			return "", err
		}
		b.taken[plain] = copied
	}
	return "#/$defs/" + strings.TrimPrefix(ref, schemaRefs), nil
}

// unescaped is a name in a JSON pointer as it is.
func unescaped(token string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(token) }
