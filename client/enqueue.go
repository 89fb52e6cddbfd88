package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

const (
	jsonType = "application/json"
	maxBatch = 1000
	maxKey   = 255 // characters of an Idempotency-Key
	maxWord  = 128 // characters of an event type
)

// Enqueue has an event accepted. It returns after the commit, and tries again what may pass, with one Idempotency-Key, so that
// there is one event however many tries it takes. An error that is a refusal is an *Error; after any other, and after those
// that the tries ended with, the event may have been accepted all the same: enqueue it again with the same IdempotencyKey or
// UID to find out.
//
// The payload is the request's body as it stands. EndpointIDs and Metadata go along in an envelope of JSON: with them, and with a
// ContentType of CloudEvents, the payload has to be a JSON value without blanks around it, or it is refused here.
func (c *Client) Enqueue(ctx context.Context, e Event) (Receipt, error) {
	r, err := single(e)
	if err != nil {
		return Receipt{}, fmt.Errorf("enqueue %s: %w", e.Type, err)
	}
	a, err := c.send(ctx, r)
	if err != nil {
		return Receipt{}, fmt.Errorf("enqueue %s: %w", e.Type, err)
	}
	var got receipt
	if err := json.Unmarshal(a.body, &got); err != nil || got.ID == "" {
		return Receipt{}, fmt.Errorf("enqueue %s: %w", e.Type, errNotOurs)
	}
	return got.Receipt(a), nil
}

// EnqueueBatch has up to 1,000 events of a tenant accepted, 32 MiB together, all or none, in one transaction; the receipts are in
// the events' order. It tries again as Enqueue does. Each payload has to be a JSON value without blanks around it. The events' Tenant may
// be left out, and their IdempotencyKey has to be: the call has one of its own. An event that shall not be made twice by two
// calls has a UID.
//
// The Errors of a refusal say which events are at fault: /events/3/payload is the fourth's.
func (c *Client) EnqueueBatch(ctx context.Context, tenant string, events []Event) ([]Receipt, error) {
	r, err := batch(tenant, events)
	if err != nil {
		return nil, fmt.Errorf("enqueue a batch: %w", err)
	}
	a, err := c.send(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("enqueue a batch: %w", err)
	}
	var got struct{ Data []receipt }
	if err := json.Unmarshal(a.body, &got); err != nil || len(got.Data) != len(events) {
		return nil, fmt.Errorf("enqueue a batch: %w", errNotOurs)
	}
	receipts := make([]Receipt, len(got.Data))
	for n, one := range got.Data {
		receipts[n] = one.Receipt(a)
	}
	return receipts, nil
}

var errNotOurs = errors.New("the server says yes and not as Postrider does: is this its URL?")

// receipt is a Receipt as the server writes it.
type receipt struct {
	ID, Type, UID, Status string
	Deliveries            int
	CreatedAt             time.Time `json:"created_at"`
	DeliverAt             time.Time `json:"deliver_at"`
}

// Receipt adds what the answer's head says.
func (r receipt) Receipt(a answer) Receipt {
	return Receipt{
		ID: r.ID, Type: r.Type, UID: r.UID, Status: r.Status, Deliveries: r.Deliveries, CreatedAt: r.CreatedAt, DeliverAt: r.DeliverAt,
		Replayed: a.header.Get("Idempotent-Replayed") == "true",
	}
}

// single makes the request for one event: raw, unless it says what only an envelope can say.
func single(e Event) (call, error) {
	faults := e.check("")
	key := e.IdempotencyKey
	if len(key) > maxKey || !isPrintable(key) {
		faults.add("/idempotency_key", "has 1 to 255 printable ASCII characters")
	}
	if key == "" {
		key = rand.Text()
	}
	r := call{target: eventsOf(e.Tenant), contentType: jsonType, key: key}
	if !e.needsEnvelope() {
		r.target += "/" + url.PathEscape(e.Type) + e.query()
		if e.ContentType != "" {
			r.contentType = e.ContentType
		}
		r.body = bytes.Clone(e.Payload) // the transport may read it for longer than the call lasts
		return r, faults.err()
	}
	r.body = e.appendEnvelope(nil, "", &faults)
	return r, faults.err()
}

// needsEnvelope reports whether the raw call cannot say what the event has, or would read its payload: of a CloudEvent it takes the
// data out and delivers that.
func (e Event) needsEnvelope() bool {
	const cloudEvents = "application/cloudevents"
	is := strings.TrimSpace(e.ContentType) // as the header will be
	isCloudEvent := len(is) >= len(cloudEvents) && strings.EqualFold(is[:len(cloudEvents)], cloudEvents)
	return e.EndpointIDs != nil || len(e.Metadata) > 0 || isCloudEvent
}

func batch(tenant string, events []Event) (call, error) {
	var faults faults
	if len(events) == 0 || len(events) > maxBatch {
		faults.add("/events", fmt.Sprintf("a batch has 1 to 1,000 events, not %d", len(events)))
		return call{}, faults.err()
	}
	body := []byte(`{"events":[`)
	for n, e := range events {
		at := fmt.Sprintf("/events/%d", n)
		if e.Tenant == "" {
			e.Tenant = tenant
		}
		faults = append(faults, e.check(at)...)
		if e.Tenant != tenant {
			faults.add(at+"/tenant", "is another one than the batch's")
		}
		if e.IdempotencyKey != "" {
			faults.add(at+"/idempotency_key", "a batch has one key of its own; give the event a UID instead")
		}
		if n > 0 {
			body = append(body, ',')
		}
		body = e.appendEnvelope(body, at, &faults)
	}
	body = append(body, "]}"...)
	return call{target: eventsOf(tenant) + ":batch", contentType: jsonType, key: rand.Text(), body: body}, faults.err()
}

func eventsOf(tenant string) string { return "/v1/tenants/" + url.PathEscape(tenant) + "/events" }

// query has what the raw call takes besides the path and the body.
func (e Event) query() string {
	q := url.Values{}
	if e.UID != "" {
		q.Set("uid", e.UID)
	}
	if e.GroupKey != "" {
		q.Set("group_key", e.GroupKey)
	}
	if !e.DeliverAt.IsZero() {
		q.Set("deliver_at", e.DeliverAt.UTC().Format(time.RFC3339Nano))
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}
