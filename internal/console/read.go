package console

import (
	"context"
	"time"

	"github.com/postrider/postrider/dispatcher"
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

// readCursor reads where a list goes on; the zero id is its beginning.
func readCursor(faults *fault.Fields, form web.Form, kind id.Kind) id.ID {
	if at := readID(faults, form, "cursor", kind); at != nil {
		return *at
	}
	return id.ID{}
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

// gaveUpAt is how far back a search has looked if it stopped before it had as many as were asked for; else the zero time.
func gaveUpAt(found dispatcher.Page, limit int) time.Time {
	if len(found.Deliveries) >= limit {
		return time.Time{}
	}
	return found.SearchedTo
}
