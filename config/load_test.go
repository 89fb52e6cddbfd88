package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
)

// sample is a way to write a value and what it has to become.
type sample struct {
	text string
	want any
}

// every key: its field, its default by the contract, and three other values.
var everyKey = []struct {
	name, field           string
	def                   any
	inFile, inEnv, inFlag sample
}{
	{"http.addr", "HTTP.Addr", "127.0.0.1:8080", sample{":80", ":80"}, sample{"[::1]:0", "[::1]:0"}, sample{"host.example:1", "host.example:1"}},
	{"http.public_url", "HTTP.PublicURL", "", sample{"https://a.example", "https://a.example"}, sample{"http://[::1]:80", "http://[::1]:80"}, sample{"http://b:1", "http://b:1"}},
	{
		"http.trusted_proxies", "HTTP.TrustedProxies", []netip.Prefix(nil),
		sample{"10.1.0.0/16", prefixes("10.1.0.0/16")},
		sample{"127.0.0.0/8,::1/128", prefixes("127.0.0.0/8", "::1/128")},
		sample{"fd00::/8", prefixes("fd00::/8")},
	},
	{"http.max_connections", "HTTP.MaxConnections", 4096, sample{"100", 100}, sample{"200", 200}, sample{"300", 300}},
	{"metrics.addr", "Metrics.Addr", "", sample{":9090", ":9090"}, sample{":9091", ":9091"}, sample{":9092", ":9092"}},
	{
		"database.url", "Database.URL", "",
		sample{"postgres://a@h/d", "postgres://a@h/d"},
		sample{"postgres://b:p%40@h1:1,h2:2/d", "postgres://b:p%40@h1:1,h2:2/d"},
		sample{"postgresql:///d?host=/run", "postgresql:///d?host=/run"},
	},
	{"database.pooler", "Database.Pooler", "none", sample{"transaction", "transaction"}, sample{"none", "none"}, sample{"transaction", "transaction"}},
	{
		"database.direct_url", "Database.DirectURL", "",
		sample{"postgres://a@h/d", "postgres://a@h/d"},
		sample{"postgres://b@h/d", "postgres://b@h/d"},
		sample{"postgres://c@h/d", "postgres://c@h/d"},
	},
	{"database.max_conns", "Database.MaxConns", int32(16), sample{"1", int32(1)}, sample{"2", int32(2)}, sample{"3", int32(3)}},
	{"database.migrate_on_start", "Database.MigrateOnStart", false, sample{"true", true}, sample{"false", false}, sample{"true", true}},
	{"log.level", "Log.Level", zerolog.InfoLevel, sample{"debug", zerolog.DebugLevel}, sample{"disabled", zerolog.Disabled}, sample{"warn", zerolog.WarnLevel}},
	{"log.format", "Log.Format", "json", sample{"console", "console"}, sample{"json", "json"}, sample{"console", "console"}},
	{"tracing.endpoint", "Tracing.Endpoint", "", sample{"http://a:1", "http://a:1"}, sample{"https://b", "https://b"}, sample{"http://c/x", "http://c/x"}},
	{"tracing.sample", "Tracing.Sample", 1.0, sample{"0", 0.0}, sample{"0.1", 0.1}, sample{"1", 1.0}},
	{
		"tracing.headers", "Tracing.Headers", []TracingHeader(nil),
		sample{"a=b", []TracingHeader{{"a", "b"}}},
		sample{"a=b=, c = Bearer d", []TracingHeader{{"a", "b="}, {"c", "Bearer d"}}},
		sample{"x-token=t", []TracingHeader{{"x-token", "t"}}},
	},
	{"tracing.service_name", "Tracing.ServiceName", "postrider", sample{"a", "a"}, sample{"b c", "b c"}, sample{"d", "d"}},
	{
		"secrets.keys", "Secrets.Keys", [][32]byte(nil),
		sample{keyA, [][32]byte{fill('A')}},
		sample{keyB + "," + keyA, [][32]byte{fill('B'), fill('A')}},
		sample{keyC, [][32]byte{fill('C')}},
	},
	{"secrets.key_file", "Secrets.KeyFile", "", sample{"/no/1", "/no/1"}, sample{"/no/2", "/no/2"}, sample{"/no/3", "/no/3"}},
	{
		"delivery.retry_schedule", "Delivery.RetrySchedule",
		[]time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour},
		sample{"1s, 2s", []time.Duration{time.Second, 2 * time.Second}},
		sample{"3ms", []time.Duration{3 * time.Millisecond}},
		sample{"1d12h 2d", []time.Duration{36 * time.Hour, 48 * time.Hour}},
	},
	{"delivery.retry_jitter", "Delivery.RetryJitter", 0.1, sample{"0", 0.0}, sample{"0.25", 0.25}, sample{"1", 1.0}},
	{"delivery.timeout", "Delivery.Timeout", 15 * time.Second, sample{"1s", time.Second}, sample{"2s", 2 * time.Second}, sample{"3s", 3 * time.Second}},
	{"delivery.connect_timeout", "Delivery.ConnectTimeout", 5 * time.Second, sample{"1s", time.Second}, sample{"2s", 2 * time.Second}, sample{"3s", 3 * time.Second}},
	{"delivery.max_in_flight", "Delivery.MaxInFlight", 1024, sample{"100", 100}, sample{"200", 200}, sample{"300", 300}},
	{"delivery.max_in_flight_per_endpoint", "Delivery.MaxInFlightPerEndpoint", 32, sample{"1", 1}, sample{"2", 2}, sample{"3", 3}},
	{"delivery.lease", "Delivery.Lease", time.Minute, sample{"90s", 90 * time.Second}, sample{"2m", 2 * time.Minute}, sample{"1d", 24 * time.Hour}},
	{"delivery.response_body_limit", "Delivery.ResponseBodyLimit", int64(16384), sample{"1", int64(1)}, sample{"1kB", int64(1000)}, sample{"1MiB", int64(1 << 20)}},
	{"delivery.allow_http", "Delivery.AllowHTTP", false, sample{"true", true}, sample{"false", false}, sample{"true", true}},
	{
		"delivery.allow_networks", "Delivery.AllowNetworks", []netip.Prefix(nil),
		sample{"10.1.0.0/16", prefixes("10.1.0.0/16")},
		sample{"127.0.0.0/8,::1/128", prefixes("127.0.0.0/8", "::1/128")},
		sample{"fd00::/8", prefixes("fd00::/8")},
	},
	{
		"delivery.deny_networks", "Delivery.DenyNetworks", []netip.Prefix(nil),
		sample{"192.0.2.0/24", prefixes("192.0.2.0/24")},
		sample{"192.0.2.1/32,0.0.0.0/0", prefixes("192.0.2.1/32", "0.0.0.0/0")},
		sample{"2001:db8::/32", prefixes("2001:db8::/32")},
	},
	{
		"delivery.allow_ports", "Delivery.AllowPorts",
		[]PortRange{{80, 80}, {443, 443}, {1024, 65535}},
		sample{"443", []PortRange{{443, 443}}},
		sample{"1-65535", []PortRange{{1, 65535}}},
		sample{"80, 8000-8080", []PortRange{{80, 80}, {8000, 8080}}},
	},
	{
		"delivery.proxy_url", "Delivery.ProxyURL", (*url.URL)(nil),
		sample{"http://p1:1", &url.URL{Scheme: "http", Host: "p1:1"}},
		sample{"https://u:p@p2", &url.URL{Scheme: "https", User: url.UserPassword("u", "p"), Host: "p2"}},
		sample{"socks5://p3:3", &url.URL{Scheme: "socks5", Host: "p3:3"}},
	},
	{"delivery.disable_after", "Delivery.DisableAfter", 120 * time.Hour, sample{"0", time.Duration(0)}, sample{"1d", 24 * time.Hour}, sample{"2s", 2 * time.Second}},
	{"events.max_payload", "Events.MaxPayload", int64(1 << 20), sample{"1KiB", int64(1024)}, sample{"1MB", int64(1e6)}, sample{"256MiB", int64(256 << 20)}},
	{"retention.events", "Retention.Events", 720 * time.Hour, sample{"1d", 24 * time.Hour}, sample{"2d", 48 * time.Hour}, sample{"3d", 72 * time.Hour}},
	{"retention.attempts", "Retention.Attempts", 720 * time.Hour, sample{"1d", 24 * time.Hour}, sample{"2d", 48 * time.Hour}, sample{"3d", 72 * time.Hour}},
	{"retention.idempotency_keys", "Retention.IdempotencyKeys", 24 * time.Hour, sample{"2d", 48 * time.Hour}, sample{"3d", 72 * time.Hour}, sample{"1s", time.Second}},
	{"retention.audit_log", "Retention.AuditLog", 8760 * time.Hour, sample{"2d", 48 * time.Hour}, sample{"3d", 72 * time.Hour}, sample{"1s", time.Second}},
	{"alerts.after_failures", "Alerts.AfterFailures", 5, sample{"1", 1}, sample{"2", 2}, sample{"3", 3}},
	{
		"alerts.urls", "Alerts.URLs", []string(nil),
		sample{"slack://t@c", []string{"slack://t@c"}},
		sample{"smtp://h?to=a@x,b@x,generic://h", []string{"smtp://h?to=a@x,b@x", "generic://h"}},
		sample{"slack://1 slack://2", []string{"slack://1", "slack://2"}},
	},
	{
		"alerts.throttle", "Alerts.Throttle",
		Throttle{20, 10 * time.Minute},
		sample{"1/1m", Throttle{1, time.Minute}},
		sample{"5 / 1h", Throttle{5, time.Hour}},
		sample{"10000/1d", Throttle{10000, 24 * time.Hour}},
	},
	{
		"alerts.mail_url", "Alerts.MailURL", "",
		sample{"smtp://h?from=a@x.example", "smtp://h?from=a@x.example"},
		sample{"smtps://u:p@h:465/?from=a@x.example", "smtps://u:p@h:465/?from=a@x.example"},
		sample{"smtp://h/?from=a@x.example&tls=none", "smtp://h/?from=a@x.example&tls=none"},
	},
	{"alerts.tenant", "Alerts.Tenant", "", sample{"ours", "ours"}, sample{"ten_00076ez91zp0r3f", "ten_00076ez91zp0r3f"}, sample{"007", "007"}},
	{"alerts.digest", "Alerts.Digest", "", sample{"0 9 * * 1-5", "0 9 * * 1-5"}, sample{"@daily", "@daily"}, sample{"CRON_TZ=Asia/Tokyo 0 6 * * *", "CRON_TZ=Asia/Tokyo 0 6 * * *"}},
	{"alerts.digest_timezone", "Alerts.DigestTimezone", "UTC", sample{"Europe/Berlin", "Europe/Berlin"}, sample{"Asia/Tokyo", "Asia/Tokyo"}, sample{"UTC", "UTC"}},
	{"watch.max_due_age", "Watch.MaxDueAge", 2 * time.Minute, sample{"0", time.Duration(0)}, sample{"1d", 24 * time.Hour}, sample{"1s", time.Second}},
	{"watch.min_dispatchers", "Watch.MinDispatchers", 1, sample{"0", 0}, sample{"2", 2}, sample{"512", 512}},
	{"watch.dead_after", "Watch.DeadAfter", 30 * time.Second, sample{"2s", 2 * time.Second}, sample{"1m", time.Minute}, sample{"10m", 10 * time.Minute}},
	{"canary.enabled", "Canary.Enabled", false, sample{"true", true}, sample{"false", false}, sample{"true", true}},
	{"canary.every", "Canary.Every", time.Minute, sample{"1s", time.Second}, sample{"5m", 5 * time.Minute}, sample{"1h", time.Hour}},
	{"canary.url", "Canary.URL", "", sample{"http://10.0.0.5:8080", "http://10.0.0.5:8080"}, sample{"https://a", "https://a"}, sample{"http://b", "http://b"}},
	{"console.session", "Console.Session", 12 * time.Hour, sample{"5m", 5 * time.Minute}, sample{"1d", 24 * time.Hour}, sample{"30d", 720 * time.Hour}},
	{
		"console.oidc.issuer", "Console.OIDC.Issuer", "",
		sample{"https://a/x", "https://a/x"},
		sample{"http://localhost:1", "http://localhost:1"},
		sample{"http://127.0.0.1", "http://127.0.0.1"},
	},
	{"console.oidc.client_id", "Console.OIDC.ClientID", "", sample{"1", "1"}, sample{"b", "b"}, sample{"c", "c"}},
	{"console.oidc.client_secret", "Console.OIDC.ClientSecret", "", sample{"007", "007"}, sample{"b,b", "b,b"}, sample{"c", "c"}},
	{
		"console.oidc.scopes", "Console.OIDC.Scopes",
		[]string{"openid", "profile", "email"},
		sample{"openid", []string{"openid"}},
		sample{"openid groups", []string{"openid", "groups"}},
		sample{"a,openid", []string{"a", "openid"}},
	},
	{"console.oidc.role_claim", "Console.OIDC.RoleClaim", "groups", sample{"a", "a"}, sample{"b", "b"}, sample{"https://c/roles", "https://c/roles"}},
	{
		"console.oidc.viewers", "Console.OIDC.Viewers", []string(nil),
		sample{"a", []string{"a"}},
		sample{"b, c d", []string{"b", "c d"}},
		sample{"e,f", []string{"e", "f"}},
	},
	{
		"console.oidc.support", "Console.OIDC.Support", []string(nil),
		sample{"a", []string{"a"}},
		sample{"b, c d", []string{"b", "c d"}},
		sample{"e,f", []string{"e", "f"}},
	},
	{
		"console.oidc.admins", "Console.OIDC.Admins", []string(nil),
		sample{"a", []string{"a"}},
		sample{"b, c d", []string{"b", "c d"}},
		sample{"e,f", []string{"e", "f"}},
	},
	{"portal.name", "Portal.Name", "Webhooks", sample{"A b", "A b"}, sample{"1", "1"}, sample{"ü", "ü"}},
	{"portal.logo_file", "Portal.LogoFile", "", sample{"/no/a.svg", "/no/a.svg"}, sample{"b.PNG", "b.PNG"}, sample{"c.png", "c.png"}},
	{"portal.accent", "Portal.Accent", "", sample{"'#012abc'", "#012abc"}, sample{"#ABCDEF", "#ABCDEF"}, sample{"#000000", "#000000"}},
	{
		"portal.frame_ancestors", "Portal.FrameAncestors", []string(nil),
		sample{"https://a.example", []string{"https://a.example"}},
		sample{"http://b:1,https://c", []string{"http://b:1", "https://c"}},
		sample{"https://d https://[::1]:2", []string{"https://d", "https://[::1]:2"}},
	},
	{"portal.session", "Portal.Session", time.Hour, sample{"1m", time.Minute}, sample{"1d", 24 * time.Hour}, sample{"2h", 2 * time.Hour}},
	{
		"bootstrap.admin_key", "Bootstrap.AdminKey", "",
		sample{"00000000000000000001", "00000000000000000001"},
		sample{"correct-horse,battery", "correct-horse,battery"},
		sample{"1e1000000000000000", "1e1000000000000000"},
	},
}

