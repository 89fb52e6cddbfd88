package portal

import (
	"context"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/timeline"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

// shownAttempts is how many attempts a page shows: a schedule has 50 delays at most, more come by hand.
const shownAttempts = 100

type deliveryPage struct {
	Delivery    deliveryRow
	Endpoint    subscriptions.Endpoint
	Advice      string
	Attempts    []timeline.Attempt
	More        bool // there are older attempts than these
	Steps       []timeline.Step
	Payload     web.Body
	ContentType string
	Size        int
	CanResend   bool
}

// deliveryOf gives the delivery of the path, which is one of the visitor's or not there.
func (p *pages) deliveryOf(v *web.Visit) (dispatcher.Delivery, error) {
	dlv, err := v.PathID("dlv", id.Delivery, "delivery")
	if err != nil {
		return dispatcher.Delivery{}, err
	}
	d, err := p.d.Deliveries.Get(v.Ctx(), dlv)
	if err == nil && d.Tenant != *v.Session.Principal.Tenant {
		err = fault.New(fault.NotFound, "no such delivery")
	}
	return d, err
}

func (p *pages) delivery(v *web.Visit) error {
	d, err := p.deliveryOf(v)
	if err != nil {
		return err
	}
	data, err := p.readDelivery(v.Ctx(), d)
	if err != nil {
		return err
	}
	data.CanResend = data.CanResend && v.May(web.Writer)
	return v.Show(web.Page{Name: "delivery", Title: "Delivery " + id.Delivery.Format(d.ID), Section: "deliveries", Data: data})
}

// readDelivery gathers all that the page shows.
func (p *pages) readDelivery(ctx context.Context, d dispatcher.Delivery) (deliveryPage, error) {
	data := deliveryPage{}
	var err error
	if data.Endpoint, err = p.d.Subscriptions.EndpointByID(ctx, d.Endpoint); err != nil {
		return data, err
	}
	fetched := data.Endpoint.Kind == subscriptions.Pull
	data.Advice = advice(d, fetched)
	data.Delivery = deliveryRow{d, data.Endpoint.URL}
	data.CanResend = d.State != dispatcher.InFlight && data.Endpoint.DeletedAt == nil && data.Endpoint.Status != subscriptions.Dead
	attempts, err := p.d.Deliveries.Attempts(ctx, d.ID, shownAttempts+1, id.ID{})
	if err != nil {
		return data, err
	}
	if data.More = len(attempts) > shownAttempts; data.More {
		attempts = attempts[:shownAttempts]
	}
	for i := range attempts {
		attempts[i] = attempts[i].Outsider(p.d.AddressClass)
	}
	data.Attempts = timeline.Attempts(attempts, d.CreatedAt, data.More)
	if !fetched { // else they set the pace themselves
		data.Steps = timeline.Schedule(d, data.Endpoint.RetrySchedule, p.d.Schedule)
	}
	contentType, payload, err := p.d.Intake.Payload(ctx, d.Tenant, id.Event.Format(d.Event))
	switch {
	case fault.Is(err, fault.NotFound):
		data.Payload = web.Body{Empty: true, Note: "The event is not kept any more."}
	case err != nil:
		return data, err
	default:
		data.Payload, data.ContentType, data.Size = web.NewBody(payload, false), contentType, len(payload)
	}
	return data, nil
}

// resend makes the delivery of the path due at once.
func (p *pages) resend(v *web.Visit) error {
	d, err := p.deliveryOf(v)
	if err != nil {
		return err
	}
	page := Base + "/deliveries/" + id.Delivery.Format(d.ID)
	if _, err = p.d.Deliveries.Retry(v.Ctx(), d.ID); err != nil {
		return v.Refused(page, err)
	}
	return v.Done(page, "It is sent again at once, and its schedule starts afresh.")
}
