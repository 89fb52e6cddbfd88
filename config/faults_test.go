package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each value that does not parse or is out of range, and the one line about it.
var badValues = []struct{ key, text, want string }{
	{"http.addr", "8080", `"8080" is not an address, want host:port such as 127.0.0.1:8080 or :8080`},
	{"http.addr", "http://h:80", `"http://h:80" is not an address, want host:port such as 127.0.0.1:8080 or :8080`},
	{"http.addr", "h:http", `"h:http" has no port from 0 to 65535, want host:port such as 127.0.0.1:8080 or :8080`},
	{"http.addr", "h:65536", `"h:65536" has no port from 0 to 65535, want host:port such as 127.0.0.1:8080 or :8080`},
	{"http.addr", "a b:80", `"a b:80" is not an address, want host:port such as 127.0.0.1:8080 or :8080`},
	{"http.addr", "::1:80", `"::1:80" is not an address, want host:port such as 127.0.0.1:8080 or :8080`},
	{"http.public_url", "https://a.example/", `"https://a.example/" is not an origin, want https:// or http://, a host in lower case and no path, such as https://app.example.com`},
	{"http.public_url", "a.example", `"a.example" is not an origin, want https:// or http://, a host in lower case and no path, such as https://app.example.com`},
	{"http.public_url", "https://u@a", `"https://u@a" is not an origin, want https:// or http://, a host in lower case and no path, such as https://app.example.com`},
	{"http.public_url", "https://A.example", `"https://A.example" is not an origin, want https:// or http://, a host in lower case and no path, such as https://app.example.com`},
	{"http.trusted_proxies", "10.0.0.1", `item 1 "10.0.0.1" has no length, want 10.0.0.1/32 for this one address`},
	{"http.max_connections", "15", "15 is out of range, want 16 to 1000000"},
	{"metrics.addr", "9090", `"9090" is not an address, want host:port such as 127.0.0.1:8080 or :8080`},
	{"metrics.addr", "127.0.0.1:8080", "is http.addr too, want another address, or none for /metrics on http.addr"},
	{"database.url", "mysql://h/d", "is not a URL of PostgreSQL, want postgres://user:password@host:5432/database"},
	{"database.url", "host=h dbname=d", "is not a URL of PostgreSQL, want postgres://user:password@host:5432/database"},
	{"database.url", "postgres:h", "is not a URL (the characters / ? # @ : % and blanks of a password are written %2F %3F %23 %40 %3A %25 %20), want postgres://user:password@host:5432/database"},
	{"database.url", "postgres:/h/d", "has no // after its scheme, want postgres://user:password@host:5432/database"},
	{"database.url", "postgres://u:a/b@h/d", "is not a URL (the characters / ? # @ : % and blanks of a password are written %2F %3F %23 %40 %3A %25 %20), want postgres://user:password@host:5432/database"},
	{"database.url", "postgres://u:a b@h/d", "is not a URL (the characters / ? # @ : % and blanks of a password are written %2F %3F %23 %40 %3A %25 %20), want postgres://user:password@host:5432/database"},
	{"database.url", "postgres://u:a%b@h/d", "is not a URL (the characters / ? # @ : % and blanks of a password are written %2F %3F %23 %40 %3A %25 %20), want postgres://user:password@host:5432/database"},
	{"database.url", "postgres://h/d#x", "is not a URL (the characters / ? # @ : % and blanks of a password are written %2F %3F %23 %40 %3A %25 %20), want postgres://user:password@host:5432/database"},
	{"database.pooler", "session", `"session" is unknown, want none or transaction`},
	{"database.direct_url", "mysql://h/d", "is not a URL of PostgreSQL, want postgres://user:password@host:5432/database"},
	{"database.max_conns", "0", "0 is out of range, want 1 to 1000"},
	{"database.max_conns", "-1", "-1 is out of range, want 1 to 1000"},
	{"database.max_conns", "1001", "1001 is out of range, want 1 to 1000"},
	{"database.max_conns", "many", `"many" is not a whole number`},
	{"database.max_conns", "1.5", `"1.5" is not a whole number`},
	{"database.max_conns", "4294967297", `"4294967297" is out of range, want a whole number below 2147483648`},
	{"database.migrate_on_start", "yes", `"yes" is neither true nor false`},
	{"log.level", "verbose", `"verbose" is no level, want one of trace, debug, info, warn, error, fatal, panic, disabled`},
	{"log.level", "INFO", `"INFO" is no level, want one of trace, debug, info, warn, error, fatal, panic, disabled`},
	{"log.level", "1", `"1" is no level, want one of trace, debug, info, warn, error, fatal, panic, disabled`},
	{"log.format", "text", `"text" is unknown, want json or console`},
	{"secrets.keys", "c2hvcnQ=", "item 1 is not a key, want base64 of exactly 32 bytes (openssl rand -base64 32)"},
	{"secrets.keys", keyA + "," + strings.TrimSuffix(keyB, "="), "item 2 is not a key, want base64 of exactly 32 bytes (openssl rand -base64 32)"},
	{"secrets.keys", keyA + "," + keyB + "," + keyA, "item 3 is item 1 again, want distinct keys"},
	{"secrets.keys", keyA + ",," + keyB, "item 2 is not a key, want base64 of exactly 32 bytes (openssl rand -base64 32)"},
	{"secrets.keys", "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUF=", "item 1 is not a key, want base64 of exactly 32 bytes (openssl rand -base64 32)"}, // bits after the end
	{"delivery.retry_schedule", ",", `item 1 is empty, want a duration such as 15s, 1h30m or 30d`},
	{"delivery.retry_schedule", "1m,5", `item 2 "5" has no unit, want a duration such as 15s, 1h30m or 30d`},
	{"delivery.retry_schedule", "1m,0s", "item 2 0s is out of range, want 1ms to 30d"},
	{"delivery.retry_schedule", "1m,31d", "item 2 31d is out of range, want 1ms to 30d"},
	{"delivery.retry_schedule", strings.Repeat("1m,", 50) + "1m", "has 51 values, want 1 to 50, each a delay"},
	{"delivery.retry_jitter", "10%", `"10%" is not a number, want one such as 0.1`},
	{"delivery.retry_jitter", "1.01", "1.01 is out of range, want 0 to 1"},
	{"delivery.retry_jitter", "-0.1", "-0.1 is out of range, want 0 to 1"},
	{"delivery.retry_jitter", "NaN", "NaN is out of range, want 0 to 1"},
	{"delivery.timeout", "15", `"15" has no unit, want a duration such as 15s, 1h30m or 30d`},
	{"delivery.timeout", "-15s", `"-15s" is negative, want a duration such as 15s, 1h30m or 30d`},
	{"delivery.timeout", "0s", "0s is out of range, want 1ms to 1h"},
	{"delivery.connect_timeout", "0", "0s is out of range, want 1ms to 1h"},
	{"delivery.max_in_flight", "0", "0 is out of range, want 1 to 65536"},
	{"delivery.max_in_flight_per_endpoint", "0", "0 is out of range, want 1 to 65536"},
	{"delivery.lease", "29s", "29s is too short, want at least twice the longest timeout, delivery.timeout of 15s"},
	{"delivery.lease", "25h", "1d1h is out of range, want 1ms to 1d"},
	{"delivery.response_body_limit", "0", "0B is out of range, want 1B to 16MiB"},
	{"delivery.response_body_limit", "16K", `"16K" has an unknown unit, want whole bytes such as 16KiB, 1MiB, 1MB or 65536`},
	{"delivery.allow_http", "on", `"on" is neither true nor false`},
	{"delivery.allow_networks", "10.0.0.1", `item 1 "10.0.0.1" has no length, want 10.0.0.1/32 for this one address`},
	{"delivery.allow_networks", "10.0.0.1/8", `item 1 "10.0.0.1/8" has bits set after its length, want 10.0.0.0/8`},
	{"delivery.allow_networks", "10.0.0.0/8,internal", `item 2 "internal" is not a CIDR, want one such as 10.1.0.0/16 or fd00:1::/64`},
	{"delivery.deny_networks", "::ffff:10.0.0.0/104", `item 1 "::ffff:10.0.0.0/104" is IPv4 written as IPv6, want one such as 10.1.0.0/16`},
	{"delivery.deny_networks", "fe80::1%eth0", `item 1 "fe80::1%eth0" is not a CIDR, want one such as 10.1.0.0/16 or fd00:1::/64`},
	{"delivery.allow_ports", "443,https", `item 2 "https" is not a port, want one such as 443 or a range such as 1024-65535`},
	{"delivery.allow_ports", "65536", `item 1 "65536" is not a port, want one such as 443 or a range such as 1024-65535`},
	{"delivery.allow_ports", "80-", `item 1 "80-" is not a port, want one such as 443 or a range such as 1024-65535`},
	{"delivery.allow_ports", "0", `item 1 "0" begins at 0, want ports from 1 to 65535`},
	{"delivery.allow_ports", "90-80", `item 1 "90-80" runs backwards, want 80-90`},
	{"delivery.proxy_url", "proxy:3128", "is not a URL of a proxy, want http://, https:// or socks5://[user:password@]host:port"},
	{"delivery.proxy_url", "http://%zz", "is not a URL, want http://, https:// or socks5://[user:password@]host:port"},
	{"delivery.proxy_url", "http://:80", "has no host, want http://, https:// or socks5://[user:password@]host:port"},
	{"delivery.proxy_url", "http://p/x", "has something after the port, want http://, https:// or socks5://[user:password@]host:port"},
	{"delivery.disable_after", "5 days", `"5 days" has an unknown unit " days", want a duration such as 15s, 1h30m or 30d`},
	{"delivery.disable_after", "36501d", "36501d is out of range, want 0s to 36500d"},
	{"events.max_payload", "0B", "0B is out of range, want 1B to 256MiB"},
	{"events.max_payload", "1.5MiB", `"1.5MiB" has an unknown unit, want whole bytes such as 16KiB, 1MiB, 1MB or 65536`},
	{"events.max_payload", "257MiB", "257MiB is out of range, want 1B to 256MiB"},
	{"events.max_payload", "9999999999TiB", `"9999999999TiB" is larger than any size, want whole bytes such as 16KiB, 1MiB, 1MB or 65536`},
	{"events.max_payload", "lots", `"lots" is not a size, want whole bytes such as 16KiB, 1MiB, 1MB or 65536`},
	{"retention.events", "23h", "23h is out of range, want 1d to 3650d"},
	{"retention.attempts", "3651d", "3651d is out of range, want 1d to 3650d"},
	{"retention.attempts", "forever", `"forever" is not a duration, want a duration such as 15s, 1h30m or 30d`},
	{"tracing.endpoint", "127.0.0.1:4318", "is not the URL of a collector, want one such as http://127.0.0.1:4318"},
	{"tracing.endpoint", "grpc://otel:4317", "is not the URL of a collector, want one such as http://127.0.0.1:4318"},
	{"tracing.endpoint", "http://u:p@otel", "has a user, a query or a fragment, want one such as http://127.0.0.1:4318; credentials go into tracing.headers"},
	{"tracing.sample", "1.5", "1.5 is out of range, want 0 to 1"},
	{"tracing.headers", "x-token", "item 1 is not a header, want name=value"},
	{"tracing.headers", "a=b, x y=z", "item 2 is not a header, want name=value"},
	{"tracing.service_name", " ", "is empty, want a text"},
	{"retention.audit_log", "0", "0s is out of range, want 1ns to 36500d"},
	{"retention.idempotency_keys", "0", "0s is out of range, want 1ns to 36500d"},
	{"alerts.after_failures", "0", "0 is out of range, want 1 to 2147483647"},
	{"alerts.urls", "slack", "item 1 is not a service URL, want one such as slack://…, smtp://… or generic://…"},
	{"alerts.urls", "slack://t@c smtp:x", "item 2 is not a service URL, want one such as slack://…, smtp://… or generic://…"},
	{"watch.max_due_age", "0.5s", "500ms is out of range, want 1s to 30d, or 0"},
	{"watch.min_dispatchers", "-1", "-1 is out of range, want 0 to 512"},
	{"watch.dead_after", "1s", "1s is out of range, want 2s to 10m"},
	{"canary.enabled", "on", `"on" is neither true nor false`},
	{"canary.every", "2h", "2h is out of range, want 1s to 1h"},
	{"canary.url", "https://a/x", `"https://a/x" is not an origin, want https:// or http://, a host in lower case and no path, such as https://app.example.com`},
	{"alerts.throttle", "20", `"20" is not a throttle, want messages/time such as 20/10m`},
	{"alerts.throttle", "many/1m", `"many/1m" is not a throttle, want messages/time such as 20/10m`},
	{"alerts.throttle", "5/often", `"5/often" is not a throttle, want messages/time such as 20/10m`},
	{"alerts.throttle", "0/1m", "0/1m is out of range, want 1/1m to 10000/1d"},
	{"alerts.throttle", "5/2d", "5/2d is out of range, want 1/1m to 10000/1d"},
	{"alerts.mail_url", "http://h/?from=a@b.example", "is not the URL of an SMTP server, want smtp:// or smtps://[user:password@]host[:port]/?from=hooks@example.com"},
	{"alerts.mail_url", "smtp:///?from=a@b.example", "has no host, or something after it, want smtp:// or smtps://[user:password@]host[:port]/?from=hooks@example.com"},
	{"alerts.mail_url", "smtp://h", "has no from that is an e-mail address, want smtp:// or smtps://[user:password@]host[:port]/?from=hooks@example.com"},
	{"alerts.mail_url", "smtp://h?from=a@b.example&to=c@d.example", "has a parameter that is unknown, want from, or tls as well"},
	{"alerts.mail_url", "smtp://h?from=a@b.example&tls=maybe", "has a tls that is unknown, want required, optional or none"},
	{"alerts.tenant", "our own", `"our own" is neither an id nor a uid, want one such as ten_00076ez91zp0r3f or our-own`},
	{"alerts.digest", "daily", `"daily" is not a cron expression, want minute, hour, day, month and day of the week such as 0 9 * * 1-5, or @daily`},
	{"alerts.digest_timezone", "Mars", `"Mars" is not a time zone, want one such as Europe/Berlin or UTC`},
	{"console.session", "4m", "4m is out of range, want 5m to 30d"},
	{"console.oidc.issuer", "id.example", `"id.example" is not the URL of an issuer, want https://, such as https://id.example.com`},
	{"console.oidc.issuer", "https://id.example?x=1", `"https://id.example?x=1" is not the URL of an issuer, want https://, such as https://id.example.com`},
	{"console.oidc.issuer", "http://id.example", `"http://id.example" is not on this machine and without TLS, want https://, such as https://id.example.com`},
	{"console.oidc.client_id", "postrider", "is set, and console.oidc.issuer is not, want both or none"},
	{"console.oidc.client_secret", " c", "has blanks around it, want the secret alone"},
	{"console.oidc.scopes", "profile,email", "has no openid, want it among them"},
	{"console.oidc.role_claim", " ", "is empty, want a text"},
	{"console.oidc.viewers", "a,,b", "item 2 is empty, want a text"},
	{"console.oidc.support", ",b", "item 1 is empty, want a text"},
	{"console.oidc.admins", "a, ", "item 2 is empty, want a text"},
	{"portal.name", " ", `" " is no name, want 1 to 80 characters in one line`},
	{"portal.logo_file", "logo.jpg", `"logo.jpg" is no logo, want a file whose name ends in .svg or .png`},
	{"portal.accent", "red", `"red" is not a colour, want one such as #2f6fde (in YAML in quotes)`},
	{"portal.accent", "#12345g", `"#12345g" is not a colour, want one such as #2f6fde (in YAML in quotes)`},
	{"portal.frame_ancestors", "https://ok, *", `item 2 "*" is not an origin, want https:// or http://, a host in lower case and no path, such as https://app.example.com`},
	{"portal.frame_ancestors", "https://ok, https://*.example", `item 2 "https://*.example" is not an origin, want https:// or http://, a host in lower case and no path, such as https://app.example.com`},
	{"portal.frame_ancestors", "https://ok, https://a;script-src", `item 2 "https://a;script-src" is not an origin, want https:// or http://, a host in lower case and no path, such as https://app.example.com`},
	{"portal.frame_ancestors", "https://ok, https://a/x", `item 2 "https://a/x" is not an origin, want https:// or http://, a host in lower case and no path, such as https://app.example.com`},
	{"portal.session", "59s", "59s is out of range, want 1m to 1d"},
	{"bootstrap.admin_key", "1234567", "has 7 characters, want 8 or more printable ASCII characters without blanks"},
	{"bootstrap.admin_key", "1234567890123456 ", "has a blank or a character that is not printable ASCII, want 8 or more printable ASCII characters without blanks"},
	{"bootstrap.admin_key", "ключключключключ", "has a blank or a character that is not printable ASCII, want 8 or more printable ASCII characters without blanks"},
}

