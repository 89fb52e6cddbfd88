package portal

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

const (
	// shownTypes is how many event types of the catalogue are offered: the newest. Others can be written by hand.
	shownTypes = 500
	// shownDetails is how many bytes of schemas and examples a page has beside their names: a catalogue may be large.
	shownDetails = 128 << 10
)

// eventType is an entry of the catalogue as pages show it.
type eventType struct {
	subscriptions.EventType
	SchemaText, ExampleText web.Body
	Elsewhere               bool // they are on a page of their own
	Chosen                  bool
}

// catalogue gives what is offered, in the order of names.
func (p *pages) catalogue(ctx context.Context) ([]eventType, error) {
	current := false
	found, err := p.d.Subscriptions.EventTypes(ctx, &current, shownTypes, id.ID{})
	if err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	slices.SortFunc(found, func(a, b subscriptions.EventType) int { return cmp.Compare(a.Name, b.Name) })
	out := make([]eventType, 0, len(found))
	size := 0
	for _, t := range found {
		if size += len(t.Schema) + len(t.Example); size > shownDetails {
			out = append(out, eventType{EventType: t, Elsewhere: true})
			continue
		}
		out = append(out, detailed(t))
	}
	return out, nil
}

func detailed(t subscriptions.EventType) eventType {
	return eventType{EventType: t, SchemaText: web.NewBody(t.Schema, false), ExampleText: web.NewBody(t.Example, false)}
}

// typeOptions offers the types of the catalogue in a select.
func typeOptions(types []eventType, none string) []web.Option {
	out := []web.Option{{Value: "", Label: none}}
	for _, t := range types {
		out = append(out, web.Option{Value: t.Name, Label: t.Name})
	}
	return out
}

// exampleOf gives the example of a type, "" where there is none.
func exampleOf(types []eventType, name string) string {
	for _, t := range types {
		if t.Name == name {
			return string(t.Example)
		}
	}
	return ""
}

type eventTypesPage struct{ Types []eventType }

func (p *pages) eventTypes(v *web.Visit) error {
	types, err := p.catalogue(v.Ctx())
	if err != nil {
		return err
	}
	return v.Show(web.Page{Name: "event-types", Title: "Event types", Section: "event-types", Data: eventTypesPage{types}})
}

func (p *pages) eventType(v *web.Visit) error {
	t, err := p.d.Subscriptions.EventType(v.Ctx(), v.R.PathValue("type"))
	if err != nil {
		return err
	}
	return v.Show(web.Page{Name: "event-type", Title: t.Name, Section: "event-types", Data: detailed(t)})
}
