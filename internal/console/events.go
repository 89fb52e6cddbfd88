package console

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

type eventsPage struct {
	Form   web.Form
	States []web.Option
	Spans  []web.Option
	Tenant *subscriptions.Tenant // whose events they are; nil: nobody was named
	Rows   []intake.Stored
	Pager  web.Pager
	// Searched is how far back the search has looked, where it gave up before its end.
	Searched time.Time
}

// events lists a tenant's events, the newest first.
func (p *pages) events(v *web.Visit) error {
	form := web.Form{Values: v.R.URL.Query()}
	data := eventsPage{Form: form, Spans: filterChoices().Spans, States: []web.Option{{Value: "", Label: "any"}}}
	for _, s := range intake.Statuses() {
		data.States = append(data.States, web.Option{Value: s, Label: s})
	}
	show := func(status int) error {
		return v.Show(web.Page{Name: "events", Title: "Events", Section: "events", Status: status, Data: data})
	}
	f, before, err := p.readEventFilter(v, &data)
	var found intake.Page
	if err == nil && data.Tenant != nil {
		found, err = p.d.Intake.Search(v.Ctx(), data.Tenant.ID, f, web.PageSize, before)
	}
	if data.Form.Mark(err) {
		return show(fault.HTTPStatus(fault.CodeOf(err)))
	}
	if err != nil {
		return err
	}
	data.Rows, data.Pager = found.Events, web.PagerOf(v.R.URL, id.Event, found.Next)
	if len(found.Events) < web.PageSize {
		data.Searched = found.SearchedTo
	}
	return show(0)
}

func (p *pages) readEventFilter(v *web.Visit, data *eventsPage) (f intake.Filter, before id.ID, err error) {
	var faults fault.Fields
	form := data.Form
	if ref := form.Get("tenant"); ref != "" {
		t, err := p.d.Subscriptions.Tenant(v.Ctx(), ref)
		if err = unlessMissing(&faults, "/tenant", err, "there is no such tenant"); err != nil {
			return f, before, err
		}
		if len(faults) == 0 {
			data.Tenant = &t
		}
	}
	f.Type, f.Status = form.Get("type"), form.Get("status")
	f.Since, f.Until = form.Range(&faults, v.Now)
	before = readCursor(&faults, form, id.Event)
	return f, before, faults.Err()
}

type eventPage struct {
	Event      intake.Stored
	TenantName string
	Payload    web.Body
	Deliveries []deliveryRow
	Skipped    []skippedRow
	CanCancel  bool
}

// skippedRow is an endpoint that did not get the event, and why.
type skippedRow struct {
	Endpoint    id.ID
	URL         string
	Reason, Why string
}

// skipWords say why an endpoint did not get an event.
var skipWords = map[subscriptions.SkipReason]string{
	subscriptions.SkipEventType:   "It does not subscribe to this event type.",
	subscriptions.SkipFilter:      "Its filter does not let this event pass.",
	subscriptions.SkipFilterError: "Its filter failed on this event, which counts as no match.",
	subscriptions.SkipDead:        "It was dead: its receiver had said 410 Gone.",
	intake.SkipSchema:             "The event breaks the schema of its type, and came in within its producer's transaction.",
	intake.SkipNotNamed:           "The producer named other endpoints (endpoint_ids).",
}

func (p *pages) event(v *web.Visit) error {
	evt, err := v.PathID("evt", id.Event, "event")
	if err != nil {
		return err
	}
	data, err := p.readEvent(v.Ctx(), evt)
	if err != nil {
		return err
	}
	data.CanCancel = data.CanCancel && v.May(producers)
	return v.Show(web.Page{Name: "event", Title: "Event " + id.Event.Format(evt), Section: "events", Data: data})
}

func (p *pages) readEvent(ctx context.Context, evt id.ID) (data eventPage, err error) {
	owner, err := p.d.Intake.Owner(ctx, evt)
	if err != nil {
		return data, err
	}
	if data.Event, err = p.d.Intake.Event(ctx, owner, id.Event.Format(evt)); err != nil {
		return data, err
	}
	_, payload, err := p.d.Intake.Payload(ctx, owner, id.Event.Format(evt))
	if err != nil {
		return data, err
	}
	data.Payload = web.NewBody(payload, false)
	names, err := p.d.Subscriptions.TenantNames(ctx, []id.ID{owner})
	if err != nil {
		return data, err
	}
	data.TenantName = names[owner]
	if data.Deliveries, err = p.deliveriesOf(ctx, evt); err != nil {
		return data, err
	}
	for _, d := range data.Deliveries {
		data.CanCancel = data.CanCancel || !d.State.Finished()
	}
	return data, p.readSkipped(ctx, &data)
}

func (p *pages) readSkipped(ctx context.Context, data *eventPage) error {
	var ids []id.ID
	for _, s := range data.Event.Skipped {
		ids = append(ids, s.Endpoint)
	}
	urls, err := p.d.Subscriptions.EndpointURLs(ctx, ids)
	if err != nil {
		return err
	}
	for _, s := range data.Event.Skipped {
		why := skipWords[s.Reason]
		if s.Detail != "" {
			why += " " + s.Detail
		}
		data.Skipped = append(data.Skipped, skippedRow{Endpoint: s.Endpoint, URL: urls[s.Endpoint], Reason: string(s.Reason), Why: why})
	}
	return nil
}

// cancelEvent cancels what of an event is not finished, as far as it is not in flight.
func (p *pages) cancelEvent(v *web.Visit) error {
	evt, err := v.PathID("evt", id.Event, "event")
	if err != nil {
		return err
	}
	if _, err := p.d.Intake.Owner(v.Ctx(), evt); err != nil {
		return err
	}
	page := Base + "/events/" + id.Event.Format(evt)
	if err := p.d.Intake.FanOut(v.Ctx(), evt); err != nil {
		return v.Refused(page, err)
	}
	cancelled, inFlight, err := p.d.Deliveries.CancelEvent(v.Ctx(), evt)
	switch {
	case err != nil:
		return v.Refused(page, err)
	case inFlight > 0:
		return v.Done(page, "%s cancelled; %d in flight end with the attempt that is on its way.", web.Plural(cancelled, "delivery"), inFlight)
	}
	return v.Done(page, "%s cancelled.", web.Plural(cancelled, "delivery"))
}

// payload gives an event's payload as a file, whatever it is: a browser saves it and does not show it.
func (p *pages) payload(v *web.Visit) error {
	evt, err := v.PathID("evt", id.Event, "event")
	if err != nil {
		return err
	}
	owner, err := p.d.Intake.Owner(v.Ctx(), evt)
	if err != nil {
		return err
	}
	_, payload, err := p.d.Intake.Payload(v.Ctx(), owner, id.Event.Format(evt))
	if err != nil {
		return err
	}
	h := v.W.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+id.Event.Format(evt)+`"`)
	_, _ = v.W.Write(payload) // whoever asked has gone
	return nil
}
