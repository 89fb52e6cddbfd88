package console

import (
	"cmp"
	"net/url"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

type eventTypesPage struct {
	Rows  []subscriptions.EventType
	Views []view
	Pager web.Pager
}

// eventTypes lists the catalogue.
func (p *pages) eventTypes(v *web.Visit) error {
	form := web.Form{Values: v.R.URL.Query()}
	var faults fault.Fields
	before := readCursor(&faults, form, id.EventType)
	if err := faults.Err(); err != nil {
		return err
	}
	archived := form.Get("archived") == "true"
	found, err := p.d.Subscriptions.EventTypes(v.Ctx(), &archived, web.PageSize+1, before)
	if err != nil {
		return err
	}
	found, next := web.Cut(found, func(t subscriptions.EventType) id.ID { return t.ID })
	return v.Show(web.Page{Name: "event_types", Title: "Event types", Section: "event-types", Data: eventTypesPage{
		Rows: found, Pager: web.PagerOf(v.R.URL, id.EventType, next),
		Views: []view{{"In use", Base + "/event-types", !archived}, {"Archived", Base + "/event-types?archived=true", archived}},
	}})
}

type eventTypePage struct {
	Type    *subscriptions.EventType // nil: it is still to be made
	Schema  web.Body
	Example web.Body
	Form    web.Form
}

// eventType shows an entry of the catalogue, with the form that changes it for those who may.
func (p *pages) eventType(v *web.Visit) error {
	t, err := p.d.Subscriptions.EventType(v.Ctx(), v.R.PathValue("type"))
	if err != nil {
		return err
	}
	form := web.NewForm("name", t.Name, "description", t.Description, "schema", string(t.Schema), "example", string(t.Example),
		versionField, versionOf(t.UpdatedAt))
	if t.ArchivedAt != nil {
		form.Values.Set("archived", "true")
	}
	return showEventType(v, &t, form, 0)
}

func (p *pages) newEventType(v *web.Visit) error { return showEventType(v, nil, web.NewForm(), 0) }

func showEventType(v *web.Visit, t *subscriptions.EventType, form web.Form, status int) error {
	data, title := eventTypePage{Type: t, Form: form}, "New event type"
	if t != nil {
		title, data.Schema, data.Example = "Event type "+t.Name, web.NewBody(t.Schema, false), web.NewBody(t.Example, false)
	}
	return v.Show(web.Page{Name: "event_type", Title: title, Section: "event-types", Status: status, Data: data})
}

// putEventType makes an entry what the form says.
func (p *pages) putEventType(v *web.Visit) error {
	form, err := v.Form()
	if err != nil {
		return err
	}
	var t subscriptions.EventType
	var made bool
	known, name, err := p.typeToPut(v, form)
	if err == nil {
		t, made, err = p.d.Subscriptions.PutEventType(v.Ctx(), name, subscriptions.EventTypeSettings{
			Description: form.Raw("description"), Schema: unlessBlank(form.Raw("schema")), Example: unlessBlank(form.Raw("example")),
			Archived: form.Get("archived") == "true",
		})
	}
	if form.Mark(err) {
		return showEventType(v, known, form, fault.HTTPStatus(fault.CodeOf(err)))
	}
	if err != nil {
		return err
	}
	if made {
		return v.Done(eventTypePath(t.Name), "The event type is in the catalogue.")
	}
	return v.Done(eventTypePath(t.Name), "The event type is changed.")
}

// typeToPut says which entry a form is about, nil for a new one. That of one that is there carries its name in the path; a new one
// does not take the place of another.
func (p *pages) typeToPut(v *web.Visit, form web.Form) (known *subscriptions.EventType, name string, err error) {
	in := v.R.PathValue("type")
	name = cmp.Or(in, form.Get("name"))
	there, err := p.d.Subscriptions.EventType(v.Ctx(), name)
	switch {
	case err == nil && in != "":
		return &there, name, wantVersion(form, there.UpdatedAt)
	case err == nil:
		return nil, name, fault.InvalidAt("/name", "is in the catalogue already: change it on its own page")
	case in == "" && fault.Is(err, fault.NotFound):
		return nil, name, nil
	}
	return nil, name, err
}

func (p *pages) deleteEventType(v *web.Visit) error {
	name := v.R.PathValue("type")
	if err := p.d.Subscriptions.DeleteEventType(v.Ctx(), name); err != nil {
		return v.Refused(Base+"/event-types", err)
	}
	return v.Done(Base+"/event-types", "%s is out of the catalogue. Events of this type are accepted as before.", name)
}

func eventTypePath(name string) string { return Base + "/event-types/" + url.PathEscape(name) }

// unlessBlank gives the bytes of a field, nil if nothing was written there.
func unlessBlank(text string) []byte {
	for _, r := range text {
		if r != ' ' && r != '\n' && r != '\t' {
			return []byte(text)
		}
	}
	return nil
}
