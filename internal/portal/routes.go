package portal

import "github.com/postrider/postrider/internal/web"

// sections are the entries of the navigation.
var sections = []navEntry{
	{Section: "endpoints", Label: "Endpoints", Icon: "endpoint", Path: Base + "/"},
	{Section: "deliveries", Label: "Deliveries", Icon: "list", Path: Base + "/deliveries"},
	{Section: "event-types", Label: "Event types", Icon: "book", Path: Base + "/event-types"},
}

// routes is every page. What changes something is a POST, and only that; each but those that stand before a session is for who
// may write.
func (p *pages) routes() []web.Route {
	return []web.Route{
		web.File(Base+"/theme.css", p.theme.show),
		web.File(Base+"/logo", p.logo.show),
		web.Get(Base+"/enter", web.Anyone, p.enter),
		web.Post(Base+"/enter", web.Anyone, p.postEnter),
		web.Post(Base+"/signout", web.Anyone, p.signout),
		web.Get(Base+"/left", web.Anyone, p.left),

		web.Get(Base+"/{$}", web.Visitor, p.endpoints),
		web.Get(Base+"/endpoints", web.Visitor, p.endpoints),
		web.Get(Base+"/endpoints/new", web.Writer, p.newEndpoint),
		web.Post(Base+"/endpoints", web.Writer, p.createEndpoint),
		web.Post(Base+"/endpoints/check", web.Writer, p.checkURL),
		web.Post(Base+"/endpoints/try", web.Writer, p.tryFilter),

		web.Get(Base+"/endpoints/{ep}", web.Visitor, p.endpoint),
		web.Get(Base+"/endpoints/{ep}/settings", web.Writer, p.settings),
		web.Post(Base+"/endpoints/{ep}/settings", web.Writer, p.saveSettings),
		web.Post(Base+"/endpoints/{ep}/settings/try", web.Writer, p.tryFilter),
		web.Post(Base+"/endpoints/{ep}/status", web.Writer, p.setStatus),
		web.Post(Base+"/endpoints/{ep}/delete", web.Writer, p.deleteEndpoint),
		web.Get(Base+"/endpoints/{ep}/signing", web.Visitor, p.signing),
		web.Post(Base+"/endpoints/{ep}/secret", web.Writer, p.revealSecret),
		web.Post(Base+"/endpoints/{ep}/rotate", web.Writer, p.rotateSecret),
		web.Get(Base+"/endpoints/{ep}/test", web.Writer, p.testEvent),
		web.Post(Base+"/endpoints/{ep}/test", web.Writer, p.sendTest),
		web.Get(Base+"/endpoints/{ep}/replay", web.Writer, p.replay),
		web.Post(Base+"/endpoints/{ep}/replay", web.Writer, p.postReplay),
		web.Get(Base+"/jobs/{job}", web.Visitor, p.job),
		web.Post(Base+"/jobs/{job}/cancel", web.Writer, p.cancelJob),

		web.Get(Base+"/deliveries", web.Visitor, p.deliveries),
		web.Get(Base+"/deliveries/{dlv}", web.Visitor, p.delivery),
		web.Post(Base+"/deliveries/{dlv}/resend", web.Writer, p.resend),

		web.Get(Base+"/event-types", web.Visitor, p.eventTypes),
		web.Get(Base+"/event-types/{type}", web.Visitor, p.eventType),
	}
}