func fill(b byte) (key [32]byte) {
	for i := range key {
		key[i] = b
	}
	return key
}

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// Each key in each of the eight ways to set it or not: the strongest layer wins, and is named as the source.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	for _, k := range everyKey {
		for layers := range 8 {
			want, source, place := k.def, SourceDefault, ""
			yaml, environ, args := "# nothing", []string{"HOME=/root"}, []string{}
			if layers&1 != 0 {
				section, name, _ := strings.Cut(k.name, ".")
				yaml = fmt.Sprintf("\n%s:\n  %s: %s\n", section, strings.ReplaceAll(name, ".", ":\n    "), k.inFile.text)
				want, source, place = k.inFile.want, SourceFile, fmt.Sprintf("p.yaml:%d", 2+strings.Count(k.name, "."))
			}
			if layers&2 != 0 {
				variable := "POSTRIDER_" + strings.ToUpper(strings.ReplaceAll(k.name, ".", "_"))
				environ = append(environ, variable+"="+k.inEnv.text)
				want, source, place = k.inEnv.want, SourceEnv, variable
			}
			if layers&4 != 0 {
				args = append(args, "--"+k.name+"="+k.inFlag.text)
				want, source, place = k.inFlag.want, SourceFlag, "--"+k.name
			}
			t.Run(fmt.Sprintf("%s/%03b", k.name, layers), func(t *testing.T) {
				t.Parallel()
				path := writeFile(t, "p.yaml", yaml)
				c, err := Load(flagSet(t, args...), path, environ)
				if err != nil {
					t.Fatal(err)
				}
				if got := field(c, k.field); !reflect.DeepEqual(got, want) {
					t.Errorf("value %#v, want %#v", got, want)
				}
				if got := c.Source(k.name); got != source {
					t.Errorf("source %q, want %q", got, source)
				}
				if got := strings.TrimPrefix(c.origin(k.name).place, filepath.Dir(path)+"/"); got != place {
					t.Errorf("place %q, want %q", got, place)
				}
				for _, other := range everyKey {
					if other.name != k.name && !reflect.DeepEqual(field(c, other.field), other.def) {
						t.Errorf("%s changed too: %#v", other.name, field(c, other.field))
					}
				}
			})
		}
	}
}

