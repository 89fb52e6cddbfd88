package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// maxDepth is how deep a body may nest outside of payloads: what we read goes three deep, the rest is metadata.
const maxDepth = 64

// strictJSON is how bodies are read and answers written. huma reads each body twice: first into an `any` that it checks
// against the schema, then into the handler's struct. The first reading is ours: it refuses what encoding/json lets pass
// and what would differ between what was checked and what is stored.
var strictJSON = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal,
	Unmarshal: func(data []byte, v any) error {
		tree, ok := v.(*any)
		if !ok {
			return json.Unmarshal(data, v)
		}
		var err error
		*tree, err = readTree(data)
		return err
	},
}

// readTree reads one JSON text (RFC 8259) and nothing after it. Names given twice, strings that are not UTF-8 or hold
// NUL (PostgreSQL's text and jsonb take neither) and numbers beyond a float64 are errors in words. None of this goes for
// a payload, whose bytes are the producer's own: it has to be JSON so that its end can be found, and is not looked into.
func readTree(data []byte) (any, error) { return readTreeAround(data, isPayload) }

// readTreeAround is readTree where other members than those of envelopes are payloads.
func readTreeAround(data []byte, isPayload func(name, at string, depth int) bool) (any, error) {
	r := treeReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), isPayload: isPayload}
	r.dec.UseNumber()
	tree, err := r.value("", 0)
	if err != nil {
		return nil, r.explain(err)
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON")
	}
	if !utf8.Valid(data[r.checked:]) {
		return nil, errNotUTF8
	}
	return tree, nil
}

var errNotUTF8 = errors.New("the body is not UTF-8")

type treeReader struct {
	data      []byte
	dec       *json.Decoder
	checked   int64 // everything before this offset is UTF-8 or payload
	isPayload func(name, at string, depth int) bool
}

func (r *treeReader) value(at string, depth int) (any, error) {
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		if depth == maxDepth {
			return nil, fmt.Errorf("the JSON nests deeper than %d", maxDepth)
		}
		if token == '{' {
			return r.object(at, depth)
		}
		return r.array(at, depth)
	case json.Number:
		return number(at, string(token))
	case string:
		return token, r.text(at, token)
	default: // true, false, null
		return token, nil
	}
}

func (r *treeReader) object(at string, depth int) (any, error) {
	members := map[string]any{}
	for r.dec.More() {
		token, err := r.dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string) // the decoder takes nothing else here
		key := quoteKey(name)
		here := at + "/" + key
		if _, twice := members[key]; twice {
			return nil, fmt.Errorf("%s: the name is given twice", place(here))
		}
		if err := r.text(here, name); err != nil {
			return nil, err
		}
		if r.isPayload(name, at, depth) {
			members[key], err = r.payload()
		} else {
			members[key], err = r.value(here, depth+1)
		}
		if err != nil {
			return nil, err
		}
	}
	_, err := r.dec.Token() // the brace
	return members, err
}

// isPayload reports whether a member of the object at this place is a payload: of an object that carries an event, which is
// the body itself, or one of a batch's.
func isPayload(name, at string, depth int) bool {
	return name == "payload" && (depth == 0 || depth == 2 && strings.HasPrefix(at, "/events/"))
}

func (r *treeReader) array(at string, depth int) (any, error) {
	items := []any{}
	for r.dec.More() {
		item, err := r.value(at+"/"+strconv.Itoa(len(items)), depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	_, err := r.dec.Token() // the bracket
	return items, err
}

// payload passes over a value without a look at what is in it. The true stands for "there is one".
func (r *treeReader) payload() (any, error) {
	start := r.dec.InputOffset()
	if !utf8.Valid(r.data[r.checked:start]) {
		return nil, errNotUTF8
	}
	var raw json.RawMessage
	if err := r.dec.Decode(&raw); err != nil {
		return nil, err
	}
	r.checked = r.dec.InputOffset()
	return true, nil
}

func (*treeReader) text(at, s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%s: holds a NUL character", place(at))
	}
	return nil
}

// place is a pointer as people may see it.
func place(at string) string {
	return strings.ReplaceAll(keyUnquoter.Replace(at), "\x00", "␀")
}

// number gives the float64 that huma checks. What a float64 cannot come near to is refused: neither can anyone else's.
func number(at, literal string) (any, error) {
	n, err := strconv.ParseFloat(literal, 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(literal), "e")
	vanished := n == 0 && strings.ContainsAny(mantissa, "123456789")
	if err != nil || math.IsInf(n, 0) || vanished {
		return nil, fmt.Errorf("%s: the number is out of range", place(at))
	}
	return n, nil
}

// explain gives the decoder's errors a place.
func (r *treeReader) explain(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON breaks off")
	case errors.As(err, &syntax):
		return fmt.Errorf("the body is not JSON: %w (at byte %d)", err, r.dec.InputOffset())
	}
	return err
}
