package portal

import (
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

// latest is how many deliveries an endpoint's page shows.
const latest = 10

// endpointHead is what the pages of one endpoint have in common.
type endpointHead struct {
	endpointRow
	Path     string
	Tab      string
	MayWrite bool
	Off      string // why it gets nothing, where that is not its owner's doing
}

type endpointPage struct {
	Head     endpointHead
	Latest   []deliveryRow
	Timeout  *time.Duration
	MayWrite bool
}

func headOf(v *web.Visit, e subscriptions.Endpoint, tab string) endpointHead {
	h := endpointHead{
		endpointRow: endpointRow{Endpoint: e, Health: healthOf(e)}, Path: Base + "/endpoints/" + id.Endpoint.Format(e.ID), Tab: tab, MayWrite: v.May(web.Writer),
	}
	if e.StatusReason != nil && *e.StatusReason != subscriptions.ReasonByUser {
		h.Off = *e.StatusReason
	}
	return h
}

// endpointOf gives the endpoint of the path, which is one of the visitor's or not there.
func (p *pages) endpointOf(v *web.Visit) (subscriptions.Tenant, subscriptions.Endpoint, error) {
	t, err := p.tenant(v)
	if err != nil {
		return subscriptions.Tenant{}, subscriptions.Endpoint{}, err
	}
	ep, err := v.PathID("ep", id.Endpoint, "endpoint")
	if err != nil {
		return t, subscriptions.Endpoint{}, err
	}
	e, err := p.d.Subscriptions.Endpoint(v.Ctx(), t, id.Endpoint.Format(ep))
	return t, e, err
}

func (p *pages) endpoint(v *web.Visit) error {
	t, e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	found, err := p.d.Deliveries.List(v.Ctx(), dispatcher.Filter{Tenant: &t.ID, Endpoint: &e.ID}, latest, id.ID{})
	if err != nil {
		return err
	}
	data := endpointPage{Head: headOf(v, e, "overview"), Timeout: e.Timeout, MayWrite: v.May(web.Writer)}
	rows, err := p.endpointRows(v, []subscriptions.Endpoint{e})
	if err != nil {
		return err
	}
	data.Head.endpointRow = rows[0]
	for _, d := range found {
		data.Latest = append(data.Latest, deliveryRow{Delivery: d, URL: e.URL})
	}
	return v.Show(web.Page{Name: "endpoint", Title: "Endpoint " + dispatcher.Place(e.URL), Section: "endpoints", Data: data})
}

// setStatus pauses the endpoint of the path, or enables it.
func (p *pages) setStatus(v *web.Visit) error {
	t, e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	form, err := v.Form()
	if err != nil {
		return err
	}
	head := headOf(v, e, "")
	status := subscriptions.Status(form.Get("status"))
	e, err = p.d.Subscriptions.UpdateEndpoint(v.Ctx(), t, id.Endpoint.Format(e.ID), "", subscriptions.EndpointPatch{Status: &status})
	if err != nil {
		return v.Refused(head.Path, err)
	}
	if e.Status == subscriptions.Enabled {
		p.d.Wake(e.ID.Shard) // what was held is due
		return v.Done(head.Path, "It is enabled, and gets what was held for it.")
	}
	return v.Done(head.Path, "It is paused. What comes for it from now on is held until it is enabled again.")
}

// deleteEndpoint leaves what it does not come to to the dispatcher's sweep.
func (p *pages) deleteEndpoint(v *web.Visit) error {
	t, e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	if _, err = p.d.Subscriptions.DeleteEndpoint(v.Ctx(), t, id.Endpoint.Format(e.ID)); err != nil {
		return err
	}
	if _, err := p.d.Deliveries.CancelUnfinished(v.Ctx(), e.ID, dispatcher.ReasonEndpointDeleted); err != nil {
		return err
	}
	return v.Done(Base+"/", "The endpoint is deleted.")
}