func TestTheTablesHaveTheSameKeys(t *testing.T) {
	t.Parallel()
	var tested, there []string
	for _, k := range everyKey {
		tested = append(tested, k.name)
	}
	for _, k := range keys {
		there = append(there, k.name)
	}
	if !slices.Equal(tested, there) {
		t.Errorf("tested %v\nthere  %v", tested, there)
	}
	if fields := countFields(reflect.TypeFor[Config]()); fields != len(keys) {
		t.Errorf("%d fields for %d keys", fields, len(keys))
	}
}

// countFields counts the exported fields of the sections and of those within them. A section is one of our own types.
func countFields(section reflect.Type) (n int) {
	for field := range section.Fields() {
		switch of := field.Type; {
		case !field.IsExported():
		case of.Kind() == reflect.Struct && of.PkgPath() == section.PkgPath() && of != reflect.TypeFor[Throttle](): // which is one value
			n += countFields(of)
		default:
			n++
		}
	}
	return n
}

func TestWaysToWriteAList(t *testing.T) {
	t.Parallel()
	want := []time.Duration{time.Second, time.Minute, time.Hour}
	for name, written := range map[string]struct {
		file    string
		environ []string
		args    []string
	}{
		"text":          {file: "delivery: {retry_schedule: '1s,1m,1h'}"},
		"list":          {file: "delivery: {retry_schedule: [1s, 1m, 1h]}"},
		"block list":    {file: "delivery:\n retry_schedule:\n - 1s\n - 1m\n - '1h'\n"},
		"folded":        {file: "delivery:\n retry_schedule: >\n  1s\n  1m\n  1h\n"},
		"flat":          {file: "delivery.retry_schedule: 1s,1m,1h"},
		"alias":         {file: "delivery: {timeout: &short 1s, connect_timeout: *short, retry_schedule: [*short, 1m, 1h]}"},
		"environment":   {environ: []string{"POSTRIDER_DELIVERY_RETRY_SCHEDULE=1s,1m,1h"}},
		"several flags": {args: []string{"--delivery.retry_schedule", "1s", "--delivery.retry_schedule", "1m,1h"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Load(flagSet(t, written.args...), writeFile(t, "p.yaml", written.file), written.environ)
			if err != nil || !slices.Equal(c.Delivery.RetrySchedule, want) {
				t.Errorf("%v, %v; want %v", c.Delivery.RetrySchedule, err, want)
			}
		})
	}
}

