package portal

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/duration"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// settings are what an organizer chooses of an endpoint. The rest of it is left alone.
type settings struct {
	url, description, filter string
	types                    []string
	headers                  []signer.Header
	scheme                   signer.Scheme
	signatureHeader          string
	format                   subscriptions.Format
	rate                     *subscriptions.RateLimit
	timeout                  *time.Duration
}

// readSettings reads the form. What a value may be, the store knows.
func readSettings(form web.Form) (settings, error) {
	var faults fault.Fields
	s := settings{
		url: form.Get("url"), description: form.Get("description"), filter: form.Get("filter"), types: typesOf(form),
		scheme: signer.Scheme(form.Get("signature")), signatureHeader: form.Get("signature_header"),
		format: subscriptions.Format(form.Get("format")),
	}
	if s.scheme != signer.Stripe {
		s.signatureHeader = "" // the field is there for one scheme alone
	}
	for i, line := range form.Lines("headers") {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			faults.Addf("/headers", "line %d has no colon; want Name: value", i+1)
			continue
		}
		s.headers = append(s.headers, signer.Header{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	if text := form.Get("rate_limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			faults.Addf("/rate_limit", "is no whole number")
		}
		per, err := duration.Parse(form.Get("rate_per"))
		faults.Add("/rate_limit", err)
		s.rate = &subscriptions.RateLimit{Limit: n, Per: per}
	}
	if text := form.Get("timeout"); text != "" {
		d, err := duration.Parse(text)
		faults.Add("/timeout", err)
		s.timeout = &d
	}
	return s, faults.Err()
}

// typesOf gives the types that were chosen from the catalogue and the patterns that were written beside them.
func typesOf(form web.Form) []string {
	types := slices.Clone(form.Values["type"])
	return append(types, strings.FieldsFunc(form.Get("event_types"), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })...)
}

func (s settings) endpoint() subscriptions.NewEndpoint {
	return subscriptions.NewEndpoint{
		URL: s.url, Description: s.description, EventTypes: s.types, Filter: s.filter, Headers: s.headers, Scheme: s.scheme,
		SignatureHeader: s.signatureHeader, Format: s.format, RateLimit: s.rate, Timeout: s.timeout,
	}
}

func (s settings) patch() subscriptions.EndpointPatch {
	return subscriptions.EndpointPatch{
		URL: put(s.url), Description: put(s.description), EventTypes: put(s.types), Filter: put(s.filter), Headers: put(s.headers),
		Scheme: put(s.scheme), SignatureHeader: put(s.signatureHeader),
		Format:    subscriptions.Optional[subscriptions.Format]{Given: s.format != "", Value: &s.format}, // of a form without it, it stays
		RateLimit: subscriptions.Optional[subscriptions.RateLimit]{Given: true, Value: s.rate},
		Timeout:   subscriptions.Optional[time.Duration]{Given: true, Value: s.timeout},
	}
}

func put[T any](value T) subscriptions.Optional[T] {
	return subscriptions.Optional[T]{Given: true, Value: &value}
}

// formOf writes an endpoint into the form, as it is.
func formOf(e subscriptions.Endpoint, types []eventType) web.Form {
	form := web.NewForm("url", e.URL, "description", e.Description, "signature", string(e.Scheme), "signature_header", e.SignatureHeader,
		"format", string(e.Format),
		"rate_per", "1s", "version", e.ETag())
	var others, headers []string
	for _, name := range e.EventTypes {
		if slices.ContainsFunc(types, func(t eventType) bool { return t.Name == name }) {
			form.Values.Add("type", name)
		} else {
			others = append(others, name)
		}
	}
	for _, h := range e.Headers {
		headers = append(headers, h.Name+": "+h.Value)
	}
	form.Values.Set("event_types", strings.Join(others, "\n"))
	form.Values.Set("headers", strings.Join(headers, "\n"))
	if e.Filter != nil {
		form.Values.Set("filter", *e.Filter)
	}
	if e.RateLimit != nil {
		form.Values.Set("rate_limit", strconv.Itoa(e.RateLimit.Limit))
		form.Values.Set("rate_per", duration.Format(e.RateLimit.Per))
	}
	if e.Timeout != nil {
		form.Values.Set("timeout", duration.Format(*e.Timeout))
	}
	return form
}

// naming puts the name of a header or a pattern before what is wrong with it: the form has one field for all of them.
func naming(err error, types []string) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	named := *f
	named.Fields = slices.Clone(f.Fields)
	for i, field := range named.Fields {
		if name, ok := strings.CutPrefix(field.Pointer, "/headers/"); ok {
			named.Fields[i].Detail = strings.NewReplacer("~1", "/", "~0", "~").Replace(name) + ": " + field.Detail
		}
		if at, ok := strings.CutPrefix(field.Pointer, "/event_types/"); ok {
			if n, err := strconv.Atoi(at); err == nil && n < len(types) {
				named.Fields[i].Detail = web.Clip(64, types[n]) + ": " + field.Detail
			}
		}
	}
	return &named
}
