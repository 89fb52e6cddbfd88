// Package console is the pages of support staff, under /console: what was sent, what failed and why, and what can be done
// about it. A page is a method of pages in a file of its own, with a template of the same name beside it; every page is in
// the table of routes.go.
//
// It decides nothing about deliveries or endpoints and runs no SQL: it asks the packages that know, and shows. Who is
// signed in and how a page is put together is internal/web's.
package console

import (
	"context"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/internal/oidc"
	"github.com/postrider/postrider/internal/schedules"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/internal/watch"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

// Deps are what the console works with. All are needed, except where said.
type Deps struct {
	Subscriptions *subscriptions.Store
	Intake        *intake.Intake
	Deliveries    *dispatcher.Desk
	Alerts        *alert.Desk
	Keys          *auth.Keys
	Door          *auth.Door
	Sessions      *auth.Sessions
	Audit         *audit.Log
	Jobs          *jobs.Jobs
	Schedules     *schedules.Schedules
	Stats         *stats.Reader
	Processes     func(context.Context) (watch.Fleet, error) // which processes there are
	OIDC          *oidc.OIDC                                 // nil: people sign in with API keys alone

	Wake   func(shard int16) // tells dispatchers that there may be due work
	Now    func() time.Time  // the database's clock
	Logger zerolog.Logger

	// PortalURL is the address at which a link's token opens a tenant's portal.
	PortalURL func(token string) string
	// Schedule is the retry schedule of endpoints without one of their own.
	Schedule  []time.Duration
	UserAgent string // of our requests
	Version   string
}

//go:embed all:templates
var templates embed.FS

// Base is where the console is.
const Base = "/console"

type pages struct{ d Deps }

// New makes the console's handler, for Base and all below it.
func New(d Deps) http.Handler {
	p := &pages{d: d}
	files, err := fs.Sub(templates, "templates")
	if err != nil {
		panic("console: " + err.Error()) // they are part of the program
	}
	return web.New(web.Options{
		Base: Base, Kind: auth.ConsoleSession, Sessions: d.Sessions, Templates: files, Funcs: funcs(), Frame: p.frame,
		Stranger: p.stranger, Now: d.Now, Logger: d.Logger,
	}, p.routes())
}

// site is what the layout shows of the console.
type site struct {
	Nav        []navEntry
	Support    bool // the visitor may act on deliveries and endpoints
	Admin      bool // and on all else
	OpenAlerts int64
	Version    string
}

type navEntry struct {
	Section, Label, Icon, Path string
	Badge                      int64
}

// frame gives the navigation. What is wrong shows on every page.
func (p *pages) frame(v *web.Visit) any {
	if v.Session.ID.IsZero() {
		return site{Version: p.d.Version}
	}
	open, err := p.d.Alerts.CountOpen(v.Ctx())
	if err != nil {
		open = 0 // the page itself says what it cannot read
	}
	s := site{OpenAlerts: open, Version: p.d.Version, Support: v.May(support), Admin: v.May(admins)}
	for _, e := range sections {
		if e.may == nil || v.May(e.may) {
			entry := e.navEntry
			if entry.Section == "alerts" {
				entry.Badge = open
			}
			s.Nav = append(s.Nav, entry)
		}
	}
	return s
}

func funcs() template.FuncMap {
	return template.FuncMap{
		"deliveryID": id.Delivery.Format, "eventID": id.Event.Format, "endpointID": id.Endpoint.Format,
		"tenantID": id.Tenant.Format, "attemptID": id.Attempt.Format, "place": dispatcher.Place, "alertID": id.Alert.Format, "jobID": id.Job.Format, "keyID": id.Key.Format,
		"scheduleID": id.Schedule.Format,
	}
}
