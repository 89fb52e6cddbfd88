package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	c := mustEnv(t)
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	const (
		noDatabase = "database.url: is not set, want postgres://user:password@host:5432/database"
		noKeys     = "secrets.keys: is not set and neither is secrets.key_file, want base64 of exactly 32 bytes (openssl rand -base64 32)"
	)
	for _, test := range []struct {
		environ []string
		need    []Need
		want    []string
	}{
		{nil, nil, nil},
		{nil, []Need{NeedDatabase}, []string{noDatabase}},
		{nil, []Need{NeedSecrets}, []string{noKeys}},
		{nil, []Need{NeedDatabase, NeedSecrets}, []string{noDatabase, noKeys}},
		{[]string{"POSTRIDER_DATABASE_URL=postgres:///d"}, []Need{NeedDatabase, NeedSecrets}, []string{noKeys}},
		{[]string{"POSTRIDER_SECRETS_KEYS=" + keyA}, []Need{NeedDatabase, NeedSecrets}, []string{noDatabase}},
		{[]string{"POSTRIDER_SECRETS_KEYS=" + keyA, "POSTRIDER_DATABASE_URL=postgres:///d"}, []Need{NeedDatabase, NeedSecrets}, nil},
		{nil, []Need{NeedSession}, []string{noDatabase}},
		{[]string{"POSTRIDER_DATABASE_DIRECT_URL=postgres:///d"}, []Need{NeedSession}, nil},
		{[]string{"POSTRIDER_DATABASE_URL=postgres:///d"}, []Need{NeedSession}, nil},
		{[]string{"POSTRIDER_DATABASE_URL=postgres:///d", "POSTRIDER_DATABASE_POOLER=transaction", "POSTRIDER_DATABASE_DIRECT_URL=postgres:///e"}, []Need{NeedSession}, nil},
		{[]string{"POSTRIDER_DATABASE_URL=postgres:///d", "POSTRIDER_DATABASE_POOLER=transaction"}, []Need{NeedSession}, []string{
			"database.direct_url: is not set, and a pooler in transaction mode gives no session to migrate in: want database.direct_url, which leads past it",
		}},
	} {
		c := mustEnv(t, test.environ...)
		if got := lines(t, c.Validate(test.need...), ""); !slices.Equal(got, test.want) {
			t.Errorf("%v needing %v:\n got %q\nwant %q", test.environ, test.need, got, test.want)
		}
	}
}

