package config

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

const canary = "c4n4ry"

// Each secret key with values that hold the canary, good and bad in every way thought of.
var canaries = map[string][]string{
	"secrets.keys": {
		canary, canaryKey, canaryKey + "," + canary, canaryKey + "," + canaryKey, canaryKey[1:], canaryKey + "=", canary + "\n" + canary,
		canaryKey + ",," + canary, base64.RawURLEncoding.EncodeToString([]byte(canary)),
	},
	"database.url": {
		"postgres://u:c4n4ry@h/d", "postgres://u:c4n4ry/x@h/d", "postgres://u:x/c4n4ry@h/d", "postgres://u:12/c4n4ry@h/d", "postgres://u:c4n4ry#x@h/d",
		"postgres://u:12#c4n4ry@h/d", "postgres://u:12?c4n4ry@h/d", "postgres://u:1@c4n4ry@h/d", "postgres://u:p@12/c4n4ry@h/d", "postgres://u:p@12?c4n4ry@h/d",
		"postgres://u:%zzc4n4ry@h/d", "postgres://u:p@h:c4n4ry/d", "postgres://h/d?password=c4n4ry", "postgres://h/d?user=u&sslpassword=c4n4ry&x=y",
		"postgres://h/d?pass%77ord=c4n4ry", "postgres://h/d?PASSWORD=c4n4ry", "host=h password=c4n4ry", "postgres:c4n4ry", "postgres:u:c4n4ry@h", "mysql://u:c4n4ry@h/d",
		"u:c4n4ry@h/d", "//u:c4n4ry@h/d", ":c4n4ry@h", "postgres:///u:c4n4ry@h/d", "postgres:/u:c4n4ry@h/d", " postgres://u:c4n4ry@h/d", "postgres://u:c4n4ry@h/d\n",
		"postgresql://:c4n4ry@/d", "postgres://u:c4n4ry@h1:1,h2:2/d", "postgres://u:c4n4ry@[::1/d", "c4n4ry", "c4n4ry://h/d", "postgres://u:p#c4n4ry",
	},
	"database.direct_url": {
		"postgres://u:c4n4ry@h/d", "postgres://u:c4n4ry/x@h/d", "postgres://h/d?password=c4n4ry", "host=h password=c4n4ry", "mysql://u:c4n4ry@h/d", "c4n4ry",
	},
	"bootstrap.admin_key":        {"c4n4ry", "c4n4ryc4n4ryc4n4ry", "c4n4ry c4n4ry c4n4ry", "c4n4ry\nc4n4ryc4n4ry", "c4n4ryé234567890", "c4n4ry\x00"},
	"console.oidc.client_secret": {"c4n4ry", "c4n4ry c4n4ry", "c4n4ry\n"},
	"tracing.headers":            {"authorization=c4n4ry", "c4n4ry", "c4n4ry==", "a=b,c4n4ry", "a=c4n4ry\x00", "=c4n4ry"},
	"alerts.urls": {
		"slack://hook:c4n4ry@webhook", "c4n4ry", "slack:c4n4ry", "://c4n4ry", "smtp://u:c4n4ry@h?to=a,b", "smtp://u:%zc4n4ry", "slack://a,c4n4ry",
		"discord://c4n4ry@1 x c4n4ry", "telegram://h:c4n4ry@telegram", "c4n4ry slack://a", "generic://h/c4n4ry?x=c4n4ry#c4n4ry",
	},
	"alerts.mail_url": {
		"smtp://u:c4n4ry@h/?from=a@b.example", "smtp://c4n4ry@h/?from=a@b.example", "smtp://u:c4n4ry/x@h/?from=a@b.example", "smtp://u:1/c4n4ry@h?from=a@b.example",
		"smtp://u:1#c4n4ry@h", "smtp://u:1?c4n4ry@h", "c4n4ry", "http://u:c4n4ry@h", "smtp:u:c4n4ry@h", "smtp://u:%zzc4n4ry@h", "smtp://h?from=c4n4ry", "smtp://h?c4n4ry=1&from=a@b.example",
	},
	"delivery.proxy_url": {
		"http://u:c4n4ry@p:1", "http://c4n4ry@p:1", "http://u:c4n4ry/x@p", "http://u:1/c4n4ry@p", "http://u:1#c4n4ry@p", "http://u:1?c4n4ry@p", "u:c4n4ry@p:1",
		"ftp://u:c4n4ry@p", "http:u:c4n4ry@p", "http://u:c4n4ry@", "socks5://u:%zc4n4ry@p", "http://u:c4n4ry@p:1/x", "http://u:c4n4ry@p@q:1", "http://u:p@h:c4n4ry",
	},
}

var canaryKey = base64.StdEncoding.EncodeToString([]byte(canary + "0123456789abcdefghijklmnop"))

// leaks are what would give the canary away: itself, and as fmt and JSON write bytes.
var leaks = []string{
	canary, strings.ToUpper(canary), base64.RawStdEncoding.EncodeToString([]byte(canary)), fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary),
	"99 52 110 52 114 121", "99,52,110,52,114,121", "99, 52, 110, 52, 114, 121", "0x63, 0x34, 0x6e",
}

