package portal

import (
	"net/url"
	"time"

	"github.com/postrider/postrider/internal/duration"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
)

// What pages read from their addresses. Faults name the field as a JSON pointer.

// readCursor reads where a list goes on; the zero id is its beginning.
func readCursor(u *url.URL, kind id.Kind) (id.ID, error) {
	text := u.Query().Get("cursor")
	if text == "" {
		return id.ID{}, nil
	}
	at, err := kind.Parse(text)
	if err != nil {
		return id.ID{}, fault.InvalidAt("/cursor", "is not where this list goes on")
	}
	return at, nil
}

// readSpan reads the times from and to which a list goes: `span` back from now, or `since` and `until`.
func readSpan(faults *fault.Fields, form web.Form, now time.Time) (since, until time.Time) {
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

// readTime reads a time in UTC as a browser's field has it, or as the API does.
func readTime(faults *fault.Fields, form web.Form, name string) time.Time {
	text := form.Get(name)
	if text == "" {
		return time.Time{}
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC()
		}
	}
	faults.Addf("/"+name, "is no time like 2026-11-30T09:00")
	return time.Time{}
}

// pager is where a list goes on, and back to its beginning.
type pager struct{ First, Next string }

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

// cut takes a page from a list that was asked for one row more, and gives the id of the page's last row if there is more.
func cut[T any](found []T, idOf func(T) id.ID) ([]T, id.ID) {
	if len(found) <= pageSize {
		return found, id.ID{}
	}
	return found[:pageSize], idOf(found[pageSize-1])
}
