// Package traceparent is the one header of W3C Trace Context that Postrider reads and writes: which trace and which span of
// it a request belongs to. It makes no spans and exports none: that is internal/tracing.
package traceparent

import (
	"context"
	"encoding/hex"
	"net/http"
)

// The header's name.
const (
	Name   = "traceparent" // as the recommendation would have it sent
	Header = "Traceparent" // as net/http keys it
)

const (
	size    = 25 // bytes of Bytes: the trace's id, the span's, the flags
	length  = 55 // characters of version 00
	sampled = 1  // the flag that says that the caller may have recorded the trace
)

// Context names a span. The zero one names none.
type Context struct {
	Trace [16]byte
	Span  [8]byte
	Flags byte
}

// Valid reports whether it names a span: ids of zeros are none.
func (c Context) Valid() bool { return c.Trace != [16]byte{} && c.Span != [8]byte{} }

// Sampled reports whether whoever began the span may have recorded it.
func (c Context) Sampled() bool { return c.Flags&sampled != 0 }

// Parse reads a header's value. What is malformed names nothing: a trace is never worth refusing a request over. A version
// that is to come is read as far as 00 goes, as the recommendation says (§3.2.4), and of the flags only the known one is kept.
func Parse(text string) (c Context, ok bool) {
	if len(text) < length || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return Context{}, false
	}
	var head, flags [1]byte
	if !lower(text[:length]) || !read(head[:], text[:2]) || !read(c.Trace[:], text[3:35]) || !read(c.Span[:], text[36:52]) ||
		!read(flags[:], text[53:55]) {
		return Context{}, false
	}
	switch {
	case head[0] == 0xff, head[0] == 0 && len(text) != length, len(text) > length && text[length] != '-', !c.Valid():
		return Context{}, false
	}
	c.Flags = flags[0] & sampled
	return c, true
}

// lower refuses capitals, which hex.Decode takes and the recommendation does not.
func lower(text string) bool {
	for i := range len(text) {
		if 'A' <= text[i] && text[i] <= 'F' {
			return false
		}
	}
	return true
}

// read decodes hexadecimal digits without taking memory.
func read(into []byte, text string) bool {
	var digits [32]byte
	n := copy(digits[:], text)
	_, err := hex.Decode(into, digits[:n])
	return err == nil
}

// Of reads the header of a request. Several are as good as none.
func Of(h http.Header) (c Context, ok bool) {
	if given := h[Header]; len(given) == 1 {
		return Parse(given[0])
	}
	return Context{}, false
}

// String is the header's value.
func (c Context) String() string {
	b := make([]byte, 0, length)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, c.Trace[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, c.Span[:])
	b = append(b, '-')
	return string(hex.AppendEncode(b, []byte{c.Flags}))
}

// TraceID is the trace's id as logs and tools write it; "" if there is none.
func (c Context) TraceID() string {
	if !c.Valid() {
		return ""
	}
	return hex.EncodeToString(c.Trace[:])
}

// Bytes is what is kept of it in a table: the ids and the flags, 25 bytes; nil if it names nothing.
func (c Context) Bytes() []byte {
	if !c.Valid() {
		return nil
	}
	b := make([]byte, 0, size)
	b = append(b, c.Trace[:]...)
	b = append(b, c.Span[:]...)
	return append(b, c.Flags)
}

// FromBytes reads what Bytes gave. Anything else names nothing.
func FromBytes(b []byte) (c Context) {
	if len(b) != size {
		return Context{}
	}
	copy(c.Trace[:], b)
	copy(c.Span[:], b[16:])
	c.Flags = b[24]
	return c
}

type contextKey struct{}

// With has ctx carry the caller's context, for who keeps it with what the call makes.
func With(ctx context.Context, c Context) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// From gives what With was given; the zero Context if nothing.
func From(ctx context.Context) Context {
	c, _ := ctx.Value(contextKey{}).(Context)
	return c
}
