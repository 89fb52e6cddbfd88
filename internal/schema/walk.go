package schema

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/postrider/postrider/internal/fault"
)

// maxExponent is that of a double: numbers are worked out to the last digit, and 1e999999999 has a billion of them.
const maxExponent = 400

// walk looks through a value for what would take too long or too much to work with.
func walk(value any, depth, values int) error {
	w := walker{left: values}
	return w.value(value, nil, depth)
}

type walker struct{ left int }

func (w *walker) value(value any, at []string, depth int) error {
	if w.left--; w.left < 0 {
		return fault.InvalidAt("", "has too many values to be checked")
	}
	if depth < 0 {
		return fault.InvalidAt(pointer(at), "is nested more than %d deep", maxDepth)
	}
	switch value := value.(type) {
	case json.Number:
		if !moderate(value.String()) {
			return fault.InvalidAt(pointer(at), "is a number beyond what a double-precision number can be")
		}
	case []any:
		for n, inner := range value {
			if err := w.value(inner, append(at, strconv.Itoa(n)), depth-1); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, inner := range value {
			if err := w.value(inner, append(at, name), depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}

func moderate(number string) bool {
	_, exponent, has := strings.Cut(strings.ToLower(number), "e")
	if !has {
		return true
	}
	e, err := strconv.Atoi(exponent)
	return err == nil && -maxExponent <= e && e <= maxExponent
}

// maxPointer bounds what is told of a place: the names in it are the payload's own, and as long as they like.
const maxPointer = 300

// pointer spells a place (RFC 6901, 3). One that is too long is told as far as it goes.
func pointer(at []string) string {
	var b strings.Builder
	for _, name := range at {
		token := escaper.Replace(name)
		if b.Len()+1+len(token) > maxPointer {
			break
		}
		b.WriteByte('/')
		b.WriteString(token)
	}
	return b.String()
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")
