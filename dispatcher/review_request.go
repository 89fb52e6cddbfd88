package dispatcher

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// Request is a request as the next attempt would make it, with everything in it: also what is secret in the endpoint's
// own headers, and a signature that receivers take. It is for those who may have both.
type Request struct {
	URL     string
	Headers []signer.Header
	Body    []byte
}

// Request makes a delivery's request, signed at the moment signedAt of the wall's clock, with the endpoint's present URL,
// headers and secrets, and notes in the audit log that it was shown. It sends nothing and changes nothing of the delivery. It
// is a conflict when no request can be made: the endpoint is deleted or cannot be read, or the event is not kept any more.
func (k *Desk) Request(ctx context.Context, dlv id.ID, userAgent string, signedAt time.Time) (Request, error) {
	d, err := k.Get(ctx, dlv)
	if err != nil {
		return Request{}, err
	}
	facts, err := k.eventOf(ctx, dlv)
	if err != nil {
		return Request{}, err
	}
	if facts.Type == nil || facts.ContentType == nil {
		return Request{}, fault.New(fault.Conflict, "no request can be made any more: the event is not kept")
	}
	targets, err := k.deps.Store.Targets(ctx, []id.ID{d.Endpoint})
	if err != nil {
		return Request{}, err
	}
	to, ok := targets[d.Endpoint]
	if !ok || to.Deleted || to.Err != nil {
		return Request{}, fault.New(fault.Conflict, "no request can be made: the endpoint is deleted, or cannot be read")
	}
	if to.URL == "" {
		return Request{}, fault.New(fault.Conflict, "no request is made: the endpoint's owner fetches what waits for it")
	}
	r := Request{URL: to.URL}
	if r.Body, err = readPayload(ctx, k.deps.DB, d.Event); err != nil {
		return Request{}, err
	}
	contentType := facts.ContentType
	if to.Format == subscriptions.FormatCloudEvents {
		if r.Body, contentType, err = k.dressed(ctx, facts, d.Event, r.Body); err != nil {
			return Request{}, err
		}
	}
	message := signer.Message{
		EventID: id.Event.Format(d.Event), DeliveryID: id.Delivery.Format(dlv), EventType: *facts.Type,
		Timestamp: signedAt.Unix(), Body: r.Body,
	}
	signed, err := signer.Sign(to.Scheme, to.SignatureHeader, to.Valid(k.deps.Now()), message)
	if err != nil {
		return Request{}, fault.Wrap(fault.Conflict, err, "no request can be made: the endpoint has no secret that signs")
	}
	r.Headers = requestHeaders(headerFacts{
		contentType: *contentType, userAgent: userAgent, deliveryID: message.DeliveryID, eventType: *facts.Type,
		attempt: d.Attempts + 1, signed: signed, static: to.Headers,
	})
	return r, pg.InTx(ctx, k.deps.DB, func(tx pgx.Tx) error {
		return audit.Write(ctx, tx, k.deps.IDs.Next, audit.Entry{
			Action: audit.RequestShown, Object: audit.Thing{Kind: id.Delivery, ID: dlv}, Tenant: &d.Tenant,
		})
	})
}
