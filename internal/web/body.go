package web

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Body is bytes that came from outside, in the forms in which people read them.
type Body struct {
	Empty  bool
	Pretty string // spread over lines, if they are JSON; order, repetitions and numbers stay as they are
	Raw    string // as text, if they are UTF-8
	Hex    string // if they are not
	Note   string
}

// What is shown of a body, in bytes.
const (
	shownText = 64 << 10
	shownHex  = 4 << 10
)

// NewBody makes the forms. cut says that there was more than these.
func NewBody(b []byte, cut bool) Body {
	v := Body{Empty: len(b) == 0}
	var notes []string
	if cut {
		notes = append(notes, "Only the beginning was kept.")
	}
	text := bytes.TrimRightFunc(b, func(r rune) bool { return cut && r == utf8.RuneError }) // a letter that was cut through
	switch {
	case v.Empty:
		v.Note = "It is empty."
		return v
	case utf8.Valid(text) && bytes.IndexByte(text, 0) < 0:
		if len(text) > shownText {
			text = []byte(strings.ToValidUTF8(string(text[:shownText]), ""))
			notes = append(notes, fmt.Sprintf("Shown are the first %d KiB.", shownText>>10))
		} else {
			v.Pretty = Visible(spread(bytes.TrimSpace(text)))
		}
		v.Raw = Visible(string(text))
	default:
		if len(b) > shownHex {
			b = b[:shownHex]
			notes = append(notes, fmt.Sprintf("Shown are the first %d KiB.", shownHex>>10))
		}
		v.Hex = hex.Dump(b)
		notes = append(notes, "It is no UTF-8 text.")
	}
	v.Note = strings.Join(notes, " ")
	return v
}

// indentation is one level of it.
const indentation = "  "

// spread lays JSON out over lines; "" if it is none. So is what is nested so deeply that it would be mostly blanks: brackets
// alone make the square of their number.
func spread(text []byte) string {
	limit := 8*len(text) + 4<<10
	size, depth, quoted, escaped := len(text), 0, false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
			continue
		case quoted && c == '\\':
			escaped = true
			continue
		case c == '"':
			quoted = !quoted
			continue
		case quoted:
			continue
		case c == '[', c == '{':
			depth++
		case c == ']', c == '}':
			depth--
		case c != ',':
			continue
		}
		if size += 1 + len(indentation)*max(depth, 0); size > limit {
			return ""
		}
	}
	var out bytes.Buffer
	if json.Indent(&out, text, "", indentation) != nil {
		return ""
	}
	return out.String()
}

// Visible shows what would not be seen, or would turn the text around it, as an escape. Line ends and tabs stay.
func Visible(s string) string {
	if !strings.ContainsFunc(s, unseen) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unseen(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unseen(r rune) bool {
	return r != '\n' && r != '\t' && r != '\r' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == 0x2028 || r == 0x2029)
}
