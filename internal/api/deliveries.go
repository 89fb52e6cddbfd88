package api

import (
	"context"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

// deliveryView is a delivery in an answer.
type deliveryView struct {
	ID            string  `json:"id" example:"dlv_07xk9v0e8g0003f"`
	TenantID      string  `json:"tenant_id" example:"ten_07xk9v0e8g0003f"`
	EventID       string  `json:"event_id" example:"evt_07xk9v0e8g0003f"`
	EventType     *string `json:"event_type" doc:"null if the event is not kept any more."`
	EndpointID    string  `json:"endpoint_id" example:"ep_07xk9v0e8g0003f"`
	State         string  `json:"state" enum:"scheduled,pending,in_flight,held,succeeded,failed,cancelled"`
	Reason        *string `json:"reason" doc:"Why it is failed, cancelled or held."`
	Attempts      int     `json:"attempts"`
	NextAttemptAt *stamp  `json:"next_attempt_at" nullable:"true" doc:"null if none is to come by itself."`
	LastOutcome   *string `json:"last_outcome" doc:"null if it was never tried."`
	LastStatus    *int    `json:"last_status"`
	CreatedAt     stamp   `json:"created_at"`
	FinishedAt    *stamp  `json:"finished_at" nullable:"true"`
}

func viewDelivery(d dispatcher.Delivery) deliveryView {
	v := deliveryView{
		ID: id.Delivery.Format(d.ID), TenantID: id.Tenant.Format(d.Tenant), EventID: id.Event.Format(d.Event),
		EventType: unlessEmpty(d.EventType), EndpointID: id.Endpoint.Format(d.Endpoint), State: d.State.String(),
		Reason: unlessEmpty(string(d.Reason)), Attempts: d.Attempts, NextAttemptAt: stampOf(d.NextAttemptAt),
		LastStatus: d.LastStatus, CreatedAt: stamp(d.CreatedAt), FinishedAt: stampOf(d.FinishedAt),
	}
	if d.LastOutcome != nil {
		outcome := d.LastOutcome.String()
		v.LastOutcome = &outcome
	}
	return v
}

func unlessEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

type deliveryOut struct{ Body deliveryView }

// DeliveryFilter is what deliveries are looked for by.
type DeliveryFilter struct {
	State     []string `query:"state" enum:"scheduled,pending,in_flight,held,succeeded,failed,cancelled" doc:"One, or several with commas between."`
	Tenant    string   `query:"tenant" maxLength:"200" doc:"A tenant's id or uid."`
	Endpoint  string   `query:"endpoint" maxLength:"200" doc:"An endpoint's id, or its uid if tenant is given as well."`
	Event     string   `query:"event" maxLength:"200" doc:"An event's id."`
	EventType string   `query:"event_type" maxLength:"200"`
	Outcome   []string `query:"outcome" enum:"succeeded,unauthorized,gone,retryable,redirected,rejected,timeout,dns_error,connect_error,tls_error,protocol_error,blocked,unknown" doc:"Of the last attempt; one, or several with commas between."`
	Since     string   `query:"since" format:"date-time" doc:"Made then or later."`
	Until     string   `query:"until" format:"date-time" doc:"Made before."`
	Query     string   `query:"q" maxLength:"500" doc:"An id, the beginning of an event's uid or type or of an endpoint's uid, or a part of a payload."`
}

type listDeliveriesIn struct {
	PageIn
	DeliveryFilter
}

func (s *server) listDeliveries(ctx context.Context, in *listDeliveriesIn) (*pageOut[deliveryView], error) {
	filter, err := s.readFilter(ctx, in.DeliveryFilter)
	if err != nil {
		return nil, err
	}
	return searchPage(id.Delivery, in.PageIn, s.d.EmptyAfter, func(limit int, before id.ID) ([]dispatcher.Delivery, id.ID, error) {
		p, err := s.d.Deliveries.Search(ctx, filter, limit, before)
		if fault.Is(err, fault.Invalid) { // about the free text, or a search that takes too long for one
			err = repoint(err, func(string) string { return "?q" })
		}
		return p.Deliveries, p.Next, err
	}, viewDelivery)
}

func (s *server) readFilter(ctx context.Context, in DeliveryFilter) (dispatcher.Filter, error) {
	var faults fault.Fields
	f := dispatcher.Filter{
		EventType: in.EventType, Query: in.Query,
		Since: parseTime(&faults, "?since", in.Since), Until: parseTime(&faults, "?until", in.Until),
	}
	for _, name := range in.State {
		state, err := dispatcher.ParseState(name)
		faults.Add("?state", err)
		f.States = append(f.States, state)
	}
	for _, name := range in.Outcome {
		outcome, err := dispatcher.ParseOutcome(name)
		faults.Add("?outcome", err)
		f.Outcomes = append(f.Outcomes, outcome)
	}
	var err error
	if f.Tenant, err = s.tenantFilter(ctx, in.Tenant); err != nil {
		return f, err
	}
	if f.Endpoint, err = s.endpointFilter(ctx, f.Tenant, in.Endpoint); err != nil {
		return f, err
	}
	if in.Event != "" {
		event, err := id.Event.Parse(in.Event)
		faults.Add("?event", err)
		f.Event = &event
	}
	return f, faults.Err()
}

// tenantFilter reads a filter by tenant. A key that is bound to one gets that one's things and no others, whatever it asks
// for. nil is all tenants.
func (s *server) tenantFilter(ctx context.Context, ref string) (*id.ID, error) {
	if ref == "" {
		return caller(ctx).Tenant, nil
	}
	t, err := s.visibleTenant(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &t.ID, nil
}

// endpointFilter reads a filter by endpoint. History goes on naming endpoints that were deleted, so an id is taken as it
// is; a uid stands for the endpoint of a tenant that has it now.
func (s *server) endpointFilter(ctx context.Context, tenant *id.ID, ref string) (*id.ID, error) {
	if ref == "" {
		return nil, nil //nolint:nilnil // no filter is not a missing thing
	}
	if e, err := id.Endpoint.Parse(ref); err == nil {
		return &e, nil
	}
	if id.LooksLikeID(ref) || tenant == nil {
		return nil, fault.InvalidAt("?endpoint", "is no endpoint's id; an endpoint's uid needs a tenant beside it")
	}
	t, err := s.visibleTenant(ctx, id.Tenant.Format(*tenant))
	if err != nil {
		return nil, err
	}
	e, err := s.d.Subscriptions.Endpoint(ctx, t, ref)
	if err != nil {
		return nil, err
	}
	return &e.ID, nil
}

// DeliveryIn is the path of one delivery.
type DeliveryIn struct {
	Delivery string `path:"dlv" doc:"The delivery's id." example:"dlv_07xk9v0e8g0003f"`
}

// visibleDelivery finds a delivery. What is no delivery's id, is not there or is another tenant's is one answer.
func (s *server) visibleDelivery(ctx context.Context, ref string) (dispatcher.Delivery, error) {
	missing := fault.New(fault.NotFound, "no such delivery")
	at, err := id.Delivery.Parse(ref)
	if err != nil {
		return dispatcher.Delivery{}, missing
	}
	d, err := s.d.Deliveries.Get(ctx, at)
	if err == nil && !caller(ctx).MaySee(d.Tenant) {
		return dispatcher.Delivery{}, missing
	}
	return d, err
}

func (s *server) readDelivery(ctx context.Context, in *DeliveryIn) (*deliveryOut, error) {
	d, err := s.visibleDelivery(ctx, in.Delivery)
	if err != nil {
		return nil, err
	}
	return &deliveryOut{Body: viewDelivery(d)}, nil
}

func (s *server) retryDelivery(ctx context.Context, in *DeliveryIn) (*deliveryOut, error) {
	return s.actOnDelivery(ctx, in.Delivery, s.d.Deliveries.Retry)
}

func (s *server) cancelDelivery(ctx context.Context, in *DeliveryIn) (*deliveryOut, error) {
	return s.actOnDelivery(ctx, in.Delivery, func(ctx context.Context, dlv id.ID) (dispatcher.Delivery, error) {
		return s.d.Deliveries.Cancel(ctx, dlv, dispatcher.ReasonCancelledByUser)
	})
}

func (s *server) actOnDelivery(
	ctx context.Context, ref string, do func(context.Context, id.ID) (dispatcher.Delivery, error),
) (*deliveryOut, error) {
	d, err := s.visibleDelivery(ctx, ref)
	if err != nil {
		return nil, err
	}
	if d, err = do(ctx, d.ID); err != nil {
		return nil, err
	}
	return &deliveryOut{Body: viewDelivery(d)}, nil
}
