package client

import (
	"fmt"
	"strings"
)

// Error is a refusal. It tells what is wrong, and for bad input where.
type Error struct {
	Status int    // the HTTP status of the answer; 0: it was refused here, before anything was asked
	Title  string // the status in a few words
	Detail string // what went wrong this time, for a person
	Errors []FieldError
}

// FieldError is one place at fault.
type FieldError struct {
	// Pointer is a JSON pointer (RFC 6901): /uid is the event's uid, /events/3/type the type of a batch's fourth event. What
	// breaks the schema of its type is named within the payload, such as /payload/total. "": the whole.
	Pointer string
	Detail  string // what is wrong there
}

// Error is the whole of it in one line.
func (e *Error) Error() string {
	text := e.Detail
	if len(e.Errors) > 0 {
		places := make([]string, len(e.Errors))
		for n, f := range e.Errors {
			places[n] = strings.TrimPrefix(f.Pointer+": "+f.Detail, ": ")
		}
		text = strings.Join(places, "; ")
	}
	switch {
	case e.Status == 0:
		return text
	case text == "":
		return fmt.Sprintf("status %d", e.Status)
	}
	return fmt.Sprintf("%s (%d %s)", text, e.Status, strings.ToLower(e.Title))
}
