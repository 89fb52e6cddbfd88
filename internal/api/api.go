// Package api is the HTTP API of CONTRACT §3: it reads requests, asks the packages that know, and writes answers. Every
// route is in the table of routes.go; what stands before a route is in gate.go, what holds for all answers in edge.go.
// Enqueues, which are nearly all there is to do, have a shorter way beside the general one: enqueue_quick.go.
//
// It decides nothing about tenants, events or deliveries, runs no SQL and sends nothing. It starts no server and sets no
// limits on connections: that is up to whoever serves the handler. Its word for what went wrong is the fault of the
// packages below; problem.go makes the answer of it.
package api

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/internal/schedules"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/internal/watch"
	"github.com/postrider/postrider/subscriptions"
)

// Deps are what the API works with. All are needed, except Pages and where said.
type Deps struct {
	Subscriptions *subscriptions.Store
	Intake        *intake.Intake
	Deliveries    *dispatcher.Desk
	Pull          *dispatcher.Pull
	Alerts        *alert.Desk
	Jobs          *jobs.Jobs
	Schedules     *schedules.Schedules
	Keys          *auth.Keys
	Sessions      *auth.Sessions
	Audit         *audit.Log
	Stats         *stats.Reader
	Door          *auth.Door // who gets in with which key; nil: one that tells nobody of failures

	Wake func(shard int16) // tells dispatchers that there may be due work; nil: they find out by themselves
	// Pages are handlers beside the API, by patterns of http.ServeMux such as "/console/". What holds for all answers holds for
	// theirs; their Content-Security-Policy is their own to set.
	Pages map[string]http.Handler

	// Processes gives all processes on the database; nil: none is known of.
	Processes func(context.Context) (watch.Fleet, error)
	// Standing names the part of this process that does not get on, for /readyz, and Hanging the one that only a restart helps, for
	// /livez; "": there is none. Nil: nobody watches.
	Standing, Hanging func() string
	Ping              func(context.Context) error // whether the database answers, for /readyz
	Metrics           prometheus.Gatherer         // what /metrics shows; nil: nothing is there (it is bound to another address)
	Requests          Requests                    // counts them; nil: nobody does
	Logger            zerolog.Logger
	Tracer            Tracer // nil: nothing is traced

	// TrustedProxies are the peers whose X-Forwarded-For is believed. None: a client is who connects.
	TrustedProxies []netip.Prefix

	PublicURL string // where browsers reach the process: scheme and host, as http.public_url

	AddressClass func(netip.Addr) string // what a tenant may know of an address that was dialled; nil: nothing

	Bodies     BodyPace // how fast a request's body has to come
	MaxPayload int64    // bytes, as events.max_payload
	// Stopping is closed when the server begins to stop, so that nobody's wait holds it up; nil: it never does.
	Stopping <-chan struct{}
	// EmptyAfter is how long a search looks for the first thing of a page before the page comes empty; 0: a second.
	EmptyAfter time.Duration
	Version    string // of Postrider, for the documentation
}

type server struct {
	d      Deps
	logger zerolog.Logger
	mux    *http.ServeMux
	api    huma.API

	quick    *quick          // nil where nothing is enqueued
	enqueues map[string]bool // patterns
	tenants  uids
	waiting  chan struct{} // one in it for each request that waits for an event
}

// New makes the API's handler. It starts nothing.
func New(d Deps) http.Handler {
	if d.Wake == nil {
		d.Wake = func(int16) {}
	}
	if d.Door == nil {
		d.Door = auth.NewDoor(d.Keys, auth.DoorOptions{})
	}
	if d.EmptyAfter == 0 {
		d.EmptyAfter = usualEmptyAfter
	}
	if d.AddressClass == nil {
		d.AddressClass = func(netip.Addr) string { return "unknown" }
	}
	s := newServer(d)
	s.register()
	s.quick = newQuick(s.groups())
	s.expectRequests()
	return s
}

// NewHealth makes the handler of a process that takes no requests but is watched over all the same: the health checks
// and /metrics, where all else is a 404. Of the dependencies it needs Ping, Metrics and Logger alone.
func NewHealth(d Deps) http.Handler {
	s := newServer(d)
	s.registerGroup(s.health())
	if d.Metrics != nil {
		s.mux.Handle(metricsPattern, s.metrics())
	}
	return s
}

// Requests counts the requests that were answered.
type Requests interface {
	ExpectRoutes(patterns ...string) // those that are counted by themselves
	Request(pattern string, status int)
	Enqueued(took time.Duration)
}

func (s *server) expectRequests() {
	s.enqueues = map[string]bool{s.quick.raw.pattern: true, s.quick.batch.pattern: true, s.quick.single.pattern: true}
	if s.d.Requests == nil {
		return
	}
	for _, g := range s.groups() {
		for _, rt := range g.routes {
			s.d.Requests.ExpectRoutes(rt.method + " " + rt.path)
		}
	}
}

func newServer(d Deps) *server {
	d.Bodies = d.Bodies.orUsual()
	nothing := func() string { return "" }
	if d.Standing == nil {
		d.Standing = nothing
	}
	if d.Hanging == nil {
		d.Hanging = nothing
	}
	if d.Processes == nil {
		d.Processes = func(context.Context) (watch.Fleet, error) { return watch.Fleet{}, nil }
	}
	s := &server{d: d, logger: d.Logger, mux: http.NewServeMux(), waiting: make(chan struct{}, mostWaiting)}
	s.api = newHuma(s.mux, d.Version)
	return s
}
