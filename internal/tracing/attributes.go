package tracing

import "go.opentelemetry.io/otel/attribute"

// Attributes that semconv has as enumerations, or that are ours.
const (
	requestMethodKey = attribute.Key("http.request.method")
	errorTypeKey     = attribute.Key("error.type")
	operationTypeKey = attribute.Key("messaging.operation.type")
	systemKey        = attribute.Key("messaging.system")

	requestIDKey  = attribute.Key("postrider.request.id")
	tenantKey     = attribute.Key("postrider.tenant.id")
	eventKey      = attribute.Key("postrider.event.id")
	eventTypeKey  = attribute.Key("postrider.event.type")
	endpointKey   = attribute.Key("postrider.endpoint.id")
	deliveryKey   = attribute.Key("postrider.delivery.id")
	attemptKey    = attribute.Key("postrider.attempt")
	outcomeKey    = attribute.Key("postrider.outcome")
	deliveriesKey = attribute.Key("postrider.deliveries")
	callsKey      = attribute.Key("postrider.calls")
	replayedKey   = attribute.Key("postrider.replayed")
)

const system = "postrider" // as a messaging system
