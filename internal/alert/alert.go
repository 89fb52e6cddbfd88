// Package alert tells the owner of an endpoint that something is wrong with it, once.
//
// Evaluate says whether an attempt's result is worth an alert; QueueRaise and QueueResolve write alerts, and notices of
// them in an outbox, inside the transaction that records the attempts; a Sender carries the notices to the channels of
// alerts.urls; a Desk is where people look at alerts and close them. All findings about one endpoint gather in one
// alert that is not resolved, with a count, so that an outage that hits 10,000 deliveries is told once.
//
// The package decides nothing about deliveries or endpoints, and nothing here sends within a transaction.
package alert

import "fmt"

// Kind is what an alert is about. The order is the order of gravity: an alert keeps the gravest of what it gathered.
// Its String is the log's value and the database's value.
type Kind uint8

// The kinds, as alert_kind in the schema.
const (
	DeliveryFailing      Kind = iota // a delivery failed alerts.after_failures times and is still being retried
	DeliveryFailed                   // a delivery failed for good
	EndpointUnauthorized             // 401 or 403: the credentials want checking
	EndpointBlocked                  // its address is one that deliveries may not go to
	EndpointDisabled                 // switched off: failing for too long, or its receiver asked for it
	EndpointDead                     // its receiver said 410 Gone

	// What is wrong with the service itself, as service_alert_kind in the schema.
	ServiceDeliveriesLate // what could be sent is not
	ServiceCanaryFailed   // an event of the service's own does not come through
	ServiceNoScheduler    // nobody keeps house
	ServiceNoDispatcher   // nobody sends
)

var kindNames = [...]string{
	DeliveryFailing: "delivery.failing", DeliveryFailed: "delivery.failed", EndpointUnauthorized: "endpoint.unauthorized",
	EndpointBlocked: "endpoint.blocked", EndpointDisabled: "endpoint.disabled", EndpointDead: "endpoint.dead",
	ServiceDeliveriesLate: "service.deliveries_late", ServiceCanaryFailed: "service.canary_failed",
	ServiceNoScheduler: "service.no_scheduler", ServiceNoDispatcher: "service.no_dispatcher",
}

func (k Kind) String() string { return kindNames[k] }

// OfService says whether it is about the service itself: no tenant's and no endpoint's.
func (k Kind) OfService() bool { return k > EndpointDead }

// Kinds gives those about endpoints, the least grave first.
func Kinds() []Kind { return kinds(DeliveryFailing, EndpointDead) }

// ServiceKinds gives those about the service itself.
func ServiceKinds() []Kind { return kinds(ServiceDeliveriesLate, ServiceNoDispatcher) }

func kinds(from, to Kind) (all []Kind) {
	for k := from; k <= to; k++ {
		all = append(all, k)
	}
	return all
}

// ParseKind reads a kind's name.
func ParseKind(s string) (Kind, error) {
	for k, name := range kindNames {
		if name == s {
			return Kind(k), nil
		}
	}
	return 0, fmt.Errorf("no such alert kind: %q", s)
}

// Facts is what Evaluate judges: one attempt's outcome and what was decided about it.
type Facts struct {
	Failures      int  // failed attempts of this delivery since it was last started, this one included; 0 for a success
	AfterFailures int  // alerts.after_failures; 0: never alert by count
	Failed        bool // the delivery failed for good, whatever the reason
	Unauthorized  bool // 401 or 403
	Blocked       bool // the address is not allowed
	Gone          bool // 410: the endpoint is dead now
	Disabled      bool // this attempt made the endpoint disabled
}

// Evaluate says which alert the facts raise, if any: the gravest that applies. The count raises one only when it
// reaches AfterFailures exactly, so a delivery does that once each time it is started.
func Evaluate(f Facts) (Kind, bool) {
	switch {
	case f.Gone:
		return EndpointDead, true
	case f.Disabled:
		return EndpointDisabled, true
	case f.Blocked:
		return EndpointBlocked, true
	case f.Unauthorized:
		return EndpointUnauthorized, true
	case f.Failed:
		return DeliveryFailed, true
	case f.AfterFailures > 0 && f.Failures == f.AfterFailures:
		return DeliveryFailing, true
	}
	return 0, false
}
