package console

import (
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/oidc"
	"github.com/postrider/postrider/internal/web"
)

var (
	viewers = web.AtLeast(auth.RoleViewer)
	support = web.AtLeast(auth.RoleSupport)
	admins  = web.AtLeast(auth.RoleAdmin)
)

// producers may cancel events and touch schedules, which takes a scope that the key of somebody with the role may lack: nobody does more by a page
// than by the API with the same key.
func producers(s auth.Session) error {
	if err := support(s); err != nil {
		return err
	}
	if !s.Principal.Has(auth.EventsWrite) {
		return fault.New(fault.Forbidden, "this needs the scope %s, which the key that you signed in with has not", auth.EventsWrite)
	}
	return nil
}

// sections are the entries of the navigation.
var sections = []struct {
	navEntry
	may web.Access
}{
	{navEntry{Section: "overview", Label: "Overview", Icon: "home", Path: Base + "/"}, viewers},
	{navEntry{Section: "deliveries", Label: "Deliveries", Icon: "list", Path: Base + "/deliveries"}, viewers},
	{navEntry{Section: "events", Label: "Events", Icon: "event", Path: Base + "/events"}, viewers},
	{navEntry{Section: "endpoints", Label: "Endpoints", Icon: "endpoint", Path: Base + "/endpoints"}, viewers},
	{navEntry{Section: "alerts", Label: "Alerts", Icon: "bell", Path: Base + "/alerts"}, viewers},
	{navEntry{Section: "tenants", Label: "Tenants", Icon: "people", Path: Base + "/tenants"}, viewers},
	{navEntry{Section: "event-types", Label: "Event types", Icon: "book", Path: Base + "/event-types"}, viewers},
	{navEntry{Section: "jobs", Label: "Jobs", Icon: "gear", Path: Base + "/jobs"}, viewers},
	{navEntry{Section: "api-keys", Label: "API keys", Icon: "key", Path: Base + "/api-keys"}, admins},
	{navEntry{Section: "audit-log", Label: "Audit log", Icon: "log", Path: Base + "/audit-log"}, admins},
}

// routes is every page. What changes something is a POST, and only that.
func (p *pages) routes() []web.Route {
	return []web.Route{
		web.Get(Base+"/signin", web.Anyone, p.signin),
		web.Post(Base+"/signin", web.Anyone, p.postSignin),
		web.Get(Base+"/oidc", web.Anyone, p.beginOIDC),
		web.Get(oidc.CallbackPath, web.Anyone, p.finishOIDC),
		web.Post(Base+"/signout", web.Anyone, p.signout),

		web.Get(Base+"/{$}", viewers, p.overview),
		web.Get(Base+"/go", viewers, p.goTo),

		web.Get(Base+"/deliveries", viewers, p.deliveries),
		web.Get(Base+"/deliveries.csv", viewers, p.deliveriesCSV),
		web.Get(Base+"/deliveries/bulk", support, p.bulk),
		web.Post(Base+"/deliveries/bulk", support, p.postBulk),
		web.Get(Base+"/deliveries/{dlv}", viewers, p.delivery),
		web.Post(Base+"/deliveries/{dlv}/retry", support, p.retryDelivery),
		web.Post(Base+"/deliveries/{dlv}/cancel", support, p.cancelDelivery),

		web.Get(Base+"/events", viewers, p.events),
		web.Get(Base+"/events/{evt}", viewers, p.event),
		web.Get(Base+"/events/{evt}/payload", viewers, p.payload),
		web.Post(Base+"/events/{evt}/replay", support, p.replayEvent),
		web.Post(Base+"/events/{evt}/cancel", producers, p.cancelEvent),

		web.Get(Base+"/endpoints", viewers, p.endpoints),
		web.Get(Base+"/endpoints/{ep}", viewers, p.endpoint),
		web.Post(Base+"/endpoints/{ep}/pause", support, p.pauseEndpoint),
		web.Post(Base+"/endpoints/{ep}/enable", support, p.enableEndpoint),
		web.Post(Base+"/endpoints/{ep}/rotate", support, p.rotateSecret),
		web.Post(Base+"/endpoints/{ep}/test", support, p.testEndpoint),
		web.Get(Base+"/endpoints/{ep}/replay", support, p.replay),
		web.Post(Base+"/endpoints/{ep}/replay", support, p.postReplay),

		web.Get(Base+"/alerts", viewers, p.alerts),
		web.Get(Base+"/alerts/{alr}", viewers, p.alert),
		web.Post(Base+"/alerts/{alr}/acknowledge", support, p.acknowledgeAlert),
		web.Post(Base+"/alerts/{alr}/resolve", support, p.resolveAlert),

		web.Get(Base+"/tenants", viewers, p.tenants),
		web.Get(Base+"/tenants/new", admins, p.newTenant),
		web.Post(Base+"/tenants", admins, p.createTenant),
		web.Get(Base+"/tenants/{ten}", viewers, p.tenant),
		web.Get(Base+"/tenants/{ten}/edit", admins, p.editTenant),
		web.Post(Base+"/tenants/{ten}", admins, p.updateTenant),
		web.Post(Base+"/tenants/{ten}/delete", admins, p.deleteTenant),
		web.Post(Base+"/tenants/{ten}/portal", support, p.portalLink),

		web.Get(Base+"/tenants/{ten}/schedules", viewers, p.schedules),
		web.Get(Base+"/schedules/{sch}", viewers, p.schedule),
		web.Post(Base+"/schedules/{sch}/pause", producers, p.pauseSchedule),
		web.Post(Base+"/schedules/{sch}/resume", producers, p.resumeSchedule),
		web.Post(Base+"/schedules/{sch}/run", producers, p.runSchedule),

		web.Get(Base+"/api-keys", admins, p.apiKeys),
		web.Get(Base+"/api-keys/new", admins, p.newKey),
		web.Post(Base+"/api-keys", admins, p.createKey),
		web.Get(Base+"/api-keys/{key}", admins, p.apiKey),
		web.Post(Base+"/api-keys/{key}/revoke", admins, p.revokeKey),

		web.Get(Base+"/audit-log", admins, p.auditLog),

		web.Get(Base+"/event-types", viewers, p.eventTypes),
		web.Get(Base+"/new-event-type", admins, p.newEventType),
		web.Post(Base+"/new-event-type", admins, p.putEventType),
		web.Get(Base+"/event-types/{type}", viewers, p.eventType),
		web.Post(Base+"/event-types/{type}", admins, p.putEventType),
		web.Post(Base+"/event-types/{type}/delete", admins, p.deleteEventType),

		web.Get(Base+"/jobs", viewers, p.jobs),
		web.Get(Base+"/jobs/{job}", viewers, p.job),
		web.Post(Base+"/jobs/{job}/cancel", support, p.cancelJob),
	}
}