// What is empty is not set, except where somebody typed it.
func TestEmptyValues(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "p.yaml", "http:\nlog: {level: }\ndelivery:\n  timeout: null\n  allow_networks: [10.0.0.0/8]\n  proxy_url: http://p\nalerts: {urls: []}\n")
	c, err := Load(nil, file, []string{"POSTRIDER_DELIVERY_ALLOW_NETWORKS=", "POSTRIDER_LOG_FORMAT=console", "POSTRIDER_LOG_FORMAT="})
	if err != nil {
		t.Fatal(err)
	}
	if c.HTTP.Addr != "127.0.0.1:8080" || c.Log.Level != zerolog.InfoLevel || c.Delivery.Timeout != 15*time.Second || c.Log.Format != "json" {
		t.Errorf("a null or an empty variable took a default away: %v", c)
	}
	if len(c.Delivery.AllowNetworks) != 1 || c.Source("delivery.allow_networks") != SourceFile {
		t.Errorf("an empty variable took the file's value away: %v", c.Delivery)
	}
	if c.Source("alerts.urls") != SourceFile || c.Source("delivery.timeout") != SourceDefault {
		t.Error("an empty list is a value, null is none")
	}
	c, err = Load(flagSet(t, "--delivery.allow_networks=", "--delivery.proxy_url", ""), file, nil)
	if err != nil || len(c.Delivery.AllowNetworks) != 0 || c.Delivery.ProxyURL != nil {
		t.Errorf("an empty flag did not empty its key: %v, %v", c.Delivery, err)
	}
}

