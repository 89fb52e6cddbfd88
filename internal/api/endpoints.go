package api

import (
	"context"
	"encoding/json"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/subscriptions"
)

// EndpointIn is the path of one endpoint.
type EndpointIn struct {
	TenantIn
	Endpoint string `path:"ep" doc:"The endpoint's id or uid." example:"ep_07xk9v0e8g0003f"`
}

type endpointOut struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     endpointView
}

func (s *server) endpointAnswer(ctx context.Context, e subscriptions.Endpoint) *endpointOut {
	if e.Unreadable != "" { // shown all the same, so that it can be mended
		s.logger.Error().Str("error", e.Unreadable).Str("endpoint_id", id.Endpoint.Format(e.ID)).
			Str("request_id", requestOf(ctx)).Msg("endpoint.unreadable")
	}
	return &endpointOut{ETag: e.ETag(), Body: viewEndpoint(e)}
}

type createEndpointIn struct {
	TenantIn
	Body newEndpoint
}

func (s *server) createEndpoint(ctx context.Context, in *createEndpointIn) (*endpointOut, error) {
	n, err := in.Body.read()
	if err != nil {
		return nil, err
	}
	e, secret, err := s.d.Subscriptions.CreateEndpoint(ctx, tenantOf(ctx), n)
	if err != nil {
		return nil, err
	}
	out := s.endpointAnswer(ctx, e)
	out.Body = out.Body.withSecret(secret)
	out.Location = "/v1/tenants/" + out.Body.TenantID + "/endpoints/" + out.Body.ID
	return out, nil
}

type listEndpointsIn struct {
	TenantIn
	PageIn
}

func (s *server) listEndpoints(ctx context.Context, in *listEndpointsIn) (*pageOut[endpointView], error) {
	return readPage(id.Endpoint, in.PageIn, func(limit int, before id.ID) ([]subscriptions.Endpoint, error) {
		return s.d.Subscriptions.Endpoints(ctx, tenantOf(ctx), limit, before)
	}, viewEndpoint, func(e subscriptions.Endpoint) id.ID { return e.ID })
}

func (s *server) readEndpoint(ctx context.Context, in *EndpointIn) (*endpointOut, error) {
	e, err := s.d.Subscriptions.Endpoint(ctx, tenantOf(ctx), in.Endpoint)
	if err != nil {
		return nil, err
	}
	return s.endpointAnswer(ctx, e), nil
}

type updateEndpointIn struct {
	EndpointIn
	IfMatch string `header:"If-Match" doc:"An ETag: the change is made only if the endpoint still has it."`
	Body    endpointPatch
}

func (s *server) updateEndpoint(ctx context.Context, in *updateEndpointIn) (*endpointOut, error) {
	patch, err := in.Body.read()
	if err != nil {
		return nil, err
	}
	e, err := s.d.Subscriptions.UpdateEndpoint(ctx, tenantOf(ctx), in.Endpoint, in.IfMatch, patch)
	if err != nil {
		return nil, err
	}
	if e.Status == subscriptions.Enabled {
		s.d.Wake(e.ID.Shard) // what was held is due
	}
	out := s.endpointAnswer(ctx, e)
	out.Body = out.Body.withSecret(e.Minted)
	return out, nil
}

// deleteEndpoint, like deleteTenant, leaves what it does not come to to the dispatcher's sweep.
func (s *server) deleteEndpoint(ctx context.Context, in *EndpointIn) (*struct{}, error) {
	e, err := s.d.Subscriptions.DeleteEndpoint(ctx, tenantOf(ctx), in.Endpoint)
	if err != nil {
		return nil, err
	}
	if _, err := s.d.Deliveries.CancelUnfinished(ctx, e.ID, dispatcher.ReasonEndpointDeleted); err != nil {
		return nil, err
	}
	return &struct{}{}, nil
}

// What a test sends if nothing else is asked for.
const (
	testType    = "postrider.test"
	testPayload = `{"message":"This is a test event from Postrider."}`
)

type testEvent struct {
	Type    string          `json:"type,omitempty" nullable:"true" example:"postrider.test"`
	Payload json.RawMessage `json:"payload,omitempty" doc:"Any JSON value; it is sent byte for byte. Absent: the type's example in the catalogue, if there is one."`
}

func (testEvent) example() string {
	return `{"type":"order.paid","payload":{"order":1001,"total":"49.90"}}`
}

type testIn struct {
	EndpointIn
	Body *testEvent
}

// testEndpoint sends one event to this endpoint alone, whatever it subscribes to.
func (s *server) testEndpoint(ctx context.Context, in *testIn) (*receiptOut, error) {
	t := tenantOf(ctx)
	e, err := s.d.Subscriptions.Endpoint(ctx, t, in.Endpoint)
	if err != nil {
		return nil, err
	}
	ev := intake.Event{Type: testType, Payload: []byte(testPayload), ContentType: jsonType}
	if in.Body != nil && in.Body.Type != "" {
		ev.Type = in.Body.Type
	}
	switch {
	case in.Body != nil && in.Body.Payload != nil:
		ev.Payload = in.Body.Payload
	case ev.Type != testType:
		if example, err := s.typeExample(ctx, ev.Type); err != nil {
			return nil, err
		} else if example != nil {
			ev.Payload = example
		}
	}
	receipt, err := s.d.Intake.AcceptTest(ctx, e.ID, t.ID, ev)
	if err != nil {
		return nil, err
	}
	return accepted(t.ID, receipt, false), nil
}
