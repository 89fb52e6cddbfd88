package config

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func printText(t *testing.T, c Config, asJSON bool) string {
	t.Helper()
	var out strings.Builder
	if err := c.Print(&out, asJSON); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The contract's table of defaults, word for word, and what came to it.
func TestPrintShowsTheContractsDefaults(t *testing.T) {
	t.Parallel()
	const want = `http.addr 127.0.0.1:8080 default
http.public_url - default
http.trusted_proxies - default
http.max_connections 4096 default
metrics.addr - default
database.url - default
database.pooler none default
database.direct_url - default
database.max_conns 16 default
database.migrate_on_start false default
log.level info default
log.format json default
tracing.endpoint - default
tracing.sample 1 default
tracing.headers - default
tracing.service_name postrider default
secrets.keys - default
secrets.key_file - default
delivery.retry_schedule 1m,5m,30m,2h,6h default
delivery.retry_jitter 0.1 default
delivery.timeout 15s default
delivery.connect_timeout 5s default
delivery.max_in_flight 1024 default
delivery.max_in_flight_per_endpoint 32 default
delivery.lease 60s default
delivery.response_body_limit 16KiB default
delivery.allow_http false default
delivery.allow_networks - default
delivery.deny_networks - default
delivery.allow_ports 80,443,1024-65535 default
delivery.proxy_url - default
delivery.disable_after 5d default
events.max_payload 1MiB default
retention.events 30d default
retention.attempts 30d default
retention.idempotency_keys 24h default
retention.audit_log 365d default
alerts.after_failures 5 default
alerts.urls - default
alerts.throttle 20/10m default
alerts.mail_url - default
alerts.tenant - default
alerts.digest - default
alerts.digest_timezone UTC default
watch.max_due_age 2m default
watch.min_dispatchers 1 default
watch.dead_after 30s default
canary.enabled false default
canary.every 1m default
canary.url - default
console.session 12h default
console.oidc.issuer - default
console.oidc.client_id - default
console.oidc.client_secret - default
console.oidc.scopes openid,profile,email default
console.oidc.role_claim groups default
console.oidc.viewers - default
console.oidc.support - default
console.oidc.admins - default
portal.name Webhooks default
portal.logo_file - default
portal.accent - default
portal.frame_ancestors - default
portal.session 1h default
bootstrap.admin_key - default
`
	var got strings.Builder
	for line := range strings.Lines(printText(t, mustEnv(t), false)) {
		got.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	if got.String() != want {
		t.Errorf("got\n%s", got.String())
	}
}

func TestPrint(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "p.yaml", "delivery:\n  timeout: 90s\n  allow_networks: [10.0.0.0/8, fd00::/8]\n  disable_after: 36h\n")
	c, err := Load(flagSet(t, "--delivery.max_in_flight=7", "--delivery.allow_http"), path, []string{
		"POSTRIDER_DATABASE_URL=postgres://me:pw@db:5432/postrider?sslmode=require&password=pw",
		"POSTRIDER_SECRETS_KEYS=" + keyA + "," + keyB, "POSTRIDER_BOOTSTRAP_ADMIN_KEY=0123456789abcdef",
		"POSTRIDER_ALERTS_URLS=slack://tok@C1,smtp://u:p@h:25/?to=a", "POSTRIDER_DELIVERY_PROXY_URL=http://u:p@proxy:3128",
		"POSTRIDER_DELIVERY_RETRY_JITTER=0.5", "POSTRIDER_SECRETS_KEY_FILE=/a\tb",
	})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(printText(t, c, false), filepath.Dir(path)+"/", "")
	for _, want := range []string{
		"database.url postgres://me:[redacted]@db:5432/postrider?sslmode=require&password=[redacted] env POSTRIDER_DATABASE_URL",
		"secrets.keys [redacted],[redacted] env POSTRIDER_SECRETS_KEYS",
		`secrets.key_file "/a\tb" env POSTRIDER_SECRETS_KEY_FILE`,
		"bootstrap.admin_key [redacted] env POSTRIDER_BOOTSTRAP_ADMIN_KEY",
		"alerts.urls slack://[redacted],smtp://[redacted] env POSTRIDER_ALERTS_URLS",
		"delivery.proxy_url http://[redacted]@proxy:3128 env POSTRIDER_DELIVERY_PROXY_URL",
		"delivery.timeout 1m30s file p.yaml:2",
		"delivery.allow_networks 10.0.0.0/8,fd00::/8 file p.yaml:3",
		"delivery.disable_after 1d12h file p.yaml:4",
		"delivery.max_in_flight 7 flag --delivery.max_in_flight",
		"delivery.allow_http true flag --delivery.allow_http",
	} {
		found := false
		for line := range strings.Lines(text) {
			found = found || strings.Join(strings.Fields(line), " ") == want
		}
		if !found {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}

	var all map[string]struct {
		Value        any
		Source, From string
	}
	asJSON := printText(t, c, true)
	if err := json.Unmarshal([]byte(asJSON), &all); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(asJSON, "?sslmode=require&password=[redacted]") {
		t.Errorf("a URL that cannot be read for its escapes:\n%s", asJSON)
	}
	if len(all) != len(keys) {
		t.Errorf("%d keys in JSON, want %d", len(all), len(keys))
	}
	for key, want := range map[string]any{
		"delivery.timeout": "1m30s", "delivery.max_in_flight": 7.0, "delivery.allow_http": true, "delivery.retry_jitter": 0.5,
		"delivery.allow_networks": []any{"10.0.0.0/8", "fd00::/8"}, "delivery.deny_networks": []any{}, "retention.idempotency_keys": "24h",
		"secrets.keys": []any{"[redacted]", "[redacted]"}, "http.addr": "127.0.0.1:8080", "bootstrap.admin_key": "[redacted]",
	} {
		if got := all[key].Value; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, want %#v", key, got, want)
		}
	}
	if got := all["delivery.allow_http"]; got.Source != "flag" || got.From != "--delivery.allow_http" {
		t.Errorf("%+v", got)
	}
	if got := all["http.addr"]; got.Source != "default" || got.From != "" {
		t.Errorf("%+v", got)
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestPrintSaysWhenItCannot(t *testing.T) {
	t.Parallel()
	c := mustEnv(t)
	for _, asJSON := range []bool{false, true} {
		if err := c.Print(brokenWriter{}, asJSON); !errors.Is(err, errBroken) {
			t.Errorf("asJSON %v: %v", asJSON, err)
		}
	}
}
