// Package web is what the console and the portal have in common: how a page is put together and looks, what stands
// before it (the session, the role, the refusal of other origins), and the files that a browser loads with it.
//
// It knows no page and nothing of deliveries, and it runs no SQL. A page is a method of internal/console or
// internal/portal with a template beside it; a fault that it returns is shown by the one page for faults.
package web

import (
	"html/template"
	"io/fs"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/auth"
)

// Act is what answers at a route. A fault that it gives becomes a page that says so.
type Act func(*Visit) error

// Route is one line of a site's table.
type Route struct {
	Pattern string // of http.ServeMux, with its method
	May     Access
	Act     Act
	blind   bool // it is the same for all, so nobody is asked who they are
}

// Get is a page at a path. It changes nothing.
func Get(path string, may Access, act Act) Route {
	return Route{Pattern: "GET " + path, May: may, Act: act}
}

// File is what pages load with them from a path, whoever loads it: no session is looked up for it.
func File(path string, act Act) Route {
	return Route{Pattern: "GET " + path, May: Anyone, Act: act, blind: true}
}

// Post is something that is done at a path.
func Post(path string, may Access, act Act) Route {
	return Route{Pattern: "POST " + path, May: may, Act: act}
}

// Access says whether the visitor may.
type Access func(auth.Session) error

// Anyone is the access of whoever comes, also without a session.
var Anyone Access

// Options are what a site is made of.
type Options struct {
	Base      string // path of its first page, "/console" for example; all of its paths begin with it
	Kind      auth.SessionKind
	Sessions  *auth.Sessions
	Templates fs.FS            // layout.html, what pages share in _*.html, and a file for each page
	Funcs     template.FuncMap // beside those of this package
	// Frame gives what the layout needs of the site's own, for each visit.
	Frame func(*Visit) any
	// Embedders are the origins that may show pages in a frame. None: nobody.
	Embedders []string
	// Stranger answers a visitor without a session, or whose session is over, who asked for a page.
	Stranger Act
	Now      func() time.Time
	Logger   zerolog.Logger
}

// Site is a set of pages under one path, with sessions of their own.
type Site struct {
	o     Options
	mux   *http.ServeMux
	guard *http.CrossOriginProtection
	pages map[string]*template.Template
	csp   string
}

// New makes a site. A template that does not parse is a mistake in the program: it panics, and any test shows it.
func New(o Options, routes []Route) *Site {
	s := &Site{o: o, mux: http.NewServeMux(), guard: http.NewCrossOriginProtection(), csp: policy(o.Embedders)}
	s.pages = parse(o)
	s.guard.SetDenyHandler(s.deny())
	for _, rt := range routes {
		s.mux.Handle(rt.Pattern, s.gate(rt))
	}
	s.mux.Handle(o.Base+"/", s.gate(Route{Act: nowhere}))
	return s
}

// ServeHTTP answers. Requests of other origins that would change something are refused before anything looks at them.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.setHeaders(w.Header())
	s.guard.Handler(s.mux).ServeHTTP(w, r)
}
