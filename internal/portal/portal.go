// Package portal is the pages of a tenant, under /portal, who comes through a link of its producer's: its endpoints, what was
// sent to them and what came back. A page is a method of pages in a file of its own, with a template of the same name beside
// it; every page is in the table of routes.go.
//
// Whoever is here is an outsider. The session says which one tenant it is, and all that is looked up is looked up as that
// tenant's: what is another's is not there. How the network around Postrider is laid out is not shown. The package decides
// nothing about deliveries or endpoints and runs no SQL.
package portal

import (
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

// Deps are what the portal works with. All are needed, except where said.
type Deps struct {
	Subscriptions *subscriptions.Store
	Intake        *intake.Intake
	Deliveries    *dispatcher.Desk
	Door          *auth.Door // holds up who guesses at links
	Sessions      *auth.Sessions
	Jobs          *jobs.Jobs
	Stats         *stats.Reader

	Wake         func(shard int16)       // tells dispatchers that there may be due work
	AddressClass func(netip.Addr) string // what is shown of an address that was dialled
	Now          func() time.Time        // the database's clock
	Logger       zerolog.Logger

	// Schedule is the retry schedule of endpoints without one of their own.
	Schedule []time.Duration

	Look Look
	// Embedders are the origins that may show the portal in a frame. None: nobody.
	Embedders []string
}

// Look is how the portal appears to whoever runs Postrider's customers.
type Look struct {
	Name     string // of the portal
	Logo     []byte // a picture; nil: none
	LogoType string // its media type
	Accent   string // a colour, #rrggbb; "": our own
}

//go:embed all:templates
var templates embed.FS

// Base is where the portal is.
const Base = "/portal"

type pages struct {
	d        Deps
	theme    file
	logo     file
	counting counting
}

// New makes the portal's handler, for Base and all below it.
func New(d Deps) http.Handler {
	p := &pages{d: d, theme: newFile(Base+"/theme.css", "text/css; charset=utf-8", []byte(theme(d.Look.Accent)))}
	if len(d.Look.Logo) > 0 {
		p.logo = newFile(Base+"/logo", d.Look.LogoType, d.Look.Logo)
	}
	files, err := fs.Sub(templates, "templates")
	if err != nil {
		panic("portal: " + err.Error()) // they are part of the program
	}
	return web.New(web.Options{
		Base: Base, Kind: auth.PortalSession, Sessions: d.Sessions, Templates: files, Funcs: funcs(), Frame: p.frame,
		Embedders: d.Embedders, Stranger: p.stranger, Now: d.Now, Logger: d.Logger,
	}, p.routes())
}

// site is what the layout shows of the portal.
type site struct {
	Name, Theme string
	Logo        string // its address; "": there is none
	Nav         []navEntry
	Tenant      string
	MayWrite    bool
}

type navEntry struct{ Section, Label, Icon, Path string }

func (p *pages) frame(v *web.Visit) any {
	s := site{Name: p.d.Look.Name, Theme: p.theme.url, Logo: p.logo.url}
	if !v.Session.ID.IsZero() {
		s.Nav, s.Tenant, s.MayWrite = sections, v.Session.Principal.Name, v.May(web.Writer)
	}
	return s
}

func funcs() template.FuncMap {
	return template.FuncMap{
		"deliveryID": id.Delivery.Format, "eventID": id.Event.Format, "endpointID": id.Endpoint.Format,
		"jobID": id.Job.Format, "place": dispatcher.Place,
	}
}

// tenant is the visitor's, whose all is that is shown to them.
func (p *pages) tenant(v *web.Visit) (subscriptions.Tenant, error) {
	return p.d.Subscriptions.Tenant(v.Ctx(), id.Tenant.Format(*v.Session.Principal.Tenant))
}
