package web

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// funcs are what templates of both sites may call.
func funcs(o Options) template.FuncMap {
	return template.FuncMap{
		"asset":     Asset,
		"icon":      icon,
		"dict":      dict,
		"field":     newField,
		"ago":       func(t any) string { return ago(timeOf(t), o.Now()) },
		"utc":       func(t any) string { return utc(timeOf(t), o.Now()) },
		"iso":       func(t any) string { return timeOf(t).UTC().Format(isoForm) },
		"given":     func(t any) bool { return !timeOf(t).IsZero() },
		"span":      Span,
		"count":     Count,
		"bytes":     func(n int) string { return humanize.IBytes(uint64(max(n, 0))) },
		"percent":   Percent,
		"rate":      func(n float64) string { return humanize.CommafWithDigits(n, 1) },
		"plural":    Plural,
		"clip":      Clip,
		"join":      strings.Join,
		"query":     withQuery,
		"look":      lookOf,
		"json":      func(v any) (string, error) { b, err := json.Marshal(v); return string(b), err },
		"chartRows": chartRows,
	}
}

const isoForm = "2006-01-02T15:04:05.000Z"

// timeOf takes times and pointers to them; nil is the zero time.
func timeOf(t any) time.Time {
	switch t := t.(type) {
	case time.Time:
		return t
	case *time.Time:
		if t != nil {
			return *t
		}
	}
	return time.Time{}
}

// ago says how far a time is from now, in words: "3 min ago", "in 2 h".
func ago(t, now time.Time) string {
	d := now.Sub(t)
	form := "%s ago"
	if d < 0 {
		d, form = -d, "in %s"
	}
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf(form, strconv.Itoa(int(d.Seconds()))+" s")
	case d < time.Hour:
		return fmt.Sprintf(form, strconv.Itoa(int(d.Minutes()))+" min")
	case d < 48*time.Hour:
		return fmt.Sprintf(form, strconv.Itoa(int(d.Hours()))+" h")
	}
	return fmt.Sprintf(form, strconv.Itoa(int(d.Hours()/24))+" days")
}

// utc is the absolute time that stands beside the relative one; the year only where it is another one.
func utc(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	switch {
	case t.Year() != now.Year():
		return t.Format("2006-01-02 15:04:05 UTC")
	case t.YearDay() != now.YearDay():
		return t.Format("Jan 2 15:04:05 UTC")
	}
	return t.Format("15:04:05 UTC")
}

// Span writes a duration for people: "0.8 ms", "412 ms", "3.2 s", "5 min", "2 h", "3 days".
func Span(v any) string {
	var d time.Duration
	switch v := v.(type) {
	case time.Duration:
		d = v
	case *time.Duration:
		if v == nil {
			return "–"
		}
		d = *v
	}
	tenths := func(x float64, unit string) string {
		if x < 10 {
			return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0") + " " + unit
		}
		return strconv.FormatFloat(x, 'f', 0, 64) + " " + unit
	}
	whole := func(unit time.Duration) bool { return d >= unit && d%unit == 0 }
	switch {
	case d == 24*time.Hour:
		return "1 day"
	case d < time.Second:
		return tenths(float64(d)/float64(time.Millisecond), "ms")
	case d < 2*time.Minute && !whole(time.Minute):
		return tenths(d.Seconds(), "s")
	case d < 2*time.Hour && !whole(time.Hour):
		return tenths(d.Minutes(), "min")
	case d < 48*time.Hour && !whole(24*time.Hour):
		return tenths(d.Hours(), "h")
	}
	return tenths(d.Hours()/24, "days")
}

// Count writes a number with its thousands apart.
func Count(v any) string {
	switch v := v.(type) {
	case int:
		return humanize.Comma(int64(v))
	case int32:
		return humanize.Comma(int64(v))
	case int64:
		return humanize.Comma(v)
	}
	return fmt.Sprint(v)
}

// Percent writes a share of one: "99.98 %". Something is never shown as everything, nor as nothing.
func Percent(share float64) string {
	p := share * 100
	switch {
	case p > 99.99 && p < 100:
		p = 99.99
	case p > 0 && p < 0.01:
		p = 0.01
	}
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(p, 'f', 2, 64), "0"), ".") + " %"
}

// Plural writes a number with its noun, in the plural but for one.
func Plural(n any, noun string) string {
	number := Count(n)
	switch stem, isY := strings.CutSuffix(noun, "y"); {
	case number == "1":
	case isY:
		noun = stem + "ies"
	default:
		noun += "s"
	}
	return number + " " + noun
}

// Clip shortens a text to so many characters.
func Clip(limit int, text string) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit]) + "…"
}

// icon draws one of icons.svg. It says nothing by itself: a word stands beside it.
func icon(name string) template.HTML {
	return template.HTML(`<svg class="icon" aria-hidden="true" focusable="false"><use href="` + //nolint:gosec // names are ours
		Asset("icons.svg") + `#` + template.HTMLEscapeString(name) + `"/></svg>`)
}

// dict makes a map of name, value, name, value …, for templates that take several things.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict: %d values make no pairs", len(pairs))
	}
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is no name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// withQuery gives a path with one value of its query changed, "" to take it out; where one is in a list, that begins anew.
func withQuery(path, name, value string) (string, error) {
	u, err := url.Parse(path)
	if err != nil {
		return "", fmt.Errorf("query: %w", err)
	}
	q := u.Query()
	q.Del("cursor")
	if value == "" {
		q.Del(name)
	} else {
		q.Set(name, value)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// fieldView is one labelled field of a form, for the template "field".
type fieldView struct {
	Name, Label, Help, Kind, Value, Fault string
	Required                              bool
	Options                               []Option
}

// Option is one choice of a field.
type Option struct{ Value, Label string }

// newField makes one of name, value pairs: "label", "help", "kind" (text, url, textarea, select, password …), "options".
func newField(f Form, name, label string, more ...any) (fieldView, error) {
	v := fieldView{Name: name, Label: label, Kind: "text", Value: f.Values.Get(name), Fault: f.Faults[name]}
	settings, err := dict(more...)
	if err != nil {
		return v, err
	}
	for key, value := range settings {
		switch value := value.(type) {
		case bool:
			v.Required = key == "required" && value
		case []Option:
			v.Options = value
		case string:
			switch key {
			case "help":
				v.Help = value
			case "kind":
				v.Kind = value
			default:
				return v, fmt.Errorf("field %s: unknown setting %s", name, key)
			}
		}
	}
	return v, nil
}
