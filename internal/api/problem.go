package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider/internal/fault"
)

const problemType = "application/problem+json"

// typePrefix and a fault's code make a problem's type, the member that programs shall look at.
const typePrefix = "urn:postrider:problem:"

// Problem is the body of every answer that is an error (RFC 9457, section 3.1).
type Problem struct {
	Type   string         `json:"type" format:"uri" doc:"Says which kind of problem it is; a program can rely on it."`
	Title  string         `json:"title" doc:"The same in a few words."`
	Status int            `json:"status" doc:"The answer's status."`
	Detail string         `json:"detail" doc:"What went wrong this time, for a person."`
	Errors []ProblemError `json:"errors,omitempty" nullable:"false" doc:"Each place in the request that is at fault."`

	cause error // for the log alone
}

// ProblemError is one place in the request that is at fault.
type ProblemError struct {
	Pointer string `json:"pointer" example:"/url" doc:"A JSON pointer (RFC 6901) into the body; the empty one is the whole. A query parameter is shown as ?name, a header by its name."`
	Detail  string `json:"detail" example:"needs a host" doc:"What is wrong there."`
}

// Error is what goes to the log.
func (p *Problem) Error() string { return p.Detail }

// Unwrap gives the cause, which callers do not see.
func (p *Problem) Unwrap() error { return p.cause }

// GetStatus is for huma, which writes the answer.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is RFC 9457's, whatever was negotiated for the good case.
func (*Problem) ContentType(string) string { return problemType }

// newProblem makes a problem with a detail in words.
func newProblem(code fault.Code, detail string) *Problem {
	status := fault.HTTPStatus(code)
	if detail == "" {
		detail = http.StatusText(status)
	}
	return &Problem{Type: typePrefix + string(code), Title: http.StatusText(status), Status: status, Detail: detail}
}

// problemOf turns any error of the packages below into the problem a caller is told of. What is no fault is our own: its
// text stays in the log.
func problemOf(err error) *Problem {
	var already *Problem
	if errors.As(err, &already) {
		return already
	}
	var f *fault.Error
	switch {
	case errors.As(err, &f) && f.Code != fault.Internal:
	case errors.Is(err, context.Canceled): // whoever asked has gone; nobody reads this answer
		f = fault.New(fault.Unavailable, "the request was given up")
	default:
		f = fault.New(fault.Internal, "something went wrong on our side; the log has it under this answer's X-Request-Id")
	}
	p := newProblem(f.Code, f.Detail)
	p.cause = err
	for _, field := range f.Fields {
		p.Errors = append(p.Errors, ProblemError{Pointer: field.Pointer, Detail: field.Detail})
	}
	p.summarise()
	return p
}

// summarise lets a 422's detail say what is wrong where, so that it helps without the list. A blocked address is at fault
// in its own words.
func (p *Problem) summarise() {
	if p.Status != http.StatusUnprocessableEntity {
		return
	}
	if len(p.Errors) == 0 {
		p.Errors = []ProblemError{{Detail: p.Detail}}
		return
	}
	first := p.Errors[0]
	p.Detail = first.Detail
	if first.Pointer != "" {
		p.Detail = first.Pointer + ": " + first.Detail
	}
	if more := len(p.Errors) - 1; more > 0 {
		p.Detail += " (and " + strconv.Itoa(more) + " more)"
	}
}

// humaProblem is what huma calls where it answers by itself: errors that handlers return, parameters and bodies that it
// could not read or that break their schema.
func humaProblem(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
	p := humaErrors(ctx, status, message, errs)
	if ctx == nil {
		return p
	}
	if t := traceOf(ctx.Context()); t != nil {
		t.err = p
	}
	if p.Status == http.StatusServiceUnavailable {
		ctx.SetHeader("Retry-After", "1")
	}
	return p
}

func humaErrors(ctx huma.Context, status int, message string, errs []error) *Problem {
	if len(errs) == 1 {
		var detail *huma.ErrorDetail
		if !errors.As(errs[0], &detail) && message != cannotRead {
			return problemOf(errs[0])
		}
	}
	switch {
	case status == http.StatusRequestEntityTooLarge && ctx != nil:
		limit := ctx.Operation().MaxBodyBytes - 1 // see route.operation
		return newProblem(fault.TooLarge, "the body is over the limit of "+strconv.FormatInt(limit, 10)+" bytes")
	case status == http.StatusRequestTimeout:
		return tooSlow()
	case message == needsBody:
		return newProblem(fault.Malformed, "a body is needed here")
	case message == cannotRead:
		return brokenOff(errors.Join(errs...))
	}
	p := newProblem(codeOf(status), message)
	for _, err := range errs {
		p.Errors = append(p.Errors, problemErrors(err)...)
	}
	switch {
	case p.Status == http.StatusUnprocessableEntity:
		p.summarise()
	case len(p.Errors) > 0: // a body that is no JSON: there is no place in it to point to
		p.Detail, p.Errors = p.Errors[0].Detail, nil
	}
	return p
}

func tooSlow() *Problem { return newProblem(fault.RequestTimeout, "the body did not come in time") }

func brokenOff(cause error) *Problem {
	p := newProblem(fault.Malformed, "the body broke off")
	p.cause = cause
	return p
}

// huma's messages for a body that is not there, and for one whose reading failed, which would be a 500.
const (
	needsBody  = "request body is required"
	cannotRead = "cannot read request body"
)

func codeOf(status int) fault.Code {
	switch status {
	case http.StatusBadRequest:
		return fault.Malformed
	case http.StatusUnsupportedMediaType:
		return fault.UnsupportedMedia
	case http.StatusUnprocessableEntity:
		return fault.Invalid
	}
	return fault.Internal
}
