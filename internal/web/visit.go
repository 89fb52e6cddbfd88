package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

// Visit is one request and its answer.
type Visit struct {
	W       http.ResponseWriter
	R       *http.Request
	Session auth.Session // zero where nobody is signed in
	Now     time.Time    // one reading of the clock for the whole page

	ctx      context.Context
	site     *Site
	signedIn bool
}

// Ctx is the request's context. What is done within it is noted in the audit log as the visitor's doing.
func (v *Visit) Ctx() context.Context { return v.ctx }

// May reports whether the access lets the visitor in: for buttons that would lead to a refusal.
func (v *Visit) May(a Access) bool { return v.signedIn && a(v.Session) == nil }

// PathID reads the id of a thing that the path names. What cannot be one is a thing that is not there.
func (v *Visit) PathID(name string, kind id.Kind, thing string) (id.ID, error) {
	found, err := kind.Parse(v.R.PathValue(name))
	if err != nil {
		return id.ID{}, fault.New(fault.NotFound, "no such %s", thing)
	}
	return found, nil
}

// Page is what a page says of itself, beside its data.
type Page struct {
	Name    string // of its template, without .html
	Title   string
	Section string // the entry of the navigation that it belongs to
	Status  int    // 0: 200
	Charts  bool   // it draws some
	Data    any
}

// frame is what the layout sees.
type frame struct {
	Page
	Base     string
	Path     string // with the query, as the browser asked for it
	Session  auth.Session
	SignedIn bool
	Notice   *Notice
	Site     any
	Now      time.Time
}

// Show answers with a page. It is put together before a byte of it goes out, so that a fault in between is a whole page too.
func (v *Visit) Show(p Page) error {
	f := frame{
		Page: p, Base: v.site.o.Base, Path: v.R.URL.RequestURI(), Session: v.Session, SignedIn: v.signedIn, Now: v.Now,
		Notice: v.takeNotice(),
	}
	if v.site.o.Frame != nil {
		f.Site = v.site.o.Frame(v)
	}
	t, ok := v.site.pages[p.Name]
	if !ok {
		return fmt.Errorf("show a page: there is no template %q", p.Name)
	}
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, "layout", f); err != nil {
		return fmt.Errorf("show the page %s: %w", p.Name, err)
	}
	v.W.Header().Set("Content-Type", "text/html; charset=utf-8")
	if p.Status != 0 {
		v.W.WriteHeader(p.Status)
	}
	_, _ = out.WriteTo(v.W) // whoever asked has gone
	return nil
}

// Go sends the browser to a path of ours, by GET.
func (v *Visit) Go(path string) error {
	http.Redirect(v.W, v.R, path, http.StatusSeeOther)
	return nil
}

// Done sends the browser on to a page that says what was done.
func (v *Visit) Done(path, format string, args ...any) error {
	v.leaveNotice(Notice{Text: fmt.Sprintf(format, args...)})
	return v.Go(path)
}

// Refused sends the browser back to a page that says why nothing was done. It is for a caller's own faults; others are
// passed on.
func (v *Visit) Refused(path string, err error) error {
	var f *fault.Error
	if !errors.As(err, &f) || fault.HTTPStatus(f.Code) >= http.StatusInternalServerError {
		return err
	}
	v.leaveNotice(Notice{Bad: true, Text: Explain(f)})
	return v.Go(path)
}

// Explain says a fault in one sentence, its places included.
func Explain(f *fault.Error) string {
	if len(f.Fields) == 0 {
		return f.Detail
	}
	var b bytes.Buffer
	for i, field := range f.Fields {
		if i > 0 {
			b.WriteString("; ")
		}
		if name := nameOf(field.Pointer); name != "" {
			b.WriteString(name + " ")
		}
		b.WriteString(field.Detail)
	}
	return b.String()
}

// faultPage is what the page for faults shows.
type faultPage struct {
	Status  int
	Title   string
	Detail  string
	Request string // the answer's X-Request-Id, by which the log has it
}

// showFault answers with the page for faults. What is our own doing is only in the log.
func (v *Visit) showFault(err error) {
	var f *fault.Error
	if !errors.As(err, &f) || f.Code == fault.Internal {
		if !errors.Is(v.R.Context().Err(), context.Canceled) {
			v.site.o.Logger.Error().Err(err).Str("request_id", v.W.Header().Get("X-Request-Id")).Msg("page.failed")
		}
		f = fault.New(fault.Internal, "Something went wrong on our side. The log has it under this number.")
	}
	status := fault.HTTPStatus(f.Code)
	p := Page{Name: "fault", Title: http.StatusText(status), Status: status, Data: faultPage{
		Status: status, Title: http.StatusText(status), Detail: Explain(f), Request: v.W.Header().Get("X-Request-Id"),
	}}
	if err := v.Show(p); err != nil {
		v.site.o.Logger.Error().Err(err).Msg("page.failed")
		http.Error(v.W, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
	}
}

// Reason says what is wrong, for people: the fault's own words, or that it is not theirs to know.
func Reason(err error) string {
	var f *fault.Error
	if errors.As(err, &f) && f.Code != fault.Internal {
		return Explain(f)
	}
	return "something went wrong on our side"
}