// loadAndValidate is what a command does.
func loadAndValidate(t *testing.T, args []string, path string, environ []string) error {
	t.Helper()
	c, err := Load(flagSet(t, args...), path, environ)
	if err != nil {
		return err
	}
	return c.Validate()
}

func TestBadValues(t *testing.T) {
	t.Parallel()
	for _, bad := range badValues {
		t.Run(bad.key+"="+quote(bad.text), func(t *testing.T) {
			t.Parallel()
			k, _ := lookup(bad.key)
			path := writeFile(t, "p.yaml", fmt.Sprintf("# one\n%s: '%s'\n", bad.key, bad.text))
			empty := writeFile(t, "p.yaml", "")
			for from, err := range map[string]error{
				"p.yaml:2": loadAndValidate(t, nil, path, nil),
				k.env():    loadAndValidate(t, nil, empty, []string{k.env() + "=" + bad.text}),
			} {
				want := []string{bad.key + ": " + bad.want + " (from " + from + ")"}
				if got := lines(t, err, filepath.Dir(path)); !slices.Equal(got, want) {
					t.Errorf("\n got %q\nwant %q", got, want)
				}
			}
			if k.arg == "bool" {
				return // such a flag is refused when the flags are parsed
			}
			want := []string{bad.key + ": " + bad.want + " (from --" + bad.key + ")"}
			if got := lines(t, loadAndValidate(t, []string{"--" + bad.key + "=" + bad.text}, empty, nil), ""); !slices.Equal(got, want) {
				t.Errorf("\n got %q\nwant %q", got, want)
			}
		})
	}
}

