package dispatcher

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/cloudevents"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// body gives what goes to an endpoint, and its content type: the payload as it is, unless the endpoint's format is another. What that is made of
// beside the payload is read now, and not with the claim, where it would be a cost to all. Like the payload, it is waited for
// no longer than the lease leaves time for the attempt.
func (d *Dispatcher) body(ctx context.Context, c claimed, t *subscriptions.Target, payload []byte) (body []byte, contentType *string, err error) {
	if t.Format != subscriptions.FormatCloudEvents {
		return payload, c.ContentType, nil
	}
	ctx, cancel := context.WithDeadline(ctx, c.leaseEnds.Add(-d.timeout(t)-d.cfg.Lease/8))
	defer cancel()
	return c.inFormat(ctx, d.deps.DB, t, payload)
}

// inFormat is body for whoever need not hurry.
func (c claimed) inFormat(ctx context.Context, db pg.Querier, t *subscriptions.Target, payload []byte) (body []byte, contentType *string, err error) {
	if t.Format != subscriptions.FormatCloudEvents || c.EventType == nil || c.ContentType == nil { // what is missing, signing says
		return payload, c.ContentType, nil
	}
	return asCloudEvent(ctx, db, cloudevents.Event{
		Tenant: id.Tenant.Format(t.Tenant), Type: *c.EventType, ContentType: *c.ContentType, Payload: payload,
	}, c.event())
}

// Index events_pkey.
const attributesSQL = `
SELECT coalesce(uid, ''), metadata -> @name::text FROM events WHERE shard = @shard AND id = @id`

// asCloudEvent makes the CloudEvent of an event, of which e has what is known. It is the same at every attempt: all that
// it is made of was fixed when the event was accepted.
func asCloudEvent(ctx context.Context, db pg.Querier, e cloudevents.Event, event id.ID) (body []byte, contentType *string, err error) {
	rows, err := db.Query(ctx, attributesSQL, pgx.StrictNamedArgs{
		"shard": event.Shard, "id": event.N, "name": cloudevents.MetadataName,
	})
	if err == nil {
		_, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (struct{}, error) {
			return struct{}{}, row.Scan(&e.UID, &e.Kept)
		})
	}
	if err != nil {
		return nil, nil, pg.Fault(fmt.Errorf("read the attributes of an event: %w", err))
	}
	e.ID, e.AcceptedAt = id.Event.Format(event), event.Time()
	is := cloudevents.ContentType
	return e.Structured(), &is, nil
}

// dressed is what the dispatcher would send of an event to an endpoint whose format is not raw.
func (k *Desk) dressed(ctx context.Context, facts eventFacts, event id.ID, payload []byte) (body []byte, contentType *string, err error) {
	return asCloudEvent(ctx, k.deps.DB, cloudevents.Event{
		Tenant: id.Tenant.Format(id.ID{Shard: event.Shard, N: facts.TenantID}), Type: *facts.Type, ContentType: *facts.ContentType, Payload: payload,
	}, event)
}

// measure finds out how long the CloudEvent of a delivery's event is, if the event is kept still. No attempt keeps its length.
func (k *Desk) measure(ctx context.Context, facts *eventFacts, shard int16) error {
	if facts.Type == nil || facts.ContentType == nil {
		return nil
	}
	event := id.ID{Shard: shard, N: facts.EventID}
	payload, err := readPayload(ctx, k.deps.DB, event)
	var body []byte
	if err == nil {
		body, _, err = k.dressed(ctx, *facts, event, payload)
	}
	switch {
	case fault.Is(err, fault.NotFound): // it was dropped just now
		return nil
	case err != nil:
		return err
	}
	size := len(body)
	facts.envelope = &size
	return nil
}

// isCloudEvent reports whether the attempt's body was a CloudEvent made by us.
func (r attemptRow) isCloudEvent() bool {
	return value(r.Format) == string(subscriptions.FormatCloudEvents)
}
