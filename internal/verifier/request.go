package verifier

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"regexp"
	"strings"
)

// Field is one line of a request's head.
type Field struct{ Name, Value string }

// Request is a request as it was captured.
type Request struct {
	Fields []Field
	Body   []byte
}

var (
	requestLine = regexp.MustCompile(`^[A-Za-z]+ \S.* HTTP/[0-9.]+$`)
	statusLine  = regexp.MustCompile(`^HTTP/[0-9.]+ [0-9]{3}`)
	fieldName   = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
)

const bom = "\ufeff"

// ParseRequest reads a request as it goes over HTTP/1.1: a request line, which may be missing, headers, an empty line and
// the body, which is all the rest, byte for byte. The head's lines may end in CRLF or LF. Of a body in chunks the chunks
// are put together; one that is said to be in chunks, and was put together already, stands as it is.
func ParseRequest(raw []byte) (Request, error) {
	raw = bytes.TrimPrefix(raw, []byte(bom)) // an editor's; the body's own is kept
	var r Request
	for number := 1; ; number++ {
		if len(raw) == 0 {
			break // no empty line: there is no body
		}
		text, rest, _ := bytes.Cut(raw, []byte("\n"))
		raw = rest
		line := strings.TrimSuffix(string(text), "\r")
		if line == "" {
			break
		}
		if number == 1 && requestLine.MatchString(line) {
			continue
		}
		f, err := ParseField(line)
		switch {
		case number == 1 && statusLine.MatchString(line):
			return Request{}, errors.New("line 1: this is an answer; the request is what is signed")
		case strings.HasPrefix(line, ":"):
			continue // HTTP/2 writes the request line as :method and the like
		case err != nil:
			return Request{}, fmt.Errorf("line %d: %w; an empty line has to stand between the headers and the body", number, err)
		}
		r.Fields = append(r.Fields, f)
	}
	if len(r.Fields) == 0 {
		return Request{}, errors.New("there are no headers: a request is its headers, an empty line and the body")
	}
	r.Body = raw
	r.unchunk()
	return r, nil
}

// ParseField reads one header, such as "webhook-id: evt_1".
func ParseField(line string) (Field, error) {
	name, value, ok := strings.Cut(line, ":")
	if !ok || !fieldName.MatchString(name) {
		return Field{}, errors.New("this is no header like 'webhook-id: evt_1'") // not repeated: it may be a credential
	}
	return Field{name, strings.Trim(value, " \t\r\n")}, nil
}

func (r *Request) unchunk() {
	if !strings.EqualFold(r.Get("Transfer-Encoding"), "chunked") {
		return
	}
	chunks := bufio.NewReader(bytes.NewReader(r.Body))
	body, err := io.ReadAll(httputil.NewChunkedReader(chunks))
	if err == nil {
		r.Body = body
	}
}

// Get gives a header's first value by its name in any case, "" where there is none.
func (r *Request) Get(name string) string {
	for _, f := range r.Fields {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// count is how often a header is there.
func (r *Request) count(name string) (n int) {
	for _, f := range r.Fields {
		if strings.EqualFold(f.Name, name) {
			n++
		}
	}
	return n
}
