package console

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/postrider/postrider/internal/web"
)

// said is one thing that an entry of the audit log says beside.
type said struct{ Name, Value string }

// saidLimit is how many characters of a value are shown: a list of an endpoint's event types, for example, may be long.
const saidLimit = 200

// tell makes lines of an entry's details: what was changed first, as "before → after", then the rest.
func tell(details json.RawMessage) []said {
	var all map[string]json.RawMessage
	if json.Unmarshal(details, &all) != nil {
		return nil // there is nothing that a line could be made of
	}
	var changes map[string]json.RawMessage
	var out []said
	if json.Unmarshal(all["changes"], &changes) == nil {
		delete(all, "changes")
		for _, field := range slices.Sorted(maps.Keys(changes)) {
			out = append(out, said{field, change(changes[field])})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, said{name, plainly(all[name])})
	}
	return out
}

// change writes what a field was and is; or that it was changed, where the values are not told.
func change(raw json.RawMessage) string {
	var c struct{ Old, New json.RawMessage }
	if json.Unmarshal(raw, &c) != nil || c.Old == nil && c.New == nil {
		return plainly(raw)
	}
	return plainly(c.Old) + " → " + plainly(c.New)
}

// plainly writes a JSON value without the marks of JSON where it is a text or a list of them.
func plainly(raw json.RawMessage) string {
	var text string
	var list []string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		text = "none"
	case json.Unmarshal(raw, &text) == nil:
		if text == "" {
			text = "empty"
		}
	case json.Unmarshal(raw, &list) == nil:
		text = strings.Join(list, ", ")
		if len(list) == 0 {
			text = "none"
		}
	default:
		text = string(raw)
	}
	return web.Visible(web.Clip(saidLimit, text))
}
