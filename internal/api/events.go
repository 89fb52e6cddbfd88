package api

import (
	"context"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
)

// EventView is an event in a list. Its payload has a call of its own.
type EventView struct {
	ID          string   `json:"id" example:"evt_07xk9v0e8g0003f"`
	TenantID    string   `json:"tenant_id" example:"ten_07xk9v0e8g0003f"`
	UID         *string  `json:"uid"`
	Type        string   `json:"type" example:"order.paid"`
	Status      string   `json:"status" enum:"scheduled,queued,running,succeeded,failed,cancelled"`
	ContentType string   `json:"content_type" example:"application/json"`
	Size        int      `json:"size" doc:"Of the payload, in bytes."`
	GroupKey    *string  `json:"group_key"`
	DeliverAt   *stamp   `json:"deliver_at" nullable:"true"`
	FanOut      int      `json:"fan_out" doc:"How many deliveries were made of it."`
	Metadata    metadata `json:"metadata"`
	CreatedAt   stamp    `json:"created_at"`
}

// wholeEventView is one event, with what became of it.
type wholeEventView struct {
	EventView
	Deliveries []deliveryView `json:"deliveries" nullable:"false" doc:"At most 250; GET /v1/deliveries?event= pages through all."`
	Skipped    []skippedView  `json:"skipped" nullable:"false" doc:"The endpoints that did not get it, and why."`
}

type skippedView struct {
	EndpointID string `json:"endpoint_id" example:"ep_07xk9v0e8g0003f"`
	Reason     string `json:"reason" example:"event_type" doc:"event_type, endpoint_dead, endpoint_ids, filter, filter_error or schema."`
	Detail     string `json:"detail,omitempty" doc:"Of filter_error: what its filter stumbled over. Of schema: where the event breaks it."`
}

func viewEvent(e intake.Stored) EventView {
	return EventView{
		ID: id.Event.Format(e.ID), TenantID: id.Tenant.Format(e.Tenant), UID: e.UID, Type: e.Type, Status: e.Status,
		ContentType: e.ContentType, Size: e.Size, GroupKey: e.GroupKey, DeliverAt: stampOf(e.DeliverAt), FanOut: e.FanOut,
		Metadata: shown(e.Metadata), CreatedAt: stamp(e.ID.Time()),
	}
}

type listEventsIn struct {
	TenantIn
	PageIn
	Type   string `query:"type" maxLength:"200"`
	Since  string `query:"since" format:"date-time" doc:"Accepted then or later."`
	Until  string `query:"until" format:"date-time" doc:"Accepted before."`
	Status string `query:"status" enum:"scheduled,queued,running,succeeded,failed,cancelled"`
}

func (s *server) listEvents(ctx context.Context, in *listEventsIn) (*pageOut[EventView], error) {
	var faults fault.Fields
	filter := intake.Filter{
		Type: in.Type, Status: in.Status,
		Since: parseTime(&faults, "?since", in.Since), Until: parseTime(&faults, "?until", in.Until),
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return searchPage(id.Event, in.PageIn, s.d.EmptyAfter, func(limit int, before id.ID) ([]intake.Stored, id.ID, error) {
		p, err := s.d.Intake.Search(ctx, tenantOf(ctx).ID, filter, limit, before)
		return p.Events, p.Next, err
	}, viewEvent)
}

// EventIn is the path of one event.
type EventIn struct {
	TenantIn
	Event string `path:"evt" doc:"The event's id or uid." example:"evt_07xk9v0e8g0003f"`
}

type eventOut struct{ Body wholeEventView }

func (s *server) wholeEvent(ctx context.Context, e intake.Stored) (*eventOut, error) {
	const most = 250
	deliveries, err := s.d.Deliveries.List(ctx, dispatcher.Filter{Tenant: &e.Tenant, Event: &e.ID}, most, id.ID{})
	if err != nil {
		return nil, err
	}
	view := wholeEventView{
		EventView:  viewEvent(e),
		Deliveries: make([]deliveryView, len(deliveries)),
		Skipped:    make([]skippedView, len(e.Skipped)),
	}
	for i, d := range deliveries {
		view.Deliveries[i] = viewDelivery(d)
	}
	for i, skip := range e.Skipped {
		view.Skipped[i] = skippedView{EndpointID: id.Endpoint.Format(skip.Endpoint), Reason: string(skip.Reason), Detail: skip.Detail}
	}
	return &eventOut{Body: view}, nil
}

type payloadOut struct {
	ContentType string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition"`
	Body        []byte
}

// readPayload gives the producer's bytes under the producer's content type. Whatever that is, a browser that is led here
// saves it and does not show it: it may be a page with a script.
func (s *server) readPayload(ctx context.Context, in *EventIn) (*payloadOut, error) {
	contentType, payload, err := s.d.Intake.Payload(ctx, tenantOf(ctx).ID, in.Event)
	if err != nil {
		return nil, err
	}
	return &payloadOut{ContentType: contentType, Disposition: "attachment", Body: payload}, nil
}

// cancelEvent cancels what of an event is not finished or in flight. Of an event that was cancelled already it changes
// nothing.
func (s *server) cancelEvent(ctx context.Context, in *EventIn) (*eventOut, error) {
	tenant := tenantOf(ctx).ID
	e, err := s.d.Intake.Event(ctx, tenant, in.Event)
	if err != nil {
		return nil, err
	}
	if err := s.d.Intake.FanOut(ctx, e.ID); err != nil {
		return nil, err
	}
	cancelled, inFlight, err := s.d.Deliveries.CancelEvent(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	if e, err = s.d.Intake.Event(ctx, tenant, id.Event.Format(e.ID)); err != nil {
		return nil, err
	}
	switch {
	case cancelled > 0 || e.Status == "cancelled":
		return s.wholeEvent(ctx, e)
	case inFlight > 0:
		return nil, fault.New(fault.Conflict, "the event is in flight: wait for its attempts to end")
	}
	return nil, fault.New(fault.Conflict, "nothing of the event is left to cancel: it is %s", e.Status)
}
