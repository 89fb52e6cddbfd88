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
