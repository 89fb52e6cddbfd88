package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
)

const (
	jsonType   = "application/json"
	binaryType = "application/octet-stream" // RFC 9110, 8.3: what a body is of which nothing is said
)

// newEvent is an event as an envelope.
type newEvent struct {
	Type        string          `json:"type" example:"order.paid"`
	Payload     json.RawMessage `json:"payload" doc:"Any JSON value. Its bytes are delivered as they stand here, blanks and digits included."`
	UID         *string         `json:"uid,omitempty" nullable:"true" doc:"Your own name for the event. Enqueueing it again with the same content makes no second one."`
	ContentType *string         `json:"content_type,omitempty" nullable:"true" doc:"application/json if absent."`
	DeliverAt   *string         `json:"deliver_at,omitempty" nullable:"true" format:"date-time" doc:"Not delivered before."`
	GroupKey    *string         `json:"group_key,omitempty" nullable:"true" doc:"What the event belongs to, such as an order or an account; shown with it. An endpoint with ordering gets what has the same one at a time, in the order of acceptance."`
	EndpointIDs []string        `json:"endpoint_ids,omitempty" nullable:"true" doc:"Only to these, ids or uids, as far as they want the type."`
	Metadata    metadata        `json:"metadata,omitempty" nullable:"true" doc:"Kept with the event and not delivered."`
}

func (newEvent) example() string {
	return `{"type":"order.paid","uid":"order-1001-paid","payload":{"order":1001,"total":"49.90"}}`
}

func (n newEvent) read(faults *fault.Fields, at string) intake.Event {
	ev := intake.Event{
		Type: n.Type, Payload: n.Payload, ContentType: jsonType, UID: text(n.UID), GroupKey: text(n.GroupKey),
		EndpointIDs: n.EndpointIDs, Metadata: n.Metadata,
		DeliverAt: deliverAt(faults, at+"/deliver_at", text(n.DeliverAt)),
	}
	if n.ContentType != nil {
		ev.ContentType = *n.ContentType
	}
	checkKept(faults, at, n.Metadata)
	if n.UID != nil && *n.UID == "" { // an empty one would pass for none, and with it the promise not to enqueue twice
		faults.Addf(at+"/uid", "is empty; leave it out or give one")
	}
	return ev
}

func deliverAt(faults *fault.Fields, at, given string) *time.Time {
	t := parseTime(faults, at, given)
	if t.IsZero() {
		return nil
	}
	return &t
}

// text is what a string that may be null says.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Idempotent is the header that makes enqueueing safe to repeat.
type Idempotent struct {
	Key string `header:"Idempotency-Key" doc:"Makes it safe to repeat: the same key and content give the first answer again. Kept 24 hours at least."`
}

// receiptView is the answer to an enqueue.
type receiptView struct {
	ID         string  `json:"id" example:"evt_07xk9v0e8g0003f"`
	Type       string  `json:"type" example:"order.paid"`
	UID        *string `json:"uid,omitempty" nullable:"false"`
	Status     string  `json:"status" enum:"scheduled,queued,succeeded" doc:"As it was accepted; succeeded if no endpoint wants it."`
	Deliveries int     `json:"deliveries" doc:"How many endpoints will get it."`
	CreatedAt  stamp   `json:"created_at"`
	DeliverAt  *stamp  `json:"deliver_at,omitempty" nullable:"false"`
}

func viewReceipt(r intake.Receipt) receiptView {
	v := receiptView{
		ID: id.Event.Format(r.ID), Type: r.Type, Status: r.Status, Deliveries: r.Deliveries, CreatedAt: stamp(r.CreatedAt),
		DeliverAt: stampOf(r.DeliverAt),
	}
	if r.UID != "" {
		v.UID = &r.UID
	}
	return v
}

// ReceiptHead is what the answers to enqueues have in common: they come after the commit; what becomes of the event
// shows from a second later on.
type ReceiptHead struct {
	RetryAfter string `header:"Retry-After"`
	Replayed   string `header:"Idempotent-Replayed" doc:"true if this is the answer that was given the first time."`
}

func head(replayed bool) ReceiptHead {
	h := ReceiptHead{RetryAfter: "1"}
	if replayed {
		h.Replayed = "true"
	}
	return h
}

type receiptOut struct {
	ReceiptHead
	Location string `header:"Location"`
	Body     receiptView
}

