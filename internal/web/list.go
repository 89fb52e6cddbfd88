package web

import (
	"net/url"
	"time"

	"github.com/postrider/postrider/internal/duration"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

// How a browser's field has a time.
const (
	MinuteForm = "2006-01-02T15:04"
	SecondForm = "2006-01-02T15:04:05"
)

// PageSize is how many rows a page of a list has.
const PageSize = 50

// Cut takes a page from a list that was asked for one row more, and gives the id of the page's last row if there is more.
func Cut[T any](found []T, idOf func(T) id.ID) ([]T, id.ID) {
	if len(found) <= PageSize {
		return found, id.ID{}
	}
	return found[:PageSize], idOf(found[PageSize-1])
}

// Range reads the times from and to which a list goes: `span` back from now, or `since` and `until`.
func (f Form) Range(faults *fault.Fields, now time.Time) (since, until time.Time) {
	if span := f.Get("span"); span != "" {
		d, err := duration.Parse(span)
		if err != nil || d <= 0 {
			faults.Addf("/span", "is no span like 1h or 7d")
			return since, until
		}
		return now.Add(-d), time.Time{}
	}
	return f.Time(faults, "since"), f.Time(faults, "until")
}

// Time reads a time in UTC as a browser's field has it, or as the API does.
func (f Form) Time(faults *fault.Fields, name string) time.Time {
	text := f.Get(name)
	if text == "" {
		return time.Time{}
	}
	for _, layout := range []string{MinuteForm, SecondForm, time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC()
		}
	}
	faults.Addf("/"+name, "is no time like 2026-11-30T09:00")
	return time.Time{}
}

// Pager is where a list goes on, and back to its beginning.
type Pager struct{ First, Next string }

// PagerOf says where the list at an address goes on; the zero id is its end.
func PagerOf(u *url.URL, kind id.Kind, next id.ID) Pager {
	var pg Pager
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
