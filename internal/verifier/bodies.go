package verifier

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"
)

// body is what may have been signed.
type body struct {
	bytes []byte
	twist
}

// rewrittenMost is up to which size bodies are tried in ways that write them anew.
const rewrittenMost = 4 << 20

const rawBody = "Verify the bytes of the body as they come from the socket, before anything parses, decodes or prints them."

// bodies are the body as it is and as it may have been before something on the way changed it.
func (c *claim) bodies() []body {
	raw := c.Request.Body
	out := []body{{bytes: raw}}
	add := func(b []byte, code, says, do string) {
		if !slices.ContainsFunc(out, func(o body) bool { return bytes.Equal(o.bytes, b) }) {
			out = append(out, body{b, twist{code, says, do}})
		}
	}
	if said, err := strconv.Atoi(c.Request.Get("Content-Length")); err == nil && said >= 0 && said < len(raw) {
		add(raw[:said], "body_longer", "the body has more bytes at its end than were sent", rawBody)
	}
	lineEnds(raw, add)
	if len(raw) > rewrittenMost {
		return out
	}
	wrappings(raw, add)
	if trimmed := bytes.TrimSpace(bytes.TrimPrefix(raw, []byte(bom))); json.Valid(trimmed) {
		rewritings(trimmed, add)
	}
	return out
}

type adder = func(b []byte, code, says, do string)

// lineEnds are line breaks that came or went, and a byte order mark that did.
func lineEnds(raw []byte, add adder) {
	lf := bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n"))
	crlf := bytes.ReplaceAll(lf, []byte("\n"), []byte("\r\n"))
	const keep = "Keep it as it comes: `curl --data` takes line breaks away where --data-binary does not, editors and `echo` put one at the end. "
	for _, end := range []string{"\n", "\r\n"} {
		if cut, ok := bytes.CutSuffix(raw, []byte(end)); ok {
			add(cut, "body_newline_added", "the body has a line break at its end that was not signed", keep+rawBody)
		}
		add(append(bytes.Clone(raw), end...), "body_newline_lost", "the body lacks the line break at its end that was signed", keep+rawBody)
	}
	add(lf, "body_crlf", "the line breaks of the body are CRLF, and LF was signed", rawBody+" Windows, git and mail turn one into the other.")
	add(crlf, "body_lf", "the line breaks of the body are LF, and CRLF was signed", rawBody+" Windows, git and mail turn one into the other.")
	add(bytes.TrimSpace(raw), "body_blanks", "the body has blanks around it that were not signed", rawBody)
	if cut, ok := bytes.CutPrefix(raw, []byte(bom)); ok {
		add(cut, "body_bom", "the body begins with a byte order mark that was not signed", rawBody)
	} else {
		add(append([]byte(bom), raw...), "body_bom", "the body lacks the byte order mark that was signed", rawBody)
	}
}

// wrappings are bodies within others: a string of JSON, base64, gzip, a text in another alphabet.
func wrappings(raw []byte, add adder) {
	trimmed := bytes.TrimSpace(raw)
	var inner string
	if json.Unmarshal(trimmed, &inner) == nil {
		add([]byte(inner), "body_in_string", "the body is a JSON string that holds the body that was signed", rawBody)
	}
	if decoded, err := base64.StdEncoding.DecodeString(string(trimmed)); err == nil {
		add(decoded, "body_base64", "the body is base64 of the body that was signed", "Decode it first: gateways hand bodies over so (isBase64Encoded).")
	}
	if z, err := gzip.NewReader(bytes.NewReader(raw)); err == nil {
		if plain, err := io.ReadAll(io.LimitReader(z, rewrittenMost)); err == nil {
			add(plain, "body_gzip", "the body is compressed, and the plain one was signed", "Unpack it before the check; Postrider compresses nothing.")
		}
	}
	if narrow, ok := latin1(raw); ok {
		add(narrow, "body_charset", "the body was read as Latin-1 and written as UTF-8", rawBody)
	}
	add(nil, "body_empty", "an empty body was signed", "Whoever signs has to do so with the body in hand, not before it is read or after it was used up.")
}

// latin1 takes back what reading UTF-8 as Latin-1 did.
func latin1(raw []byte) (narrow []byte, ok bool) {
	if !utf8.Valid(raw) {
		return nil, false
	}
	for _, r := range string(raw) {
		if r > 0xff {
			return nil, false
		}
		narrow = append(narrow, byte(r&0xff))
	}
	return narrow, true
}

// rewritings are the same JSON as others write it.
func rewritings(text []byte, add adder) {
	const says = "the body was parsed and written again; signed was "
	for _, l := range layouts(text) {
		for _, e := range escapings {
			written := e.write(l.bytes)
			for _, end := range []string{"", "\n"} {
				how := l.name
				if e.name != "" && !bytes.Equal(written, l.bytes) {
					how += " with " + e.name
				}
				add(append(bytes.Clone(written), end...), "body_rewritten", says+how, rawBody+
					" A framework that hands over an object has to be told to keep the raw body.")
			}
		}
	}
}
