package verifier

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

type named struct {
	name  string
	bytes []byte
}

// layouts are the ways that libraries lay out a JSON text; the tokens stay as they are.
func layouts(text []byte) []named {
	var compact bytes.Buffer
	if json.Compact(&compact, text) != nil {
		return nil
	}
	out := []named{{"the same JSON", text}, {"compact JSON", compact.Bytes()}, {"JSON with a blank after , and :", spaced(compact.Bytes())}}
	for _, indent := range []struct{ name, text string }{{"2 blanks", "  "}, {"4 blanks", "    "}, {"tabs", "\t"}} {
		var b bytes.Buffer
		if json.Indent(&b, compact.Bytes(), "", indent.text) == nil {
			out = append(out, named{"JSON indented by " + indent.name, b.Bytes()})
		}
	}
	if sorted, ok := byKey(text); ok {
		out = append(out, named{"JSON with sorted keys", sorted})
	}
	return out
}

// spaced writes compact JSON as Python's json.dumps does.
func spaced(compact []byte) []byte {
	var out []byte
	inside, escaped := false, false
	for _, b := range compact {
		out = append(out, b)
		switch {
		case escaped:
			escaped = false
		case inside && b == '\\':
			escaped = true
		case b == '"':
			inside = !inside
		case !inside && (b == ',' || b == ':'):
			out = append(out, ' ')
		}
	}
	return out
}

func byKey(text []byte) ([]byte, bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return nil, false
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(v) != nil {
		return nil, false
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), true
}

// escapings are the ways that libraries write characters within strings. Outside of strings none of these characters
// stands in a JSON text.
var escapings = []struct {
	name  string
	write func([]byte) []byte
}{
	{"", func(b []byte) []byte { return b }},
	{"<, > and & escaped", func(b []byte) []byte {
		var out bytes.Buffer
		json.HTMLEscape(&out, b)
		return out.Bytes()
	}},
	{"no character escaped", plain},
	{"all but ASCII escaped", ascii},
	{"/ escaped", slashed},
	{"/ and all but ASCII escaped", func(b []byte) []byte { return slashed(ascii(b)) }},
	{"/ not escaped", func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(`\/`), []byte(`/`)) }},
}

func slashed(b []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte(`\/`), []byte(`/`)), []byte(`/`), []byte(`\/`))
}

// ascii writes all but ASCII as \uXXXX.
func ascii(b []byte) []byte {
	var out []byte
	for _, r := range string(b) {
		if r < utf8.RuneSelf {
			out = append(out, byte(r&0x7f))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = append(out, `\u`...)
			hex := strconv.FormatUint(uint64(unit), 16)
			out = append(append(out, "0000"[len(hex):]...), hex...)
		}
	}
	return out
}

// A run of escapes, with the backslash before it if that is escaped itself.
var escapes = regexp.MustCompile(`\\\\|(\\u[0-9a-fA-F]{4})+`)

// plain writes what need not be escaped as it is.
func plain(b []byte) []byte {
	return escapes.ReplaceAllFunc(b, func(run []byte) []byte {
		var text string
		if run[1] == '\\' || json.Unmarshal([]byte(`"`+string(run)+`"`), &text) != nil {
			return run
		}
		for _, r := range text {
			if r < ' ' || r == '"' || r == '\\' || r == utf8.RuneError {
				return run
			}
		}
		return []byte(text)
	})
}