func accepted(tenant id.ID, r intake.Receipt, replayed bool) *receiptOut {
	view := viewReceipt(r)
	return &receiptOut{
		ReceiptHead: head(replayed), Body: view, Location: eventPath(tenant, r.ID),
	}
}

type enqueueIn struct {
	TenantIn
	Idempotent
	Body newEvent
}

func (s *server) enqueue(ctx context.Context, in *enqueueIn) (*receiptOut, error) {
	var faults fault.Fields
	ev := in.Body.read(&faults, "")
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return s.accept(ctx, in.Key, ev)
}

func (s *server) accept(ctx context.Context, key string, ev intake.Event) (*receiptOut, error) {
	tenant := tenantOf(ctx).ID
	receipts, replayed, err := s.d.Intake.Accept(ctx, tenant, key, []intake.Event{ev})
	if err != nil {
		return nil, err
	}
	return accepted(tenant, receipts[0], replayed), nil
}

type enqueueRawIn struct {
	TenantIn
	Idempotent
	Type        string `path:"evt" doc:"The event's type, not an id." example:"order.paid"` // OpenAPI wants one name for one place
	ContentType string `header:"Content-Type" hidden:"true"`
	UID         string `query:"uid" doc:"Your own name for the event."`
	DeliverAt   string `query:"deliver_at" format:"date-time" doc:"Not delivered before."`
	GroupKey    string `query:"group_key" doc:"What the event belongs to, such as an order or an account; shown with it. An endpoint with ordering gets what has the same one at a time, in the order of acceptance."`
	RawBody     []byte `contentType:"*/*"`
}

// enqueueRaw takes the request's body as the payload, whatever it is, also nothing at all.
func (s *server) enqueueRaw(ctx context.Context, in *enqueueRawIn) (*receiptOut, error) {
	var faults fault.Fields
	ev := intake.Event{
		Type: in.Type, ContentType: in.ContentType, UID: in.UID, GroupKey: in.GroupKey,
		DeliverAt: deliverAt(&faults, "?deliver_at", in.DeliverAt),
		// huma takes its buffer back when the handler is done, and whoever stores the event may outlast it.
		Payload: bytes.Clone(in.RawBody),
	}
	if ev.ContentType == "" {
		ev.ContentType = binaryType
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	out, err := s.accept(ctx, in.Key, ev)
	return out, repoint(err, func(pointer string) string {
		switch pointer {
		case "/uid", "/deliver_at", "/group_key":
			return "?" + strings.TrimPrefix(pointer, "/")
		}
		return pointer
	})
}

type enqueueBatchIn struct {
	TenantIn
	Idempotent
	Body newBatch
}

type newBatch struct {
	Events []newEvent `json:"events" minItems:"1" maxItems:"1000"`
}

func (newBatch) example() string {
	return `{"events":[{"type":"order.paid","payload":{"order":1002}},{"type":"order.shipped","payload":{"order":1001}}]}`
}

type batchOut struct {
	ReceiptHead
	Body batchView
}

type batchView struct {
	Data []receiptView `json:"data" nullable:"false" doc:"In the order of the events."`
}

// enqueueBatch takes all of its events or none.
func (s *server) enqueueBatch(ctx context.Context, in *enqueueBatchIn) (*batchOut, error) {
	var faults fault.Fields
	events := make([]intake.Event, len(in.Body.Events))
	for i, n := range in.Body.Events {
		events[i] = n.read(&faults, "/events/"+strconv.Itoa(i))
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	receipts, replayed, err := s.d.Intake.AcceptBatch(ctx, tenantOf(ctx).ID, in.Key, events)
	if err != nil {
		return nil, err
	}
	out := &batchOut{ReceiptHead: head(replayed), Body: batchView{Data: make([]receiptView, len(receipts))}}
	for i, r := range receipts {
		out.Body.Data[i] = viewReceipt(r)
	}
	return out, nil
}

// repoint says where in this request the fields of a fault are, and where one that names none is.
func repoint(err error, where func(string) string) error {
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.Invalid {
		return err
	}
	moved := fault.Wrap(f.Code, err, "%s", f.Detail)
	if len(f.Fields) == 0 {
		moved.Fields = []fault.Field{{Pointer: where(""), Detail: f.Detail}}
	}
	for _, field := range f.Fields {
		moved.Fields = append(moved.Fields, fault.Field{Pointer: where(field.Pointer), Detail: field.Detail})
	}
	return moved
}
