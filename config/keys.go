package config

import (
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/duration"
	"github.com/rs/zerolog"
)

// key is one row of the table below: all that the package knows about one key.
type key struct {
	name   string                        // as in the file, with dots: http.addr
	def    string                        // the default, spelled as an operator would; "" if there is none
	usage  string                        // one line for --help and the example file, with unit and range
	arg    string                        // what --help calls the value
	list   bool                          // several values, so a YAML list will do as well
	secret bool                          // never repeated in an error, never printed
	split  func(text string) []string    // what was written as one text, in values
	parse  func(*Config, []string) error // puts the values into their field
	value  func(*Config) any             // the field itself
	show   func(*Config) any             // the field for people and JSON: string, []string, bool, a number; redacted
	check  func(*Config) error           // the rule the value keeps for itself; nil if parsing says it all
}

// env is the environment variable of the key.
func (k key) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(k.name, ".", "_"))
}

// entry makes a row whose value has the form of k and lives in the field that at points to.
func entry[T any](name, def, usage string, k kind[T], at func(*Config) *T, checks ...func(T) error) key {
	return key{
		name: name, def: def, usage: usage,
		arg: k.arg, list: k.list, secret: k.secret, split: k.split,
		parse: func(c *Config, items []string) error {
			value, err := k.parse(items)
			if err != nil {
				return err
			}
			*at(c) = value
			return nil
		},
		value: func(c *Config) any { return *at(c) },
		show:  func(c *Config) any { return k.show(*at(c)) },
		check: func(c *Config) error {
			for _, check := range checks {
				if err := check(*at(c)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// keys is every key there is, in the order of the example file. Flags, environment variables, defaults, the file's
// check for unknown keys, validation and printing all follow from it.
var keys = []key{
	entry("http.addr", "127.0.0.1:8080", "host:port of the API, its reference (/docs) and the health checks; no host means every address",
		textKind("address"), func(c *Config) *string { return &c.HTTP.Addr }, checkAddr),
	entry("http.public_url", "", "where browsers reach the process, such as https://hooks.example.com; none means http:// and http.addr",
		textKind("url"), func(c *Config) *string { return &c.HTTP.PublicURL }, optional(checkOrigin)),
	entry("http.trusted_proxies", "", "CIDRs of proxies in front of the API, whose X-Forwarded-For says who a client is; none: whoever connects",
		listOf(prefixKind, splitWords), func(c *Config) *[]netip.Prefix { return &c.HTTP.TrustedProxies }),
	entry("http.max_connections", "4096", "connections of clients open at once, 16 to 1000000; each is a file descriptor",
		intKind[int]("number"), func(c *Config) *int { return &c.HTTP.MaxConnections }, within(16, 1_000_000, nil)),
	entry("metrics.addr", "", "host:port of /metrics alone; none means on http.addr",
		textKind("address"), func(c *Config) *string { return &c.Metrics.Addr }, optional(checkAddr)),

	entry("database.url", "", "PostgreSQL to keep everything in: postgres://user:password@host:5432/database",
		databaseURLKind, func(c *Config) *string { return &c.Database.URL }, optional(checkDatabaseURL)),
	entry("database.pooler", PoolerNone, "what database.url leads to: none, which is PostgreSQL itself, or transaction, a pooler such as PgBouncer in that mode",
		textKind("pooler"), func(c *Config) *string { return &c.Database.Pooler }, oneOf(PoolerNone, PoolerTransaction)),
	entry("database.direct_url", "", "the same database past the pooler, for LISTEN and migrate; none: new work of other processes is found within a second",
		databaseURLKind, func(c *Config) *string { return &c.Database.DirectURL }, optional(checkDatabaseURL)),
	entry("database.max_conns", "16", "connections of this process, 1 to 1000; beyond 16 little is gained",
		intKind[int32]("number"), func(c *Config) *int32 { return &c.Database.MaxConns }, within[int32](1, 1000, nil)),
	entry("database.migrate_on_start", "false", "true: serve brings an older schema up to date; false: it stops with one line",
		boolKind, func(c *Config) *bool { return &c.Database.MigrateOnStart }),

	entry("log.level", "info", "least level that is logged: trace, debug, info, warn, error, fatal, panic or disabled",
		levelKind, func(c *Config) *zerolog.Level { return &c.Log.Level }),
	entry("log.format", LogJSON, "json, or console for people",
		textKind("format"), func(c *Config) *string { return &c.Log.Format }, oneOf(LogJSON, LogConsole)),

	entry("tracing.endpoint", "", "OpenTelemetry collector that traces go to by OTLP over HTTP, such as http://127.0.0.1:4318; none means that nothing is traced",
		textKind("url"), func(c *Config) *string { return &c.Tracing.Endpoint }, optional(checkCollector)),
	entry("tracing.sample", "1", "share of the traces that begin here, 0 to 1; of one that a caller began, the caller decides",
		fractionKind, func(c *Config) *float64 { return &c.Tracing.Sample }, within[float64](0, 1, nil)),
	entry("tracing.headers", "", "headers of the exports, name=value each, such as authorization=Bearer …",
		tracingHeaderKind, func(c *Config) *[]TracingHeader { return &c.Tracing.Headers }),
	entry("tracing.service_name", "postrider", "what the process is called in traces",
		textKind("name"), func(c *Config) *string { return &c.Tracing.ServiceName }, checkNotEmpty),

	entry("secrets.keys", "", "keys that encrypt endpoints' secrets, base64 of 32 bytes each (openssl rand -base64 32); the first encrypts, all decrypt",
		secretKeyKind, func(c *Config) *[][32]byte { return &c.Secrets.Keys }, checkDistinct),
	entry("secrets.key_file", "", "file with the secrets.keys instead, one a line; other users of the machine must have no access to it",
		textKind("file"), func(c *Config) *string { return &c.Secrets.KeyFile }),

	entry("delivery.retry_schedule", "1m,5m,30m,2h,6h", "delays before the retries, 1 to 50 of them, 1ms to 30d each",
		listOf(durationKind, splitWords), func(c *Config) *[]time.Duration { return &c.Delivery.RetrySchedule },
		between[time.Duration](1, 50, "delay"), each(within(time.Millisecond, 30*duration.Day, duration.Format))),
	entry("delivery.retry_jitter", "0.1", "share of a delay that is added to it at most, 0 to 1",
		fractionKind, func(c *Config) *float64 { return &c.Delivery.RetryJitter }, within[float64](0, 1, nil)),
	entry("delivery.timeout", "15s", "longest time for an attempt as a whole, 1ms to 1h",
		durationKind, func(c *Config) *time.Duration { return &c.Delivery.Timeout }, within(time.Millisecond, time.Hour, duration.Format)),
	entry("delivery.connect_timeout", "5s", "longest time for DNS, connecting and TLS of an attempt, 1ms to delivery.timeout",
		durationKind, func(c *Config) *time.Duration { return &c.Delivery.ConnectTimeout }, within(time.Millisecond, time.Hour, duration.Format)),
	entry("delivery.max_in_flight", "1024", "attempts at once in this process, 1 to 65536",
		intKind[int]("number"), func(c *Config) *int { return &c.Delivery.MaxInFlight }, within(1, 65536, nil)),
	entry("delivery.max_in_flight_per_endpoint", "32", "attempts at once to one endpoint, 1 to delivery.max_in_flight",
		intKind[int]("number"), func(c *Config) *int { return &c.Delivery.MaxInFlightPerEndpoint }, within(1, 65536, nil)),
	entry("delivery.lease", "60s", "time after which an attempt whose process died is tried again, at least twice the longest timeout, up to 1d",
		durationKind, func(c *Config) *time.Duration { return &c.Delivery.Lease }, within(time.Millisecond, duration.Day, duration.Format)),
	entry("delivery.response_body_limit", "16KiB", "bytes of an answer that are read and kept, 1B to 16MiB",
		sizeKind, func(c *Config) *int64 { return &c.Delivery.ResponseBodyLimit }, within(1, 16<<20, formatSize)),
	entry("delivery.allow_http", "false", "true: endpoints may have http:// URLs; false: https:// only",
		boolKind, func(c *Config) *bool { return &c.Delivery.AllowHTTP }),
	entry("delivery.allow_networks", "", "CIDRs that deliveries may go to although they are private, such as 10.1.0.0/16,fd00:1::/64",
		listOf(prefixKind, splitWords), func(c *Config) *[]netip.Prefix { return &c.Delivery.AllowNetworks }),
	entry("delivery.deny_networks", "", "CIDRs that deliveries may not go to although they are public",
		listOf(prefixKind, splitWords), func(c *Config) *[]netip.Prefix { return &c.Delivery.DenyNetworks }),
	entry("delivery.allow_ports", "80,443,1024-65535", "ports that deliveries may go to, 1 to 65535, single or as ranges",
		listOf(portsKind, splitWords), func(c *Config) *[]PortRange { return &c.Delivery.AllowPorts },
		between[PortRange](1, 1000, "port or range"), each(checkPorts)),
	entry("delivery.proxy_url", "", "proxy that deliveries go through: http://, https:// or socks5://[user:password@]host:port",
		proxyURLKind, func(c *Config) **url.URL { return &c.Delivery.ProxyURL }, checkProxyURL),
	entry("delivery.disable_after", "5d", "an endpoint whose every attempt failed for this long is disabled; 0 means never",
		durationKind, func(c *Config) *time.Duration { return &c.Delivery.DisableAfter }, within(0, maxSpan, duration.Format)),

	entry("events.max_payload", "1MiB", "bytes of the largest payload that is accepted, 1B to 256MiB",
		sizeKind, func(c *Config) *int64 { return &c.Events.MaxPayload }, within(1, 256<<20, formatSize)),

	entry("retention.events", "30d", "time that finished events and their payloads are kept, 1d to 3650d; a tenant may have its own",
		durationKind, func(c *Config) *time.Duration { return &c.Retention.Events }, within(minHistory, maxHistory, duration.Format)),
	entry("retention.attempts", "30d", "time that attempts are kept, 1d to 3650d; a tenant may have its own; deliveries are kept for the longer of both",
		durationKind, func(c *Config) *time.Duration { return &c.Retention.Attempts }, within(minHistory, maxHistory, duration.Format)),
	entry("retention.idempotency_keys", "24h", "time that Idempotency-Keys are kept, above 0; producers are promised 24h",
		durationKind, func(c *Config) *time.Duration { return &c.Retention.IdempotencyKeys }, within(1, maxSpan, duration.Format)),
	entry("retention.audit_log", "365d", "time that entries of the audit log are kept, above 0",
		durationKind, func(c *Config) *time.Duration { return &c.Retention.AuditLog }, within(1, maxSpan, duration.Format)),

	entry("alerts.after_failures", "5", "failed attempts of one delivery that raise an alert, 1 or more",
		intKind[int]("number"), func(c *Config) *int { return &c.Alerts.AfterFailures }, within(1, 1<<31-1, nil)),
	entry("alerts.urls", "", "service URLs of shoutrrr that alerts are sent to: slack://, smtp://, generic:// and so on",
		alertURLKind, func(c *Config) *[]string { return &c.Alerts.URLs }),
	entry("alerts.throttle", "20/10m", "messages that one of alerts.urls gets in a time before it gets one a minute, 1/1m to 10000/1d",
		throttleKind, func(c *Config) *Throttle { return &c.Alerts.Throttle }, checkThrottle),
	entry("alerts.mail_url", "", "SMTP server for mail to tenants' contact_email: smtp:// or smtps://[user:password@]host[:port]/?from=hooks@example.com; none means no mail",
		mailURLKind, func(c *Config) *string { return &c.Alerts.MailURL }, optional(checkMailURL)),
	entry("alerts.tenant", "", "id or uid of the tenant that gets alerts about all others as events, endpoint.dead and so on; none means nobody",
		textKind("tenant"), func(c *Config) *string { return &c.Alerts.Tenant }, optional(checkReference)),
	entry("alerts.digest", "", "when alerts.urls get a summary of the alerts, a cron expression such as 0 9 * * 1-5; none means never",
		textKind("cron"), func(c *Config) *string { return &c.Alerts.Digest }, optional(checkCron)),
	entry("alerts.digest_timezone", "UTC", "time zone of alerts.digest, such as Europe/Berlin",
		textKind("zone"), func(c *Config) *string { return &c.Alerts.DigestTimezone }, checkZone),

	entry("watch.max_due_age", "2m", "time after which a delivery that could be sent and is not raises an alert, 1s to 30d; 0 means never",
		durationKind, func(c *Config) *time.Duration { return &c.Watch.MaxDueAge }, orZero(within(time.Second, 30*duration.Day, duration.Format))),
	entry("watch.min_dispatchers", "1", "dispatchers at work below which there is an alert, 0 to 512",
		intKind[int]("number"), func(c *Config) *int { return &c.Watch.MinDispatchers }, within(0, 512, nil)),
	entry("watch.dead_after", "30s", "time without a sign of life after which a process, or what it does, counts as dead, 2s to 10m; the same in all of them",
		durationKind, func(c *Config) *time.Duration { return &c.Watch.DeadAfter }, within(2*time.Second, 10*time.Minute, duration.Format)),
	entry("canary.enabled", "false", "true: Postrider sends itself an event again and again, and raises an alert when none comes through; false: it does not",
		boolKind, func(c *Config) *bool { return &c.Canary.Enabled }),
	entry("canary.every", "1m", "how often, by all processes together, 1s to 1h",
		durationKind, func(c *Config) *time.Duration { return &c.Canary.Every }, within(time.Second, time.Hour, duration.Format)),
	entry("canary.url", "", "where dispatchers reach a process with the role api, such as http://10.0.0.5:8080; none means http.public_url",
		textKind("url"), func(c *Config) *string { return &c.Canary.URL }, optional(checkOrigin)),

	entry("console.session", "12h", "longest time for which somebody stays signed in to the console, 5m to 30d; 2h without a request end it sooner",
		durationKind, func(c *Config) *time.Duration { return &c.Console.Session }, within(5*time.Minute, 30*duration.Day, duration.Format)),
	entry("console.oidc.issuer", "", "OpenID provider that people may sign in to the console through, such as https://id.example.com; none means by API key alone",
		textKind("url"), func(c *Config) *string { return &c.Console.OIDC.Issuer }, optional(checkIssuer)),
	entry("console.oidc.client_id", "", "the console's name at the provider; its redirect URI is http.public_url and /console/oidc/callback",
		textKind("text"), func(c *Config) *string { return &c.Console.OIDC.ClientID }),
	entry("console.oidc.client_secret", "", "the console's secret at the provider; none means a public client, with PKCE alone",
		adminKeyKind, func(c *Config) *string { return &c.Console.OIDC.ClientSecret }, checkTrimmed),
	entry("console.oidc.scopes", "openid,profile,email", "scopes that the provider is asked for, openid among them",
		listOf(textKind("scope"), splitWords), func(c *Config) *[]string { return &c.Console.OIDC.Scopes }, checkScopes),
	entry("console.oidc.role_claim", "groups", "claim of the ID token, a text or a list of them, that says what somebody may do",
		textKind("claim"), func(c *Config) *string { return &c.Console.OIDC.RoleClaim }, checkNotEmpty),
	entry("console.oidc.viewers", "", "values of that claim with which somebody may look at everything",
		listOf(textKind("value"), splitCommas), func(c *Config) *[]string { return &c.Console.OIDC.Viewers }, each(checkNotEmpty)),
	entry("console.oidc.support", "", "values of that claim with which somebody may retry, cancel and mend endpoints as well",
		listOf(textKind("value"), splitCommas), func(c *Config) *[]string { return &c.Console.OIDC.Support }, each(checkNotEmpty)),
	entry("console.oidc.admins", "", "values of that claim with which somebody may do everything; of several roles the highest counts, without any nobody gets in",
		listOf(textKind("value"), splitCommas), func(c *Config) *[]string { return &c.Console.OIDC.Admins }, each(checkNotEmpty)),

	entry("portal.name", "Webhooks", "what tenants' portals are called, 1 to 80 characters",
		textKind("text"), func(c *Config) *string { return &c.Portal.Name }, checkTitle),
	entry("portal.logo_file", "", "logo of the portals, an .svg or .png file of up to 256KiB; none means the name alone",
		textKind("file"), func(c *Config) *string { return &c.Portal.LogoFile }, optional(checkLogo)),
	entry("portal.accent", "", "colour of the portals' buttons and links, #rrggbb; none means the console's",
		textKind("colour"), func(c *Config) *string { return &c.Portal.Accent }, optional(checkColour)),
	entry("portal.frame_ancestors", "", "origins whose pages may show a portal in a frame, such as https://app.example.com; none means nobody's",
		listOf(textKind("origin"), splitWords), func(c *Config) *[]string { return &c.Portal.FrameAncestors }, each(checkOrigin)),
	entry("portal.session", "1h", "time for which somebody stays in a portal after using a link, 1m to 1d",
		durationKind, func(c *Config) *time.Duration { return &c.Portal.Session }, within(time.Minute, duration.Day, duration.Format)),

	entry("bootstrap.admin_key", "", "an admin API key that exists from the first start, 8 or more printable ASCII characters, no blanks",
		adminKeyKind, func(c *Config) *string { return &c.Bootstrap.AdminKey }, optional(checkAdminKey)),
}

// maxSpan bounds what is compared with clock times, so that now minus the span stays a date PostgreSQL can hold.
const maxSpan = 36500 * duration.Day

// History is kept in days. The bounds are those of tenants' own times, too.
const (
	minHistory = duration.Day
	maxHistory = 3650 * duration.Day
)

// lookup finds a key by its name.
func lookup(name string) (key, bool) {
	for _, k := range keys {
		if k.name == name {
			return k, true
		}
	}
	return key{}, false
}

// isSection reports whether keys lie below name, as below "http" and "delivery".
func isSection(name string) bool {
	for _, k := range keys {
		if strings.HasPrefix(k.name, name+".") {
			return true
		}
	}
	return false
}

// defaults is the configuration that nobody touched.
func defaults() Config {
	var c Config
	for _, k := range keys {
		if err := k.parse(&c, k.split(k.def)); err != nil {
			panic("config: the default of " + k.name + ": " + err.Error()) // a mistake in the table above; any test shows it
		}
	}
	return c
}

// isDefault reports whether the field of k holds what its default means, however that was spelled.
func (k key) isDefault(c *Config) bool {
	standard := defaults()
	return reflect.DeepEqual(k.value(c), k.value(&standard))
}