func TestBoolFlagNeedsNoValue(t *testing.T) {
	t.Parallel()
	c, err := Load(flagSet(t, "--delivery.allow_http"), writeFile(t, "p.yaml", ""), nil)
	if err != nil || !c.Delivery.AllowHTTP {
		t.Errorf("%v, %v", c.Delivery.AllowHTTP, err)
	}
	c, err = Load(flagSet(t, "--delivery.allow_http=false"), writeFile(t, "p.yaml", "delivery.allow_http: true"), nil)
	if err != nil || c.Delivery.AllowHTTP {
		t.Errorf("%v, %v", c.Delivery.AllowHTTP, err)
	}
}

// A command may have some of the flags, and flags that are no keys.
func TestFewFlags(t *testing.T) {
	t.Parallel()
	few := pflag.NewFlagSet("few", pflag.ContinueOnError)
	few.AddFlag(flagSet(t).Lookup("log.level"))
	few.String("name", "", "")
	if err := few.Parse([]string{"--log.level=warn", "--name=x"}); err != nil {
		t.Fatal(err)
	}
	c, err := Load(few, writeFile(t, "p.yaml", ""), []string{"POSTRIDER_HTTP_ADDR=:1"})
	if err != nil || c.Log.Level != zerolog.WarnLevel || c.HTTP.Addr != ":1" || c.Delivery.Timeout != 15*time.Second {
		t.Errorf("%v, %v", c, err)
	}
}

