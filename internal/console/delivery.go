package console

import (
	"context"
	"slices"
	"time"

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
	Delivery deliveryRow
	Endpoint subscriptions.Endpoint
	Remedy   string
	Attempts []timeline.Attempt
	More     bool // there are older attempts than these
	Steps    []timeline.Step
	Payload  web.Body
	Event    eventFacts
	Others   []deliveryRow // the event's other deliveries
	Curl     string        // "": it was not asked for
	CanRetry bool
	Fetched  bool // by the endpoint's owner: nothing is sent
}

// eventFacts is what the page says of the delivery's event; a zero Type: it is not kept any more.
type eventFacts struct {
	Type, ContentType string
	Size              int
}

func (p *pages) delivery(v *web.Visit) error {
	dlv, err := v.PathID("dlv", id.Delivery, "delivery")
	if err != nil {
		return err
	}
	data, err := p.readDelivery(v.Ctx(), dlv)
	if err != nil {
		return err
	}
	if v.R.URL.Query().Has("curl") {
		if err := support(v.Session); err != nil {
			return err
		}
		request, err := p.d.Deliveries.Request(v.Ctx(), dlv, p.d.UserAgent, time.Now())
		if err != nil {
			return v.Refused(Base+"/deliveries/"+id.Delivery.Format(dlv), err)
		}
		data.Curl = curl(request)
	}
	return v.Show(web.Page{Name: "delivery", Title: "Delivery " + id.Delivery.Format(dlv), Section: "deliveries", Data: data})
}

// readDelivery gathers all that the page shows.
func (p *pages) readDelivery(ctx context.Context, dlv id.ID) (deliveryPage, error) {
	d, err := p.d.Deliveries.Get(ctx, dlv)
	if err != nil {
		return deliveryPage{}, err
	}
	data := deliveryPage{}
	if data.Endpoint, err = p.d.Subscriptions.EndpointByID(ctx, d.Endpoint); err != nil {
		return data, err
	}
	data.Fetched = data.Endpoint.Kind == subscriptions.Pull
	data.Remedy = dispatcher.Remedy(d, data.Fetched)
	data.CanRetry = d.State != dispatcher.InFlight && data.Endpoint.DeletedAt == nil && data.Endpoint.Status != subscriptions.Dead
	attempts, err := p.d.Deliveries.Attempts(ctx, dlv, shownAttempts+1, id.ID{})
	if err != nil {
		return data, err
	}
	if data.More = len(attempts) > shownAttempts; data.More {
		attempts = attempts[:shownAttempts]
	}
	data.Attempts = timeline.Attempts(attempts, d.CreatedAt, data.More)
	if !data.Fetched { // else its owner sets the pace
		data.Steps = timeline.Schedule(d, data.Endpoint.RetrySchedule, p.d.Schedule)
	}
	if err := p.readPayload(ctx, d, &data); err != nil {
		return data, err
	}
	own, err := p.rows(ctx, []dispatcher.Delivery{d})
	if err != nil {
		return data, err
	}
	data.Delivery = own[0]
	data.Others, err = p.deliveriesOf(ctx, d.Event)
	data.Others = slices.DeleteFunc(data.Others, func(r deliveryRow) bool { return r.ID == dlv })
	return data, err
}

// mostDeliveries is how many deliveries of one event a page shows.
const mostDeliveries = 250

// deliveriesOf gives an event's deliveries.
func (p *pages) deliveriesOf(ctx context.Context, evt id.ID) ([]deliveryRow, error) {
	found, err := p.d.Deliveries.List(ctx, dispatcher.Filter{Event: &evt}, mostDeliveries, id.ID{})
	if err != nil {
		return nil, err
	}
	return p.rows(ctx, found)
}

// readPayload reads what the delivery carries. An event that is not kept any more is no fault.
func (p *pages) readPayload(ctx context.Context, d dispatcher.Delivery, data *deliveryPage) error {
	contentType, payload, err := p.d.Intake.Payload(ctx, d.Tenant, id.Event.Format(d.Event))
	if fault.Is(err, fault.NotFound) {
		data.Payload = web.Body{Empty: true, Note: "The event is not kept any more."}
		return nil
	}
	if err != nil {
		return err
	}
	data.Payload = web.NewBody(payload, false)
	data.Event = eventFacts{Type: d.EventType, ContentType: contentType, Size: len(payload)}
	return nil
}

func (p *pages) retryDelivery(v *web.Visit) error {
	return p.actOn(v, func(dlv id.ID) error {
		_, err := p.d.Deliveries.Retry(v.Ctx(), dlv)
		return err
	}, "It is due at once, and its schedule starts afresh.")
}

func (p *pages) cancelDelivery(v *web.Visit) error {
	return p.actOn(v, func(dlv id.ID) error {
		_, err := p.d.Deliveries.Cancel(v.Ctx(), dlv, dispatcher.ReasonCancelledByUser)
		return err
	}, "It is cancelled.")
}

// actOn does something to the delivery of the path, and shows it again.
func (p *pages) actOn(v *web.Visit, act func(id.ID) error, done string) error {
	dlv, err := v.PathID("dlv", id.Delivery, "delivery")
	if err != nil {
		return err
	}
	page := Base + "/deliveries/" + id.Delivery.Format(dlv)
	if err := act(dlv); err != nil {
		return v.Refused(page, err)
	}
	return v.Done(page, "%s", done)
}
