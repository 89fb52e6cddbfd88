package api

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider/internal/auth"
)

// group is the routes of one kind of thing, under one heading of the documentation.
type group struct {
	tag, about string
	routes     []route
}

const (
	aTenant   = "/v1/tenants/{tenant}"
	anEnd     = aTenant + "/endpoints/{ep}"
	anEvent   = aTenant + "/events/{evt}"
	aDelivery = "/v1/deliveries/{dlv}"
	anAlert   = "/v1/alerts/{alr}"
	aJob      = "/v1/jobs/{job}"
	aSchedule = aTenant + "/schedules/{sch}"
	aKey      = "/v1/api-keys/{key}"
	aType     = "/v1/event-types/{type}"
)

// groups is every route of the API. What is not JSON over /v1 is in plain.
//
//nolint:funlen // a list, one line a route
func (s *server) groups() []group {
	var (
		events    = having(auth.EventsWrite)
		endpoints = having(auth.EndpointsWrite)
		reading   = having(auth.DeliveriesRead)
		acting    = having(auth.DeliveriesWrite)
		payload   = s.d.MaxPayload
		whole     = limit(payload + envelopeRoom)
	)
	return []group{
		{"Tenants", "Whose webhooks they are: each customer of yours is one.", []route{
			{"POST", "/v1/tenants", 201, operators, "create-tenant", "Make a tenant", handle(s.createTenant), also(409)},
			{"GET", "/v1/tenants", 200, operators, "list-tenants", "List tenants", handle(s.listTenants), nil},
			{"GET", aTenant, 200, owners, "get-tenant", "Read a tenant", handle(s.readTenant), nil},
			{"PATCH", aTenant, 200, having(auth.Admin), "update-tenant", "Change a tenant", handle(s.updateTenant), also(409)},
			{"DELETE", aTenant, 204, operators, "delete-tenant", "Delete a tenant and cancel what is not delivered", handle(s.deleteTenant), nil},
			{"POST", aTenant + "/erase", 202, erasers, "erase-tenant", "Erase a tenant, deleted or not, and all that there is of it", handle(s.eraseTenant), nil},
		}},
		{"Event types", "The catalogue of what may happen, one for all tenants. A type that is not in it is accepted as well; one with a schema holds payloads against it.", []route{
			{"PUT", aType, 200, operators, "put-event-type", "Put an event type into the catalogue, or replace it", handle(s.putEventType), alsoCreated},
			{"GET", "/v1/event-types", 200, anybody, "list-event-types", "List the catalogue", handle(s.listEventTypes), nil},
			{"GET", aType, 200, anybody, "get-event-type", "Read an event type", handle(s.readEventType), nil},
			{"DELETE", aType, 204, operators, "delete-event-type", "Take an event type out of the catalogue", handle(s.deleteEventType), nil},
		}},
		{"Endpoints", "Where a tenant wants its webhooks posted to, and how they are signed.", []route{
			{"POST", aTenant + "/endpoints", 201, endpoints, "create-endpoint", "Make an endpoint; its secret is shown this once", handle(s.createEndpoint), also(409)},
			{"GET", aTenant + "/endpoints", 200, endpoints, "list-endpoints", "List a tenant's endpoints", handle(s.listEndpoints), nil},
			{"GET", anEnd, 200, endpoints, "get-endpoint", "Read an endpoint", handle(s.readEndpoint), nil},
			{"PATCH", anEnd, 200, endpoints, "update-endpoint", "Change, disable or revive an endpoint", handle(s.updateEndpoint), also(409, 412)},
			{"DELETE", anEnd, 204, endpoints, "delete-endpoint", "Delete an endpoint and cancel what is not delivered", handle(s.deleteEndpoint), nil},
			{"GET", anEnd + "/secret", 200, endpoints, "get-endpoint-secret", "Show the signing secret", handle(s.readSecret), also(409)},
			{"POST", anEnd + "/secret/rotate", 200, endpoints, "rotate-endpoint-secret", "Replace the signing secret", handle(s.rotateSecret), also(409)},
			{"GET", anEnd + "/stats", 200, reading, "get-endpoint-stats", "Count an endpoint's attempts, and how long they took", handle(s.readStats), nil},
			{"POST", anEnd + "/filter:test", 200, endpoints, "test-endpoint-filter", "Try a filter on a payload; nothing is sent", handle(s.testFilter), whole},
			{"POST", anEnd + "/test", 202, endpoints, "test-endpoint", "Send a test event to this endpoint alone", handle(s.testEndpoint), whole},
			{"POST", anEnd + "/replay", 202, acting, "replay-endpoint", "Send past events to this endpoint again, and what it missed; a job", handle(s.replayEndpoint), s.andCounts(409)},
		}},
		{"Fetching", "For those who cannot take requests: what waits for an endpoint of kind pull is leased, and acknowledged.", []route{
			{"GET", anEnd + "/poll", 200, acting, "poll-endpoint", "Fetch what is due to an endpoint of kind pull, leased and signed", handle(s.poll), s.noLook},
			{"POST", anEnd + "/ack", 200, acting, "acknowledge-deliveries", "Acknowledge what was fetched; it is delivered then", handle(s.acknowledge), ackRoom},
		}},
		{"Events", "What happened, and is told to the tenant's endpoints.", []route{
			{"POST", aTenant + "/events", 202, events, "enqueue-event", "Enqueue an event as an envelope", handle(s.enqueue), s.andCloudEvents(whole)},
			{"POST", aTenant + "/events:batch", 202, events, "enqueue-batch", "Enqueue up to 1,000 events, all or none", handle(s.enqueueBatch), s.andBatchOfCloudEvents(limit(batchBody))},
			{"POST", anEvent, 202, events, "enqueue-raw-event", "Enqueue an event raw: the path's last segment is its type, the body its payload", handleRaw(s.enqueueRaw), s.andCloudEvents(rawBody(payload))},
			{"GET", aTenant + "/events", 200, reading, "list-events", "List a tenant's events", handle(s.listEvents), nil},
			{"GET", anEvent, 200, reading, "get-event", "Read an event, its deliveries and who was skipped", handle(s.readEvent), nil},
			{"GET", anEvent + "/payload", 200, reading, "get-event-payload", "Read an event's payload", handle(s.readPayload), anyContent},
			{"POST", anEvent + "/cancel", 200, events, "cancel-event", "Cancel what is not delivered of an event", handle(s.cancelEvent), also(409)},
			{"POST", anEvent + "/replay", 202, acting, "replay-event", "Send an event to its endpoints again; a job", handle(s.replayEvent), s.andCounts()},
		}},
		{"Schedules", "Events that come again and again, at the times of a cron expression in a time zone. Each occurrence makes one event.", []route{
			{"POST", aTenant + "/schedules", 201, events, "create-schedule", "Make a schedule", handle(s.createSchedule), both(whole, also(409))},
			{"GET", aTenant + "/schedules", 200, events, "list-schedules", "List a tenant's schedules", handle(s.listSchedules), nil},
			{"GET", aSchedule, 200, events, "get-schedule", "Read a schedule, its payload and its last occurrences", handle(s.readSchedule), nil},
			{"PATCH", aSchedule, 200, events, "update-schedule", "Change, pause or resume a schedule", handle(s.updateSchedule), both(whole, also(409))},
			{"DELETE", aSchedule, 204, events, "delete-schedule", "Delete a schedule; the events that it has made go their way", handle(s.deleteSchedule), nil},
			{"POST", aSchedule + "/run", 202, events, "run-schedule", "Make an event of a schedule at once, beside its times", handle(s.runSchedule), nil},
		}},
		{"Deliveries", "One event on its way to one endpoint, with the attempts that were made. The review of failures is here.", []route{
			{"GET", "/v1/deliveries", 200, reading, "list-deliveries", "Look for deliveries", handle(s.listDeliveries), also(404)},
			{"GET", aDelivery, 200, reading, "get-delivery", "Read a delivery", handle(s.readDelivery), nil},
			{"GET", aDelivery + "/attempts", 200, reading, "list-attempts", "List a delivery's attempts", handle(s.listAttempts), nil},
			{"POST", "/v1/deliveries/retry", 202, acting, "retry-deliveries", "Try many deliveries again; a job", handle(s.retryDeliveries), s.andCounts(404)},
			{"POST", "/v1/deliveries/cancel", 202, acting, "cancel-deliveries", "Cancel many deliveries; a job", handle(s.cancelDeliveries), s.andCounts(404)},
			{"POST", aDelivery + "/retry", 200, acting, "retry-delivery", "Try a delivery again, at once", handle(s.retryDelivery), also(409)},
			{"POST", aDelivery + "/cancel", 200, acting, "cancel-delivery", "Cancel a delivery", handle(s.cancelDelivery), also(409)},
		}},
		{"Jobs", "Work on many deliveries at once. It goes on by itself, at a pace, and survives a restart.", []route{
			{"GET", "/v1/jobs", 200, reading, "list-jobs", "List jobs", handle(s.listJobs), also(404)},
			{"GET", aJob, 200, reading, "get-job", "Read a job and how far it is", handle(s.readJob), nil},
			{"POST", aJob + "/cancel", 200, acting, "cancel-job", "Stop a job; what it has done stays done", handle(s.cancelJob), also(409)},
		}},
		{"Alerts", "What is wrong with an endpoint, gathered into one alert until a success resolves it; and what is wrong with Postrider itself.", []route{
			{"GET", "/v1/alerts", 200, reading, "list-alerts", "List alerts, of endpoints and of Postrider itself", handle(s.listAlerts), also(404)},
			{"GET", anAlert, 200, reading, "get-alert", "Read an alert", handle(s.readAlert), nil},
			{"POST", anAlert + "/acknowledge", 200, acting, "acknowledge-alert", "Say that somebody looks after it", handle(s.acknowledgeAlert), also(409)},
			{"POST", anAlert + "/resolve", 200, acting, "resolve-alert", "Close an alert", handle(s.resolveAlert), nil},
		}},
		{"Portal", "Where a tenant looks after its own endpoints, in a browser.", []route{
			{"POST", aTenant + "/portal-sessions", 201, endpoints, "create-portal-session", "Make a link into the tenant's own portal", handle(s.createPortalSession), nil},
		}},
		{"API keys", "Who may call.", []route{
			{"POST", "/v1/api-keys", 201, operators, "create-api-key", "Make an API key; it is shown this once", handle(s.createKey), nil},
			{"GET", "/v1/api-keys", 200, operators, "list-api-keys", "List API keys", handle(s.listKeys), nil},
			{"GET", aKey, 200, operators, "get-api-key", "Read an API key", handle(s.readKey), nil},
			{"DELETE", aKey, 204, operators, "revoke-api-key", "Revoke an API key", handle(s.revokeKey), nil},
		}},
		{"Audit log", "Who did what to which thing, from where.", []route{
			{"GET", "/v1/audit-log", 200, having(auth.Admin), "list-audit-log", "Look into the audit log", handle(s.listAudit), also(404)},
		}},
		{"Processes", "Which processes there are, and whether they work.", []route{
			{"GET", "/v1/processes", 200, operators, "list-processes", "List the processes on the database", handle(s.listProcesses), nil},
		}},
		s.health(),
	}
}

