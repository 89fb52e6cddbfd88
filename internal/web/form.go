package web

import (
	"errors"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/postrider/postrider/internal/fault"
)

// Form is what was written into a form, with what is wrong with it, to be shown again.
type Form struct {
	Values url.Values
	Faults map[string]string // by field; "" for the whole
}

// NewForm makes a form with these values: name, value, name, value …
func NewForm(pairs ...string) Form {
	f := Form{Values: url.Values{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		f.Values.Add(pairs[i], pairs[i+1])
	}
	return f
}

// Get gives a field's value, without outer blanks.
func (f Form) Get(name string) string { return strings.TrimSpace(f.Values.Get(name)) }

// Raw gives a field's value as it was written, but for the line ends that forms put in (CR LF).
func (f Form) Raw(name string) string { return strings.ReplaceAll(f.Values.Get(name), "\r\n", "\n") }

// Lines gives a field's lines without the empty ones.
func (f Form) Lines(name string) []string {
	var out []string
	for line := range strings.Lines(f.Values.Get(name)) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// Words gives what stands between a field's commas, without the empty ones.
func (f Form) Words(name string) []string {
	var out []string
	for word := range strings.SplitSeq(f.Values.Get(name), ",") {
		if word = strings.TrimSpace(word); word != "" {
			out = append(out, word)
		}
	}
	return out
}

// Form reads what was posted.
func (v *Visit) Form() (Form, error) {
	if err := checkMedia(v.R); err != nil {
		return Form{}, err
	}
	err := v.R.ParseForm()
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return Form{}, fault.Wrap(fault.TooLarge, err, "the form is larger than %d MiB", formLimit>>20)
	case err != nil:
		return Form{}, fault.Wrap(fault.Malformed, err, "the form cannot be read")
	}
	if name := notText(v.R.PostForm); name != "" { //nolint:forbidigo // a field of this name, and no request
		return Form{}, fault.New(fault.Malformed, "the form has %s, which is no text", name)
	}
	return Form{Values: v.R.PostForm}, nil //nolint:forbidigo // a field of this name, and no request
}

// checkMedia refuses what is no form: it would be read as an empty one.
func checkMedia(r *http.Request) error {
	const urlencoded = "application/x-www-form-urlencoded"
	given := r.Header.Get("Content-Type")
	if given == "" && r.ContentLength == 0 {
		return nil // there is nothing to be read
	}
	if media, _, err := mime.ParseMediaType(given); err != nil || media != urlencoded {
		return fault.New(fault.UnsupportedMedia, "a form has to be sent as %s", urlencoded)
	}
	return nil
}

// notText names the first value that is no text, as no browser sends it and no column takes it: invalid UTF-8, or a NUL.
func notText(values url.Values) string {
	bad := func(s string) bool { return !utf8.ValidString(s) || strings.ContainsRune(s, 0) }
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if bad(name) || slices.ContainsFunc(values[name], bad) {
			return strconv.QuoteToASCII(Clip(64, name))
		}
	}
	return ""
}

// Mark puts what is wrong beside the fields that it is about, and reports whether it could: a fault that is no matter of
// the form is not for it. The place of a fault is a JSON pointer, whose first segment names the field.
func (f *Form) Mark(err error) bool {
	var flt *fault.Error
	if !errors.As(err, &flt) {
		return false
	}
	switch flt.Code { //nolint:exhaustive // the rest is no matter of what was written
	case fault.Invalid, fault.Conflict, fault.Blocked, fault.Malformed, fault.PreconditionFailed:
	default:
		return false
	}
	f.Faults = map[string]string{}
	for _, field := range flt.Fields {
		f.note(nameOf(field.Pointer), field.Detail)
		if name := nameOf(field.Pointer); name != "" && !f.Values.Has(name) { // the form may have no such field, or nothing was chosen there
			f.note("", name+" "+field.Detail)
		}
	}
	if len(flt.Fields) == 0 {
		f.Faults[""] = flt.Detail
	}
	return true
}

func (f *Form) note(name, detail string) {
	if before := f.Faults[name]; before != "" {
		detail = before + "; " + detail
	}
	f.Faults[name] = detail
}

// nameOf gives the field that a JSON pointer into a request's body, or the name of a query parameter, is about.
func nameOf(pointer string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(pointer, "/?"), "/")
	return name
}