func searchLeaks(t *testing.T, where, text string) {
	t.Helper()
	for _, leak := range leaks {
		if strings.Contains(text, leak) {
			t.Errorf("%s gives the secret away: %s", where, text)
			return
		}
	}
}

func TestCanaryFindsALeak(t *testing.T) {
	t.Parallel()
	key := [32]byte([]byte(canary + "0123456789abcdefghijklmnop"))
	for _, text := range []string{
		"x" + canary, canaryKey, fmt.Sprint(key), fmt.Sprintf("%#v", key), fmt.Sprintf("%x", key), fmt.Sprintf("%X", key),
	} {
		if !slices.ContainsFunc(leaks, func(leak string) bool { return strings.Contains(text, leak) }) {
			t.Errorf("not found in %s", text)
		}
	}
}

// No secret is in an error, in what is printed, in what fmt makes of the configuration, or in JSON.
func TestNoSecretGetsOut(t *testing.T) {
	t.Parallel()
	for _, k := range keys {
		if k.secret != (canaries[k.name] != nil) {
			t.Errorf("%s: secret %v, canaries %q", k.name, k.secret, canaries[k.name])
		}
		for i, value := range canaries[k.name] {
			// Not named by the value: the name is in the path of the test's folder.
			t.Run(fmt.Sprint(k.name, i), func(t *testing.T) {
				t.Parallel()
				empty := writeFile(t, "p.yaml", "")
				yaml := writeFile(t, "p.yaml", k.name+": "+fmt.Sprintf("%q", value))
				listed := writeFile(t, "p.yaml", k.name+": ["+fmt.Sprintf("%q", value)+"]")
				flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
				AddFlags(flags)
				if err := flags.Parse([]string{"--" + k.name, value}); err != nil {
					searchLeaks(t, "the flags' error", err.Error())
				}
				judge(t, func() (Config, error) { return Load(nil, empty, []string{k.env() + "=" + value}) })
				judge(t, func() (Config, error) { return Load(nil, yaml, nil) })
				judge(t, func() (Config, error) { return Load(nil, listed, nil) })
				judge(t, func() (Config, error) { return Load(flags, empty, nil) })
			})
		}
	}
}

// judge looks for the canary in all that comes out of a configuration.
func judge(t *testing.T, load func() (Config, error)) {
	t.Helper()
	c, err := load()
	if err != nil {
		searchLeaks(t, "Load's error", err.Error())
		var all *Error
		if errors.As(err, &all) {
			searchLeaks(t, "Load's faults", fmt.Sprintf("%+v %#v", all.Faults, all))
		}
	}
	if err := c.Validate(NeedDatabase, NeedSecrets); err != nil {
		searchLeaks(t, "Validate's error", err.Error())
	}
	searchLeaks(t, "Print", printText(t, c, false))
	searchLeaks(t, "Print as JSON", printText(t, c, true))
	for _, value := range []any{
		c, &c, c.Database, &c.Database, c.Secrets, &c.Secrets, c.Delivery, &c.Delivery, c.Alerts, &c.Alerts, c.Bootstrap, &c.Bootstrap,
		[]any{c, &c},
		map[string]Secrets{"": c.Secrets},
		struct{ C Config }{c},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			searchLeaks(t, verb, fmt.Sprintf(verb, value))
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		searchLeaks(t, "JSON", string(text))
	}
}

// A secret in the wrong place of the file is no reason to show it either.
func TestNoMisplacedSecretGetsOut(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"database: {url: {postgres: c4n4ry}}", "database: {'postgres://u:c4n4ry@h/d': }", "secrets: {keys: [[c4n4ry]]}", "secrets: {keys: {c4n4ry: x}}",
		"bootstrap: {admin_key: *c4n4ry}", "bootstrap: {admin_key: !c4n4ry x}", "bootstrap: {admin_key: [c4n4ry]}", "bootstrap: c4n4ry", "alerts: {'slack://c4n4ry': }",
		"alerts: {urls: [{slack: c4n4ry}]}", "- c4n4ry", "c4n4ry", "bootstrap: {admin_key: 'c4n4ry}", "bootstrap: {admin_key: \"c4n4ry\\q\"}", "bootstrap: {admin_key: %c4n4ry}",
		"bootstrap: {admin_key: @c4n4ry}", "bootstrap: {admin_key: &c4n4ry }", "bootstrap:\n  admin_key: c4n4ry: x", "bootstrap:\n  admin_key: a\n c4n4ry: x\n\tb",
		"bootstrap: {admin_key: !<c4n4ry x}", "bootstrap: {admin_key: !c4n4ry!x y}", "bootstrap: {admin_key: |c4n4ry}", "%c4n4ry\n---\n", "%TAG ! c4n4ry\n%TAG ! c4n4ry\n---\na: b",
	} {
		_, err := loadText(t, text)
		if err == nil {
			continue // some of these are good YAML, and the value is then a short key for Validate
		}
		searchLeaks(t, text, err.Error())
	}
}
