// Package config is what an operator may set: the keys, their defaults, where a value came from, and whether the whole
// makes sense. A flag wins over the environment, that over the file, that over the default.
//
// Load reads the layers and parses each value; Validate judges ranges and how values fit together; Print shows the
// result. All three report every fault at once, one line each. The package opens no connection, starts nothing and
// reads no file but postrider.yaml and the key file. Only package main imports it: the other packages take plain values.
package config

import (
	"net/netip"
	"net/url"
	"time"

	"github.com/rs/zerolog"
)

// Config is the effective configuration, nested as the keys are: HTTP.Addr is http.addr. A zero value is not a usable
// one; Load fills in the defaults. What is secret is left out of JSON, and fmt prints it redacted.
type Config struct {
	HTTP      HTTP
	Metrics   Metrics
	Database  Database
	Log       Log
	Tracing   Tracing
	Secrets   Secrets
	Delivery  Delivery
	Events    Events
	Retention Retention
	Alerts    Alerts
	Watch     Watch
	Canary    Canary
	Console   Console
	Portal    Portal
	Bootstrap Bootstrap

	origins      map[string]origin // by key; a key that is not here has its default
	keysFromFile bool              // Secrets.Keys were read from Secrets.KeyFile
	keyFileFault *Fault            // why they could not be: only a command that needs the keys minds
}

// HTTP is where the API, its reference and the health checks are served.
type HTTP struct {
	Addr           string         // host:port; an empty host is every address, port 0 any free port
	PublicURL      string         // where browsers reach it: scheme and host; "": http and Addr
	TrustedProxies []netip.Prefix // whose X-Forwarded-For says who a client is
	MaxConnections int            // open at once
}

// Metrics is where /metrics is served.
type Metrics struct {
	Addr string // host:port, or "" for on HTTP.Addr
}

// Database is the PostgreSQL everything is kept in.
type Database struct {
	URL            string `json:"-"` // postgres://…, with a password as a rule
	DirectURL      string `json:"-"` // the same past a pooler; "": none
	Pooler         string // PoolerNone or PoolerTransaction: what URL leads to
	MaxConns       int32  // of this process
	MigrateOnStart bool   // else serve stops on an older schema
}

// What may stand between us and PostgreSQL.
const (
	PoolerNone        = "none"
	PoolerTransaction = "transaction" // PgBouncer or the like, which lends a connection for a transaction
)

// Pooled reports whether a connection is ours for no longer than a transaction.
func (d Database) Pooled() bool { return d.Pooler == PoolerTransaction }

// SessionURL leads to connections that are ours for as long as we keep them; "" if there is no way to such.
func (d Database) SessionURL() string {
	if d.DirectURL != "" || d.Pooled() {
		return d.DirectURL
	}
	return d.URL
}

// Log says what is logged, and how.
type Log struct {
	Level  zerolog.Level
	Format string // LogJSON or LogConsole
}

// The forms of a log line.
const (
	LogJSON    = "json"
	LogConsole = "console"
)

// Tracing is where spans go.
type Tracing struct {
	Endpoint    string          // of the collector: an http or https URL; "": nothing is traced
	Sample      float64         // the share of the traces that begin here
	Headers     []TracingHeader `json:"-"` // of the exports; their values are tokens
	ServiceName string
}

// TracingHeader is a header of the exports.
type TracingHeader struct{ Name, Value string }

// Secrets are the keys that endpoints' secrets are encrypted with.
type Secrets struct {
	Keys    [][32]byte `json:"-"` // the first encrypts, all decrypt; filled from KeyFile where that is what is set
	KeyFile string     // "" if the keys were given themselves
}

// Delivery is how deliveries are tried, and where they may go.
type Delivery struct {
	RetrySchedule          []time.Duration // the delay before each retry, counted from the end of the failed attempt
	RetryJitter            float64         // the share of a delay that is added at most: 0.1 is up to 10 %
	Timeout                time.Duration   // of a whole attempt
	ConnectTimeout         time.Duration   // of DNS, connecting and the TLS handshake together
	MaxInFlight            int             // attempts at once in this process
	MaxInFlightPerEndpoint int
	Lease                  time.Duration // after this long an attempt whose process died is tried again
	ResponseBodyLimit      int64         // bytes of an answer that are read and kept
	AllowHTTP              bool
	AllowNetworks          []netip.Prefix
	DenyNetworks           []netip.Prefix
	AllowPorts             []PortRange
	ProxyURL               *url.URL      `json:"-"` // nil: no proxy
	DisableAfter           time.Duration // an endpoint whose every attempt failed for this long is disabled; 0: never
}

// Events are the limits of what is accepted.
type Events struct {
	MaxPayload int64 // bytes
}

// Retention is how long rows are kept.
type Retention struct {
	Events          time.Duration
	Attempts        time.Duration
	IdempotencyKeys time.Duration
	AuditLog        time.Duration
}

// Alerts is when and how people are told.
type Alerts struct {
	AfterFailures int      // failed attempts of one delivery
	URLs          []string `json:"-"` // service URLs of shoutrrr; their tokens are in them
	Throttle      Throttle
	MailURL       string `json:"-"` // of an SMTP server, for mail to tenants; "": they get none
	Tenant        string // id or uid of the operator's own, which gets alerts as events; "": nobody
	Digest        string // a cron expression; "": never
	// DigestTimezone is the zone that Digest is of, unless it names one itself.
	DigestTimezone string
}

// Throttle is how many messages there may be in a time.
type Throttle struct {
	Messages int
	Per      time.Duration
}

// Watch is when the service itself is worth an alert.
type Watch struct {
	MaxDueAge      time.Duration // 0: never
	MinDispatchers int
	DeadAfter      time.Duration
}

// Canary is an event that the service sends itself.
type Canary struct {
	Enabled bool
	Every   time.Duration
	URL     string // "": http.public_url
}

// Console is how support staff sign in.
type Console struct {
	Session time.Duration // at most
	OIDC    OIDC
}

// OIDC is the OpenID provider that people may sign in through, beside API keys. The zero Issuer: there is none.
type OIDC struct {
	Issuer       string
	ClientID     string
	ClientSecret string `json:"-"` // "": a public client
	Scopes       []string
	RoleClaim    string   // the claim that says what groups somebody is in
	Viewers      []string // values of that claim
	Support      []string
	Admins       []string
}

// Portal is how tenants' portals look, and who may show them.
type Portal struct {
	Name           string
	LogoFile       string // "": none
	Accent         string // #rrggbb; "": the portal's own
	FrameAncestors []string
	Session        time.Duration // after a link was used
}

// Bootstrap is what exists from the first start.
type Bootstrap struct {
	AdminKey string `json:"-"` // an API key with the scope admin; "" for none
}
