package console

import (
	"bytes"
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/postrider/postrider/dispatcher"
)

// curl writes a request as a command for a POSIX shell. The signature in it is good for as long as receivers take it, five
// minutes as a rule. A body that is no text comes through base64, since no shell can hold it.
func curl(r dispatcher.Request) string {
	var b strings.Builder
	text := utf8.Valid(r.Body) && bytes.IndexByte(r.Body, 0) < 0
	if !text {
		b.WriteString("echo " + base64.StdEncoding.EncodeToString(r.Body) + " | base64 -d | \\\n")
	}
	b.WriteString("curl -g -i -X POST " + quote(r.URL))
	for _, h := range r.Headers {
		field := h.Name + ": " + h.Value
		if h.Value == "" {
			field = h.Name + ";" // curl's way to send one that is empty
		}
		b.WriteString(" \\\n  -H " + quote(field))
	}
	if text {
		b.WriteString(" \\\n  --data-raw " + quote(string(r.Body)))
	} else {
		b.WriteString(" \\\n  --data-binary @-")
	}
	return b.String()
}

// quote makes a text one word for a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