// health is what every process answers, whatever its roles.
func (s *server) health() group {
	return group{"Health", "For what watches over the process. No key is needed.", []route{
		{"GET", "/livez", 200, public, "livez", "Whether the process is alive, and hangs in no part", handle(s.live), also(503)},
		{"GET", "/readyz", 200, public, "readyz", "Whether requests can be served, and what the process is for gets on", handle(s.ready), nil},
	}}
}

const metricsPattern = "GET /metrics"

// plain is what is no part of the documented API.
func (s *server) plain() map[string]http.Handler {
	routes := map[string]http.Handler{
		"GET /openapi.json": s.description(),
		"GET /docs":         docsPage(),
		"GET /docs/{asset}": docsAsset(),
	}
	if s.d.Metrics != nil {
		routes[metricsPattern] = s.metrics()
	}
	return routes
}

func (s *server) register() {
	for _, g := range s.groups() {
		s.registerGroup(g)
	}
	for _, routes := range []map[string]http.Handler{s.plain(), s.d.Pages} {
		for pattern, handler := range routes {
			s.mux.Handle(pattern, handler)
		}
	}
}

func (s *server) registerGroup(g group) {
	spec := s.api.OpenAPI()
	spec.Tags = append(spec.Tags, &huma.Tag{Name: g.tag, Description: g.about})
	for _, rt := range g.routes {
		op := s.operation(g.tag, rt)
		rt.act.register(s.api, op)
		showSamples(op.Responses)
	}
}
