package console

import (
	"context"
	"net/url"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/duration"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
)

// What pages read from their addresses. Faults name the field as a JSON pointer, as the API's do.

// readID reads an id of one kind; nil where there is none, or no good one.
func readID(faults *fault.Fields, form web.Form, name string, kind id.Kind) *id.ID {
	text := form.Get(name)
	if text == "" {
		return nil
	}
	found, err := kind.Parse(text)
	if err != nil {
		faults.Addf("/"+name, "is no id of the form %s_…", kind)
		return nil
	}
	return &found
}

// readWord reads one of a set of words; "" is none.
func readWord[T any](faults *fault.Fields, at, word string, parse func(string) (T, error), into *[]T) {
	if word == "" {
		return
	}
	value, err := parse(word)
	if err != nil {
		faults.Addf(at, "there is no %q", word)
		return
	}
	*into = append(*into, value)
}

// readRange reads the times from and to which a list goes: `span` back from now, or `since` and `until`.
func readRange(faults *fault.Fields, form web.Form, now time.Time) (since, until time.Time) {
	if span := form.Get("span"); span != "" {
		d, err := duration.Parse(span)
		if err != nil || d <= 0 {
			faults.Addf("/span", "is no span like 1h or 7d")
			return since, until
		}
		return now.Add(-d), time.Time{}
	}
	return readTime(faults, form, "since"), readTime(faults, form, "until")
}

// minuteForm is how a browser's field has a time.
const minuteForm = "2006-01-02T15:04"

// fieldTime is how a browser's field writes a time.
const fieldTime = "2006-01-02T15:04:05"

// readTime reads a time in UTC as a browser's field has it, or as the API does.
func readTime(faults *fault.Fields, form web.Form, name string) time.Time {
	text := form.Get(name)
	if text == "" {
		return time.Time{}
	}
	for _, layout := range []string{minuteForm, "2006-01-02T15:04:05", time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC()
		}
	}
	faults.Addf("/"+name, "is no time like 2026-11-30T09:00")
	return time.Time{}
}

// readTenant reads the tenant that a list is narrowed to, by its id or uid; nil where there is none, or no good one.
func (p *pages) readTenant(ctx context.Context, faults *fault.Fields, form web.Form) (*id.ID, error) {
	ref := form.Get("tenant")
	if ref == "" {
		return nil, nil //nolint:nilnil // none was asked for
	}
	t, err := p.d.Subscriptions.Tenant(ctx, ref)
	if err != nil {
		return nil, unlessMissing(faults, "/tenant", err, "there is no such tenant")
	}
	return &t.ID, nil
}

// unlessMissing turns "not found" into a fault of the field that named the thing, and passes other errors on.
func unlessMissing(faults *fault.Fields, at string, err error, detail string) error {
	if fault.Is(err, fault.NotFound) {
		faults.Addf(at, "%s", detail)
		return nil
	}
	return err
}

// pagerOf says where the list at an address goes on; the zero id is its end.
func pagerOf(u *url.URL, kind id.Kind, next id.ID) pager {
	var pg pager
	q := u.Query()
	if q.Has("cursor") {
		q.Del("cursor")
		pg.First = (&url.URL{Path: u.Path, RawQuery: q.Encode()}).String()
	}
	if !next.IsZero() {
		q.Set("cursor", kind.Format(next))
		pg.Next = (&url.URL{Path: u.Path, RawQuery: q.Encode()}).String()
	}
	return pg
}

// gaveUpAt is how far back a search has looked if it stopped before it had as many as were asked for; else the zero time.
func gaveUpAt(found dispatcher.Page, limit int) time.Time {
	if len(found.Deliveries) >= limit {
		return time.Time{}
	}
	return found.SearchedTo
}
