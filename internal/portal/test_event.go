package portal

import (
	"cmp"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/web"
)

// What a test sends if nothing else is asked for, as at the API.
const (
	testType    = "postrider.test"
	testPayload = `{"message":"This is a test event from Postrider."}`
)

type testPage struct {
	Head  endpointHead
	Form  web.Form
	Types []eventType
	From  []web.Option // types whose example the form may begin with
}

func (p *pages) testEvent(v *web.Visit) error {
	_, e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	name := cmp.Or(v.R.URL.Query().Get("type"), testType)
	types, err := p.catalogue(v.Ctx())
	if err != nil {
		return err
	}
	return p.showTest(v, headOf(v, e, "test"), web.NewForm("type", name, "payload", cmp.Or(exampleOf(types, name), testPayload)), 0)
}

func (p *pages) showTest(v *web.Visit, head endpointHead, form web.Form, status int) error {
	types, err := p.catalogue(v.Ctx())
	if err != nil {
		return err
	}
	return v.Show(web.Page{Name: "endpoint-test", Title: "Send a test", Section: "endpoints", Status: status, Data: testPage{
		Head: head, Form: form, Types: types, From: typeOptions(types, testType),
	}})
}

// sendTest sends one event to this endpoint alone, whatever it subscribes to, and shows what becomes of it.
func (p *pages) sendTest(v *web.Visit) error {
	t, e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	form, err := v.Form()
	if err != nil {
		return err
	}
	receipt, err := p.d.Intake.AcceptTest(v.Ctx(), e.ID, t.ID, intake.Event{
		Type: form.Get("type"), Payload: []byte(form.Raw("payload")), ContentType: "application/json",
	})
	if err != nil {
		if !form.Mark(err) {
			return err
		}
		return p.showTest(v, headOf(v, e, "test"), form, fault.HTTPStatus(fault.CodeOf(err)))
	}
	made, err := p.d.Deliveries.List(v.Ctx(), dispatcher.Filter{Tenant: &t.ID, Event: &receipt.ID}, 1, id.ID{})
	if err != nil {
		return err
	}
	if len(made) == 0 {
		return v.Done(Base+"/deliveries?endpoint="+id.Endpoint.Format(e.ID), "The test event is on its way.")
	}
	return v.Done(Base+"/deliveries/"+id.Delivery.Format(made[0].ID), "The test event is on its way.")
}