// Every key that can be wrong at all is in the table.
func TestEveryKeyHasABadValue(t *testing.T) {
	t.Parallel()
	for _, k := range keys {
		if k.name == "secrets.key_file" {
			continue // any text is a path; TestKeyFile has its faults
		}
		if !slices.ContainsFunc(badValues, func(bad struct{ key, text, want string }) bool { return bad.key == k.name }) {
			t.Errorf("no bad value of %s", k.name)
		}
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "p.yaml", "http:\n  adr: :80\nlog: {level: loud}\n")
	_, err := Load(flagSet(t, "--delivery.timeout=1"), path, []string{"POSTRIDER_EVENTS_MAX_PAYLOAD=big", "POSTRIDER_LOG_LEVELS=x"})
	want := []string{
		"http.adr: is an unknown key, did you mean http.addr? (from p.yaml:2)",
		"POSTRIDER_LOG_LEVELS: is an unknown variable, did you mean POSTRIDER_LOG_LEVEL? (from the environment)",
		`log.level: "loud" is no level, want one of trace, debug, info, warn, error, fatal, panic, disabled (from p.yaml:3)`,
		`delivery.timeout: "1" has no unit, want a duration such as 15s, 1h30m or 30d (from --delivery.timeout)`,
		`events.max_payload: "big" is not a size, want whole bytes such as 16KiB, 1MiB, 1MB or 65536 (from POSTRIDER_EVENTS_MAX_PAYLOAD)`,
	}
	if got := lines(t, err, filepath.Dir(path)); !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}

func TestFileFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"htp: {addr: ':1'}":                      "htp: is an unknown key, did you mean http? (from p.yaml:1)",
		"HTTP: {addr: ':1'}":                     "HTTP: is an unknown key, did you mean http? (from p.yaml:1)",
		"http: {Addr: ':1'}":                     "http.Addr: is an unknown key, did you mean http.addr? (from p.yaml:1)",
		"colour: red":                            "colour: is an unknown key, postrider.example.yaml has all keys (from p.yaml:1)",
		"retry_schedule: 1s":                     "retry_schedule: is an unknown key, did you mean delivery.retry_schedule? (from p.yaml:1)",
		"delivery: {schedule: 1s}":               "delivery.schedule: is an unknown key, postrider.example.yaml has all keys (from p.yaml:1)",
		"http_addr: 1s":                          "http_addr: is an unknown key, did you mean http.addr? (from p.yaml:1)",
		"delivery:\n  timout: 1s":                "delivery.timout: is an unknown key, did you mean delivery.timeout? (from p.yaml:2)",
		"delivery:\n  retry: {schedule: 1s}":     "delivery.retry: is an unknown key, did you mean delivery.retry_schedule? (from p.yaml:2)",
		"delivery.timout: 1s":                    "delivery.timout: is an unknown key, did you mean delivery.timeout? (from p.yaml:1)",
		"<<: {http.addr: ':1'}":                  "p.yaml: holds something that is no key (from p.yaml:1)",
		"? [a]\n: b":                             "p.yaml: holds something that is no key (from p.yaml:1)",
		"http: 8080":                             "http: is a section, want keys below it (from p.yaml:1)",
		"http: [8080]":                           "http: is a section, want keys below it (from p.yaml:1)",
		"http.addr: {port: 80}":                  "http.addr: is not plain text, want address (from p.yaml:1)",
		"http.addr: [':80', ':81']":              "http.addr: is a list, want one address (from p.yaml:1)",
		"http.addr: !env ADDR":                   "http.addr: is not plain text, want address (from p.yaml:1)",
		"http.addr: !!binary OjgwODA=":           "http.addr: is not plain text, want address (from p.yaml:1)",
		"alerts.urls: [slack://a, {b: c}]":       "alerts.urls: item 2 is not plain text, want urls (from p.yaml:1)",
		"alerts.urls: [slack://a, null]":         "alerts.urls: item 2 is not plain text, want urls (from p.yaml:1)",
		"http.addr: ':1'\nhttp: {addr: ':2'}":    "http.addr: is there twice, first in line 1 (from p.yaml:2)",
		"http: {addr: ':1'}\nhttp: {addr: ':2'}": "http: is there twice, first in line 1 (from p.yaml:2)",
		"http.addr: ':1'\n---\nhttp.addr: ':2'":  "p.yaml: holds several YAML documents (---), want one",
		"- http.addr":                            "p.yaml: holds no keys, want lines such as http.addr: 127.0.0.1:8080",
		"http.addr":                              "p.yaml: holds no keys, want lines such as http.addr: 127.0.0.1:8080",
		"secrets.keys: [\"" + keyA[:20] + "\\n" + keyA[20:] + "\"]": "secrets.keys: item 1 is not a key, want base64 of exactly 32 bytes (openssl rand -base64 32) (from p.yaml:1)",
		"http:\n\taddr: ':1'":                 "p.yaml: is not YAML: line 2: found character that cannot start any token",
		"http: [":                             "p.yaml: is not YAML: line 1: did not find expected node content",
		"http: {addr: *sterisk}":              "p.yaml: has an alias (*name) without its anchor; a text that begins with * goes in quotes",
		"http: &loop {addr: *loop}":           "http.addr: is not plain text, want address (from p.yaml:1)",
		"# " + strings.Repeat("x", fileLimit): "p.yaml: cannot be read: larger than 1MiB",
	} {
		t.Run(text[:min(len(text), 40)], func(t *testing.T) {
			t.Parallel()
			path := writeFile(t, "p.yaml", text)
			_, err := Load(nil, path, nil)
			if got := lines(t, err, filepath.Dir(path)); !slices.Equal(got, []string{want}) {
				t.Errorf("\n got %q\nwant %q", got, want)
			}
		})
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "null\n", "\ufeffhttp:\n", "{}\n"} {
		if c, err := loadText(t, text); err != nil || c.HTTP.Addr != "127.0.0.1:8080" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"POSTRIDER_HTTP_ADR=x":             "is an unknown variable, did you mean POSTRIDER_HTTP_ADDR?",
		"POSTRIDER_HTTP.ADDR=x":            "is an unknown variable, did you mean POSTRIDER_HTTP_ADDR?",
		"POSTRIDER_RETRY_SCHEDULE=1s":      "is an unknown variable, did you mean POSTRIDER_DELIVERY_RETRY_SCHEDULE?",
		"POSTRIDER_HTTP_PORT=8080":         "is an unknown variable, did you mean POSTRIDER_HTTP_ADDR?",
		"POSTRIDER_ADMIN_KEY_OF_SOMEONE=x": "is an unknown variable, postrider.example.yaml has all keys",
		"POSTRIDER_=x":                     "is an unknown variable, postrider.example.yaml has all keys",
		"POSTRIDER_HTTP_ADR=":              "is an unknown variable, did you mean POSTRIDER_HTTP_ADDR?",
	} {
		variable, _, _ := strings.Cut(entry, "=")
		_, err := loadEnv(t, "PATH=/bin", entry)
		if got := lines(t, err, ""); !slices.Equal(got, []string{variable + ": " + want + " (from the environment)"}) {
			t.Errorf("%s: %q, want %q", entry, got, want)
		}
	}
	for _, entry := range []string{
		"POSTRIDER_TEST_DATABASE_URL=x", "POSTRIDER_URL=x", "POSTRIDER_API_KEY=x", "POSTRIDERX=1", "postrider_http_adr=1", "POSTRIDER", "=", "",
		// of a service called postrider or postrider-api beside us
		"POSTRIDER_SERVICE_HOST=10.0.0.1", "POSTRIDER_SERVICE_PORT=80", "POSTRIDER_SERVICE_PORT_HTTP=80", "POSTRIDER_PORT=tcp://10.0.0.1:80",
		"POSTRIDER_PORT_80_TCP=tcp://10.0.0.1:80", "POSTRIDER_PORT_80_TCP_ADDR=10.0.0.1", "POSTRIDER_PORT_53_UDP_PROTO=udp",
		"POSTRIDER_API_SERVICE_HOST=10.0.0.1", "POSTRIDER_API_PORT_80_TCP_PORT=80", "POSTRIDER_API_PORT=tcp://10.0.0.1:80",
	} {
		if _, err := loadEnv(t, entry); err != nil {
			t.Errorf("%s: %v", entry, err)
		}
	}
}
