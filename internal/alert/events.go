package alert

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/id"
)

// Event is a change that the operator's own tenant is told of, as an event like any other (docs/operational-events.md).
type Event struct {
	Type string
	// UID is the notice's: however often an event is handed over, it is one.
	UID      string
	GroupKey string // the endpoint, so that what happens to one can be had in order
	Payload  []byte
}

// Operator is the tenant that gets events. A Sender takes it from outside, since accepting events is not its business.
type Operator struct {
	// Tenant says which one it is, or why nobody knows.
	Tenant func(ctx context.Context) (id.ID, error)
	// Accept takes events, each once by its UID, all of them or none.
	Accept func(ctx context.Context, tenant id.ID, events []Event) error
}

// eventRoad is events about all tenants' endpoints to the operator's tenant.
type eventRoad struct {
	*Sender
	operator Operator
}

func (eventRoad) name() string { return "events" }

func (eventRoad) key() string { return "events" }

// acceptedAtOnce is how many events are accepted in one transaction.
const acceptedAtOnce = 200

// tell has each notice become an event: the operator's programs get every change, whatever people are spared. Of the operator's own
// endpoints there are none, since an event about a delivery that fails is a delivery too.
func (r eventRoad) tell(ctx context.Context, told []story) []verdict {
	vs := make([]verdict, len(told))
	tenant, err := r.operator.Tenant(ctx)
	if err != nil {
		for i := range vs {
			vs[i].err = fmt.Errorf("events: %w", err)
		}
		return vs
	}
	for from := 0; from < len(told); from += acceptedAtOnce {
		some := told[from:min(from+acceptedAtOnce, len(told))]
		var events []Event
		for _, st := range some {
			if st.Tenant == 0 || st.Tenant == tenant.N && st.shard == tenant.Shard {
				continue
			}
			for _, n := range st.notices {
				if kind := eventType(n); kind != "" {
					events = append(events, event(kind, n))
				}
			}
		}
		if len(events) == 0 {
			continue
		}
		if err := r.operator.Accept(ctx, tenant, events); err != nil {
			for i := range some {
				vs[from+i].err = fmt.Errorf("events: %w", err)
			}
		}
	}
	return vs
}

// eventType is what a notice is to the operator's programs; "": nothing. A credential or an address that is refused fails deliveries
// for good. What a person closed has not recovered.
func eventType(n notice) string {
	kind := n.kind()
	off := kind == EndpointDead.String() || kind == EndpointDisabled.String()
	switch {
	case n.Verb == "resolved" && n.ResolvedBy != nil:
		return ""
	case n.Verb == "resolved" && off:
		return "endpoint.recovered"
	case n.Verb == "resolved":
		return "delivery.recovered"
	case off, kind == DeliveryFailing.String():
		return kind
	case n.Verb == "escalated" && kind != DeliveryFailed.String():
		return "" // deliveries that fail were told of
	}
	return DeliveryFailed.String()
}

func (n notice) kind() string {
	if n.About != nil {
		return *n.About
	}
	return n.Kind
}

// eventData is the payload's data.
type eventData struct {
	AlertID      string     `json:"alert_id"`
	TenantID     string     `json:"tenant_id"`
	TenantUID    *string    `json:"tenant_uid"`
	TenantName   string     `json:"tenant_name"`
	EndpointID   string     `json:"endpoint_id"`
	EndpointUID  *string    `json:"endpoint_uid"`
	EndpointURL  *string    `json:"endpoint_url"`
	Kind         string     `json:"kind"`
	Detail       string     `json:"detail"`
	Count        int        `json:"count"`
	LastDelivery *string    `json:"last_delivery_id"`
	OpenedAt     time.Time  `json:"opened_at"`
	ResolvedAt   *time.Time `json:"resolved_at"`
}

func event(kind string, n notice) Event {
	in := func(v int64) id.ID { return id.ID{Shard: n.Shard, N: v} }
	data := eventData{
		AlertID: id.Alert.Format(in(n.Alert)), TenantID: id.Tenant.Format(in(n.Tenant)), TenantUID: n.TenantUID,
		TenantName: n.TenantName, EndpointID: id.Endpoint.Format(in(n.Endpoint)), EndpointUID: n.EndpointUID, Kind: n.kind(),
		Detail: n.Detail, Count: n.Count, OpenedAt: n.OpenedAt.UTC().Truncate(time.Millisecond),
	}
	if n.EndpointURL != "" {
		url := place(n.EndpointURL)
		data.EndpointURL = &url
	}
	if n.Delivery != nil {
		delivery := id.Delivery.Format(in(*n.Delivery))
		data.LastDelivery = &delivery
	}
	if n.Verb == "resolved" && n.ResolvedAt != nil {
		at := n.ResolvedAt.UTC().Truncate(time.Millisecond)
		data.ResolvedAt = &at
	}
	payload, err := json.Marshal(struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      eventData `json:"data"`
	}{kind, id.TimeOf(n.ID).UTC(), data})
	if err != nil { // of texts, numbers and times
		panic(err)
	}
	return Event{
		Type: kind, UID: "notice" + strings.TrimPrefix(id.Alert.Format(in(n.ID)), string(id.Alert)), GroupKey: data.EndpointID, Payload: payload,
	}
}
