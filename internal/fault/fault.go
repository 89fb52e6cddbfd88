// Package fault is the one vocabulary for things that go wrong in a way a caller must hear about: a code, a sentence
// and, for bad input, the places at fault. It knows nothing of SQL or any other package of Postrider; of HTTP it
// knows the statuses alone (status.go), and internal/pg maps a constraint's name to a Code.
package fault

import (
	"errors"
	"fmt"
	"strings"
)

// Code says what kind of fault it is. Its value is what logs and metrics show.
type Code string

// The codes, each with its HTTP status (HTTPStatus).
const (
	Invalid            Code = "invalid"             // 422: understood, but a value breaks a rule
	Malformed          Code = "malformed"           // 400: not even parsable
	Unauthenticated    Code = "unauthenticated"     // 401: no key or a bad one
	Forbidden          Code = "forbidden"           // 403: a good key without the scope
	NotFound           Code = "not_found"           // 404: not there, or another tenant's
	Conflict           Code = "conflict"            // 409: the thing's state or a unique name forbids it
	PreconditionFailed Code = "precondition_failed" // 412: If-Match names an older version
	TooLarge           Code = "too_large"           // 413: the body is over the limit
	UnsupportedMedia   Code = "unsupported_media"   // 415: a content type this route does not take
	TooMany            Code = "too_many"            // 429: slow down
	Unavailable        Code = "unavailable"         // 503: the store cannot be reached; nothing was done
	Blocked            Code = "blocked"             // 422: an address deliveries may not go to
	Internal           Code = "internal"            // 500: our own fault
	MethodNotAllowed   Code = "method_not_allowed"  // 405: another method would do
	RequestTimeout     Code = "request_timeout"     // 408: the body came too slowly
)

// Field is one place in the input that is at fault.
type Field struct {
	Pointer string // JSON pointer (RFC 6901) into the request's body, such as "/url"; "" is the whole
	Detail  string // what is wrong there, in words for the caller
}

// String says where and what, in one line.
func (f Field) String() string { return strings.TrimSpace(f.Pointer + " " + f.Detail) }

// Error is a fault with its code. Detail and Fields are shown to callers, so they hold no secret and no internal
// address; the wrapped error is for the log alone.
type Error struct {
	Code   Code
	Detail string
	Fields []Field
	err    error
}

// Error joins the detail, the fields and the wrapped cause, for logs.
func (e *Error) Error() string {
	parts := make([]string, 0, len(e.Fields)+2)
	if e.Detail != "" {
		parts = append(parts, e.Detail)
	}
	for _, f := range e.Fields {
		parts = append(parts, f.String())
	}
	if e.err != nil {
		parts = append(parts, e.err.Error())
	}
	if len(parts) == 0 {
		return string(e.Code)
	}
	return strings.Join(parts, ": ")
}

// Unwrap gives the cause, if there is one.
func (e *Error) Unwrap() error { return e.err }

// New makes a fault with a sentence for the caller.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Wrap makes a fault around a cause that only the log shall see.
func Wrap(code Code, cause error, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...), err: cause}
}

// InvalidAt makes an Invalid fault that names one place.
func InvalidAt(pointer, format string, args ...any) *Error {
	return &Error{
		Code:   Invalid,
		Detail: "the request breaks a rule",
		Fields: []Field{{Pointer: pointer, Detail: fmt.Sprintf(format, args...)}},
	}
}

// CodeOf gives err's code: Internal for an error that is no fault, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var f *Error
	if errors.As(err, &f) {
		return f.Code
	}
	return Internal
}

// Is reports whether err is a fault with this code.
func Is(err error, code Code) bool {
	return err != nil && CodeOf(err) == code
}

// Fields collects faults of several places, so that a caller hears of all of them at once.
type Fields []Field

// Add notes that the value at pointer is at fault. An empty err adds nothing.
func (fs *Fields) Add(pointer string, err error) {
	if err == nil {
		return
	}
	var f *Error
	if errors.As(err, &f) && len(f.Fields) > 0 {
		for _, inner := range f.Fields {
			*fs = append(*fs, Field{Pointer: pointer + inner.Pointer, Detail: inner.Detail})
		}
		return
	}
	if errors.As(err, &f) && f.Detail != "" {
		*fs = append(*fs, Field{Pointer: pointer, Detail: f.Detail})
		return
	}
	*fs = append(*fs, Field{Pointer: pointer, Detail: err.Error()})
}

// Addf notes a fault at pointer in words.
func (fs *Fields) Addf(pointer, format string, args ...any) {
	*fs = append(*fs, Field{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
}

// Err gives one Invalid fault of all that was collected, or nil.
func (fs Fields) Err() error {
	if len(fs) == 0 {
		return nil
	}
	return &Error{Code: Invalid, Detail: "the request breaks a rule", Fields: fs}
}
