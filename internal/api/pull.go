package api

import (
	"context"
	"encoding/base64"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// pulledView is a delivery that was fetched.
type pulledView struct {
	Token         string            `json:"token" doc:"What acknowledges it."`
	DeliveryID    string            `json:"delivery_id" example:"dlv_07xk9v0e8g0003f"`
	EventID       string            `json:"event_id" example:"evt_07xk9v0e8g0003f"`
	EventType     string            `json:"event_type" example:"order.paid"`
	Attempt       int               `json:"attempt" doc:"1, 2, …: how often it was fetched or tried."`
	ContentType   string            `json:"content_type" example:"application/json" doc:"Of the payload as it is here."`
	Headers       map[string]string `json:"headers" doc:"Those that a request would have: the signature over the payload, the ids, and the endpoint's own."`
	PayloadBase64 string            `json:"payload_base64" doc:"The body that a request would have, in base64 (RFC 4648, section 4): the producer's bytes, or the CloudEvent made of them."`
	LeasedUntil   stamp             `json:"leased_until" doc:"Not acknowledged by then, it is given out again."`
}

type pollIn struct {
	EndpointIn
	Limit int    `query:"limit" minimum:"1" maximum:"100" default:"10" doc:"How many at most. There may be fewer, though more are due: an answer has some 4 MiB of payloads."`
	Wait  string `query:"wait" example:"20s" doc:"How long to wait for the first one, 0s (the default) to 30s."`
	Lease string `query:"lease" example:"60s" doc:"How long they are leased, 1s to 1h; absent: as long as the operator has set, usually 60s."`
}

type pollOut struct {
	Body struct {
		Data []pulledView `json:"data" nullable:"false" doc:"The oldest first."`
	}
}

func (s *server) poll(ctx context.Context, in *pollIn) (*pollOut, error) {
	ask, err := in.read()
	if err != nil {
		return nil, err
	}
	e, err := s.pullEndpoint(ctx, in.EndpointIn)
	if err != nil {
		return nil, err
	}
	if e.Status != subscriptions.Enabled {
		return nil, fault.New(fault.Conflict, "the endpoint is %s: what waits for it is held until it is enabled", e.Status)
	}
	got, err := s.d.Pull.Poll(ctx, e.ID, ask)
	if err != nil {
		return nil, err
	}
	out := &pollOut{}
	out.Body.Data = make([]pulledView, len(got))
	for i, p := range got {
		out.Body.Data[i] = viewPulled(p)
	}
	return out, nil
}

func (in *pollIn) read() (dispatcher.Ask, error) {
	var faults fault.Fields
	ask := dispatcher.Ask{Limit: in.Limit}
	spanWithin(&faults, "?wait", in.Wait, 0, dispatcher.MaxPullWait, &ask.Wait)
	spanWithin(&faults, "?lease", in.Lease, dispatcher.MinPullLease, dispatcher.MaxPullLease, &ask.Lease)
	return ask, faults.Err()
}

// pullEndpoint finds an endpoint that is fetched from.
func (s *server) pullEndpoint(ctx context.Context, in EndpointIn) (subscriptions.Endpoint, error) {
	e, err := s.d.Subscriptions.Endpoint(ctx, tenantOf(ctx), in.Endpoint)
	if err == nil && e.Kind != subscriptions.Pull {
		err = fault.New(fault.Conflict, "the endpoint is of kind %s: its deliveries are posted to its URL", e.Kind)
	}
	return e, err
}

func viewPulled(p dispatcher.Pulled) pulledView {
	return pulledView{
		Token: p.Token, DeliveryID: id.Delivery.Format(p.Delivery), EventID: id.Event.Format(p.Event), EventType: p.EventType,
		Attempt: p.Attempt, ContentType: p.ContentType, Headers: viewHeaders(p.Headers),
		PayloadBase64: base64.StdEncoding.EncodeToString(p.Payload), LeasedUntil: stamp(p.LeasedUntil),
	}
}

type ackBody struct {
	Tokens []string `json:"tokens" doc:"As polls gave them, 1 to 1,000."`
}

func (ackBody) example() string { return `{"tokens":["AQAHZ…"]}` }

type ackIn struct {
	EndpointIn
	Body ackBody
}

type ackedView struct {
	Token      string  `json:"token"`
	DeliveryID *string `json:"delivery_id" doc:"null if the token is invalid."`
	State      string  `json:"state" enum:"acknowledged,lost,invalid" doc:"acknowledged: now, or by this token before; lost: the lease is nobody's any more; invalid: no token of this endpoint."`
	Detail     *string `json:"detail" doc:"Why it is not acknowledged."`
}

type ackOut struct {
	Body struct {
		Acknowledged int         `json:"acknowledged" doc:"How many of the tokens are."`
		Data         []ackedView `json:"data" nullable:"false" doc:"One for each token, in the order of the request."`
	}
}

func (s *server) acknowledge(ctx context.Context, in *ackIn) (*ackOut, error) {
	tokens := in.Body.Tokens
	if len(tokens) < 1 || len(tokens) > dispatcher.MaxAck {
		return nil, fault.InvalidAt("/tokens", "has to have 1 to %d tokens", dispatcher.MaxAck)
	}
	e, err := s.pullEndpoint(ctx, in.EndpointIn)
	if err != nil {
		return nil, err
	}
	acked, err := s.d.Pull.Ack(ctx, e.ID, e.TenantID, tokens)
	if err != nil {
		return nil, err
	}
	out := &ackOut{}
	for i, a := range acked {
		v := ackedView{Token: tokens[i], State: string(a.State), Detail: unlessEmpty(a.Detail)}
		if !a.Delivery.IsZero() {
			dlv := id.Delivery.Format(a.Delivery)
			v.DeliveryID = &dlv
		}
		if a.State == dispatcher.Acknowledged {
			out.Body.Acknowledged++
		}
		out.Body.Data = append(out.Body.Data, v)
	}
	return out, nil
}

// ackRoom is for as many tokens as may come, each with a signature of the longest kind twice.
func ackRoom(op *huma.Operation) {
	limit(dispatcher.MaxAck << 10)(op)
	also(http.StatusConflict)(op)
}

// noLook refuses HEAD, which would lease what it cannot show.
func (s *server) noLook(op *huma.Operation) {
	also(http.StatusConflict)(op)
	op.Middlewares = append(op.Middlewares, func(ctx huma.Context, next func(huma.Context)) {
		if ctx.Method() != http.MethodGet {
			s.refuse(ctx, fault.New(fault.MethodNotAllowed, "a poll leases what it gives, so it has to be a GET"))
			return
		}
		next(ctx)
	})
}
