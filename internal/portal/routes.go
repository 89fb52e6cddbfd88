package portal

import "github.com/postrider/postrider/internal/web"

// sections are the entries of the navigation.
var sections = []navEntry{
	{Section: "endpoints", Label: "Endpoints", Icon: "endpoint", Path: Base + "/"},
}

// routes is every page. What changes something is a POST, and only that; each but those that stand before a session is for who
// may write.
func (p *pages) routes() []web.Route {
	return []web.Route{
		web.Get(Base+"/theme.css", web.Anyone, p.theme.show),
		web.Get(Base+"/logo", web.Anyone, p.logo.show),
		web.Get(Base+"/enter", web.Anyone, p.enter),
		web.Post(Base+"/enter", web.Anyone, p.postEnter),
		web.Post(Base+"/signout", web.Anyone, p.signout),
		web.Get(Base+"/left", web.Anyone, p.left),

		web.Get(Base+"/{$}", web.Visitor, p.endpoints),
	}
}