// Which file is read: the named one, else that of POSTRIDER_CONFIG, else postrider.yaml in the working directory.
func TestWhichFile(t *testing.T) {
	t.Chdir(t.TempDir())
	addr := func(file string, environ ...string) string {
		t.Helper()
		c, err := Load(nil, file, environ)
		if err != nil {
			return err.Error()
		}
		return c.HTTP.Addr
	}
	if got := addr(""); got != "127.0.0.1:8080" {
		t.Errorf("without postrider.yaml: %s", got)
	}
	for name, text := range map[string]string{"postrider.yaml": "http.addr: default:1", "named.yaml": "http.addr: named:1", "env.yaml": "http.addr: env:1"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, run := range []struct{ got, want string }{
		{addr(""), "default:1"},
		{addr("", "POSTRIDER_CONFIG=env.yaml"), "env:1"},
		{addr("named.yaml", "POSTRIDER_CONFIG=env.yaml"), "named:1"},
		{addr("gone.yaml"), "gone.yaml: cannot be read: no such file or directory"},
		{addr("", "POSTRIDER_CONFIG=gone.yaml"), "gone.yaml: cannot be read: no such file or directory"},
		{addr("."), ".: cannot be read: is a directory"},
	} {
		if run.got != run.want {
			t.Errorf("%q, want %q", run.got, run.want)
		}
	}
}
