package portal

import (
	"net/url"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
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