// The rules between two keys, at their very edge, and with the other key as the one that was set.
func TestRelations(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		environ []string
		want    []string
	}{
		{[]string{"POSTRIDER_DELIVERY_LEASE=30s"}, nil},
		{[]string{"POSTRIDER_DELIVERY_TIMEOUT=30s"}, nil},
		{[]string{"POSTRIDER_DELIVERY_LEASE=29999ms"}, []string{
			"delivery.lease: 29.999s is too short, want at least twice the longest timeout, delivery.timeout of 15s (from POSTRIDER_DELIVERY_LEASE)",
		}},
		{[]string{"POSTRIDER_DELIVERY_TIMEOUT=31s"}, []string{
			"delivery.lease: 1m is too short, want at least twice the longest timeout, delivery.timeout of 31s; delivery.timeout is from POSTRIDER_DELIVERY_TIMEOUT",
		}},
		{[]string{"POSTRIDER_DELIVERY_TIMEOUT=1s"}, nil}, // below the default of delivery.connect_timeout
		{[]string{"POSTRIDER_DELIVERY_MAX_IN_FLIGHT=8"}, nil},
		{[]string{"POSTRIDER_SECRETS_KEYS=" + keyA, "POSTRIDER_SECRETS_KEY_FILE=/no"}, []string{
			"secrets.key_file: is set beside secrets.keys, want one of the two; secrets.keys is from POSTRIDER_SECRETS_KEYS (from POSTRIDER_SECRETS_KEY_FILE)",
		}},
		{[]string{"POSTRIDER_CONSOLE_OIDC_ISSUER=https://id.example"}, []string{
			"console.oidc.client_id: is not set, want the console's name at console.oidc.issuer; console.oidc.issuer is from POSTRIDER_CONSOLE_OIDC_ISSUER",
			"console.oidc.viewers: is not set, and neither are console.oidc.support and console.oidc.admins: nobody could get in, want one of them; console.oidc.issuer is from POSTRIDER_CONSOLE_OIDC_ISSUER",
		}},
		{[]string{"POSTRIDER_CONSOLE_OIDC_ISSUER=https://id.example", "POSTRIDER_CONSOLE_OIDC_CLIENT_ID=c", "POSTRIDER_CONSOLE_OIDC_ADMINS=a"}, nil},
		{[]string{"POSTRIDER_DATABASE_URL=postgres:///d", "POSTRIDER_DATABASE_MIGRATE_ON_START=true"}, nil},
		{[]string{"POSTRIDER_DATABASE_URL=postgres:///d", "POSTRIDER_DATABASE_POOLER=transaction", "POSTRIDER_DATABASE_MIGRATE_ON_START=true"}, []string{
			"database.migrate_on_start: is true, and a pooler in transaction mode gives no session to migrate in: want database.direct_url, which leads past it (from POSTRIDER_DATABASE_MIGRATE_ON_START)",
		}},
		{[]string{"POSTRIDER_HTTP_ADDR=:0", "POSTRIDER_METRICS_ADDR=:0"}, nil},
		{[]string{"POSTRIDER_HTTP_ADDR=:1", "POSTRIDER_METRICS_ADDR=:1"}, []string{
			"metrics.addr: is http.addr too, want another address, or none for /metrics on http.addr; http.addr is from POSTRIDER_HTTP_ADDR (from POSTRIDER_METRICS_ADDR)",
		}},
		// one broken value does not make a second fault of its fellow
		{[]string{"POSTRIDER_DELIVERY_TIMEOUT=0", "POSTRIDER_DELIVERY_MAX_IN_FLIGHT=0"}, []string{
			"delivery.timeout: 0s is out of range, want 1ms to 1h (from POSTRIDER_DELIVERY_TIMEOUT)",
			"delivery.max_in_flight: 0 is out of range, want 1 to 65536 (from POSTRIDER_DELIVERY_MAX_IN_FLIGHT)",
		}},
	} {
		c := mustEnv(t, test.environ...)
		if got := lines(t, c.Validate(), ""); !slices.Equal(got, test.want) {
			t.Errorf("%v:\n got %q\nwant %q", test.environ, got, test.want)
		}
	}
}

// A configuration put together by hand is judged as well, and what is wrong comes all at once.
func TestValidateByHand(t *testing.T) {
	t.Parallel()
	var c Config
	err := c.Validate(NeedDatabase, NeedSecrets)
	var all *Error
	if !errors.As(err, &all) {
		t.Fatalf("%T is no *Error", err)
	}
	for _, key := range []string{
		"http.addr", "database.max_conns", "log.format", "delivery.retry_schedule", "delivery.timeout", "delivery.connect_timeout",
		"delivery.max_in_flight", "delivery.max_in_flight_per_endpoint", "delivery.lease", "delivery.response_body_limit",
		"delivery.allow_ports", "events.max_payload", "retention.events", "retention.attempts", "retention.idempotency_keys",
		"alerts.after_failures", "database.url", "secrets.keys",
	} {
		if !faults(all.Faults).about(key) {
			t.Errorf("no fault about %s in\n%v", key, err)
		}
	}
	if strings.Contains(err.Error(), "(from") {
		t.Errorf("a place nothing came from: %v", err)
	}
}

// Schedules of milliseconds and seconds, as tests use them, are in order.
func TestQuickSchedules(t *testing.T) {
	t.Parallel()
	c := mustEnv(t, "POSTRIDER_DELIVERY_RETRY_SCHEDULE=1ms,1s", "POSTRIDER_DELIVERY_TIMEOUT=50ms", "POSTRIDER_DELIVERY_CONNECT_TIMEOUT=50ms",
		"POSTRIDER_DELIVERY_LEASE=100ms", "POSTRIDER_DELIVERY_DISABLE_AFTER=0", "POSTRIDER_DELIVERY_RETRY_JITTER=0")
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if got := c.Delivery.MaxTimeout(); got != 50*time.Millisecond {
		t.Errorf("MaxTimeout %v", got)
	}
}
