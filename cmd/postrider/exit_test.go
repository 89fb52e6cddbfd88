package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	nowhere := "--dir=" + t.TempDir() // where no `postrider dev` runs
	for name, c := range map[string]struct {
		environ []string
		args    string
		code    int
		says    string // on the standard error
	}{
		"nothing":                   {args: "", code: exitUsage, says: "Available Commands"},
		"a group alone":             {args: "keys", code: exitUsage, says: "Available Commands"},
		"help":                      {args: "--help", code: exitDone},
		"help of a command":         {args: "serve --help", code: exitDone},
		"unknown command":           {args: "serv", code: exitUsage, says: `unknown command "serv" of "postrider" (did you mean dev or serve?); see 'postrider --help'`},
		"unknown command below":     {args: "keys creat", code: exitUsage, says: "did you mean create?"},
		"unknown flag":              {args: "serve --rolls api", code: exitUsage, says: "unknown flag: --rolls"},
		"bad flag value":            {args: "deliveries list --limit many", code: exitUsage, says: `--limit has to be a whole number such as 50, not "many"`},
		"bad value of a key's flag": {args: "config check --delivery.timeout soon", code: exitUsage, says: "delivery.timeout"},
		"bad value of a variable":   {environ: []string{"POSTRIDER_DELIVERY_TIMEOUT=soon"}, args: "config check", code: exitFailed, says: "delivery.timeout"},
		"both":                      {environ: []string{"POSTRIDER_DELIVERY_TIMEOUT=soon"}, args: "config check --log.level loud", code: exitFailed, says: "log.level"},
		"unknown variable":          {environ: []string{"POSTRIDER_HTTP_ADR=:80"}, args: "config print", code: exitFailed, says: "did you mean POSTRIDER_HTTP_ADDR?"},
		"unknown role":              {args: "serve --roles api,cook", code: exitUsage, says: `no such role: "cook"`},
		"no role":                   {args: "serve --roles=", code: exitUsage, says: "no such role"},
		"serve without a database":  {environ: []string{"POSTRIDER_SECRETS_KEYS=" + testKey}, args: "serve", code: exitFailed, says: "database.url"},
		"serve without a key":       {environ: []string{"POSTRIDER_DATABASE_URL=postgres://h/d"}, args: "serve", code: exitFailed, says: "openssl rand -base64 32"},
		"migrate without database":  {args: "migrate up", code: exitFailed, says: "database.url"},
		"an argument too few":       {args: "deliveries show", code: exitUsage, says: "DELIVERY is missing"},
		"an argument too many":      {args: "version 1", code: exitUsage, says: "one argument too many"},
		"no tenant":                 {args: "events send --type a --data {}", code: exitUsage, says: "--tenant is missing"},
		"no type":                   {args: "events send --tenant a --data {}", code: exitUsage, says: "--type is missing"},
		"a payload twice":           {args: "events send --tenant a --type b --data {} --file x", code: exitUsage, says: "two ways"},
		"no payload":                {args: "events send --tenant a --type b", code: exitUsage, says: "--data or --file (- is the standard input) is missing"},
		"all that is missing":       {args: "events send", code: exitUsage, says: "(- is the standard input), --tenant and --type are missing"},
		"no payload of any bytes":   {args: "events send --tenant a --type b --raw", code: exitUsage, says: "--data or --file"},
		"unknown state":             {args: "deliveries list --state failed,fialed", code: exitUsage, says: `--state: "fialed" is none of scheduled, `},
		"unknown outcome":           {args: "deliveries list --outcome late", code: exitUsage, says: `--outcome: "late" is none of unknown, `},
		"unknown status of events":  {args: "events list --tenant a --status gone", code: exitUsage, says: `--status: "gone" is none of scheduled, `},
		"unknown status":            {args: "endpoints update ep_1 --tenant a --status dead", code: exitUsage, says: `--status: "dead" is none of enabled, disabled`},
		"unknown scheme":            {args: "endpoints create https://x.test --tenant a --scheme md5", code: exitUsage, says: `--scheme: "md5" is none of standard, `},
		"unknown scope":             {args: "keys create ci --scopes admin,root", code: exitUsage, says: `--scopes: "root" is none of events:write, `},
		"no duration":               {args: "endpoints create https://x.test --tenant a --timeout soon", code: exitUsage, says: `--timeout: "soon" is not a duration`},
		"no duration among several": {args: "endpoints update ep_1 --tenant a --retry-schedule 1m,x", code: exitUsage, says: `--retry-schedule: "x" is not`},
		"no rate limit":             {args: "endpoints create https://x.test --tenant a --rate-limit 100", code: exitUsage, says: `--rate-limit: "100" is no rate limit, want one such as 100/1s`},
		"no number in a rate limit": {args: "endpoints update ep_1 --tenant a --rate-limit x/1s", code: exitUsage, says: `--rate-limit: "x/1s" is no rate limit`},
		"unknown format":            {args: "endpoints create https://a.test --tenant a --format xml", code: exitUsage, says: `--format: "xml" is none of raw, cloudevents`},
		"unknown ordering":          {args: "endpoints update ep_1 --tenant a --ordering fifo", code: exitUsage, says: `--ordering: "fifo" is none of none, group`},
		"no overlap":                {args: "endpoints rotate ep_1 --tenant a --overlap 5", code: exitUsage, says: `--overlap: "5" has no unit`},
		"no truth":                  {args: "config check --delivery.allow_http=x", code: exitUsage, says: `has to be true or false, not "x"`},
		"help of nothing":           {args: "help nope", code: exitUsage, says: `unknown command "nope" of "postrider"; see 'postrider --help'`},
		"help of nothing below":     {args: "help keys creat", code: exitUsage, says: "did you mean create?"},
		"the command help":          {args: "help keys create", code: exitDone},
		"the flag --version":        {args: "--version", code: exitDone},
		"no scopes":                 {args: "keys create ci", code: exitUsage, says: "--scopes is missing"},
		"nothing to change":         {args: "endpoints update ep_1 --tenant a", code: exitUsage, says: "nothing to change"},
		"a header without a name":   {args: "endpoints create https://x.test --tenant a --header Bearer", code: exitUsage, says: "--header has to be like"},
		"no time":                   {args: "deliveries list --since yesterday", code: exitUsage, says: "--since has to be a time"},
		"no limit":                  {args: "deliveries list --limit 0", code: exitUsage, says: "--limit has to be 1 or more"},
		"no key":                    {args: "deliveries list " + nowhere, code: exitFailed, says: "no API key"},
		"no server":                 {args: "deliveries list --api-key k --url http://127.0.0.1:1", code: exitFailed, says: "connection refused; is it a running"},
		"no URL":                    {args: "deliveries list --api-key k --url localhost:8080", code: exitUsage, says: `--url: "localhost:8080" is not a URL like http://127.0.0.1:8080`},
		"no URL in a variable":      {environ: []string{"POSTRIDER_URL=localhost"}, args: "deliveries list --api-key k", code: exitFailed, says: `POSTRIDER_URL): "localhost" is not a URL`},
		"no such file":              {args: "events send --tenant a --type b --api-key k --file /no/such", code: exitFailed, says: "no such file"},
		"no JSON":                   {args: "events send --tenant a --type b --api-key k --data {", code: exitFailed, says: "the payload is not JSON: --raw"},
		"trigger nothing":           {args: "trigger --tenant a", code: exitUsage, says: "TYPE is missing"},
		"no patience":               {args: "trigger a --tenant a --timeout 0s", code: exitUsage, says: "it has to be more than 0"},
		"version":                   {args: "version", code: exitDone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := cli(t.Context(), c.environ, "", strings.Fields(c.args)...)
			if got.code != c.code {
				t.Errorf("exit %d, want %d", got.code, c.code)
			}
			if !strings.Contains(got.errout, c.says) {
				t.Errorf("it says\n%s\nwant %s", got.errout, c.says)
			}
			if c.code == exitDone && (got.errout != "" || got.out == "") {
				t.Errorf("it prints %q and complains %q", got.out, got.errout)
			}
			if c.code == exitUsage && c.says != "Available Commands" && strings.Count(got.errout, "\n") > 1 {
				t.Errorf("a fault in several lines:\n%s", got.errout)
			}
			if c.code != exitDone && got.out != "" {
				t.Errorf("a fault goes to the standard output: %q", got.out)
			}
		})
	}
}

// testKey is base64 of 32 equal bytes.
const testKey = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="

func TestEachFaultIsOneLine(t *testing.T) {
	t.Parallel()
	got := cli(t.Context(), []string{"POSTRIDER_DELIVERY_TIMEOUT=soon", "POSTRIDER_LOG_LEVEL=loud"}, "", "config", "check")
	if lines := strings.Count(got.errout, "\n"); lines != 2 || strings.Count(got.errout, "postrider: ") != 2 {
		t.Errorf("two faults in %d lines:\n%s", lines, got.errout)
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"several lines":  {errors.New("connect:\n\t127.0.0.1: refused\n\t[::1]: refused"), "postrider: connect: 127.0.0.1: refused [::1]: refused\n"},
		"the same twice": {errors.New("connect:\n\t127.0.0.1: refused\n\t127.0.0.1: refused"), "postrider: connect: 127.0.0.1: refused\n"},
		"joined":         {errors.Join(errors.New("a"), errors.Join(errors.New("b"), errors.New("c"))), "postrider: a\npostrider: b\npostrider: c\n"},
		"wrapped list":   {fmt.Errorf("stop: %w", errors.Join(errors.New("a"), errors.New("b"))), "postrider: stop: a b\n"},
		"escape":         {errors.New("it said \x1b[2J"), "postrider: it said \ufffd[2J\n"},
	} {
		var out strings.Builder
		if code := report(&out, c.err); code != exitFailed || out.String() != c.want {
			t.Errorf("%s: exit %d, %q, want %q", name, code, out.String(), c.want)
		}
	}
}

func TestConfigCheckTellsMachines(t *testing.T) {
	t.Parallel()
	type verdict struct {
		Sound  bool
		Faults []struct{ Key, Detail, From string }
	}
	got := cli(t.Context(), []string{"POSTRIDER_LOG_LEVEL=loud"}, "", "config", "check", "--json")
	var v verdict
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != exitFailed || v.Sound || len(v.Faults) == 0 ||
		v.Faults[0].Key != "log.level" || v.Faults[0].Detail == "" || v.Faults[0].From != "POSTRIDER_LOG_LEVEL" {
		t.Errorf("exit %d, %v: %s", got.code, err, got.out)
	}
	if lines := strings.Count(got.errout, "\n"); lines != len(v.Faults) {
		t.Errorf("people are told in %d lines of %d faults", lines, len(v.Faults))
	}
	sound := []string{"POSTRIDER_SECRETS_KEYS=" + testKey, "POSTRIDER_DATABASE_URL=postgres://db.test/p"}
	v = verdict{}
	out := must(t, sound, "config", "check", "--json")
	if err := json.Unmarshal([]byte(out), &v); err != nil || !v.Sound || v.Faults == nil || len(v.Faults) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// What serve would refuse of alerts.urls is a fault like any other, and the URL is not repeated.
func TestConfigCheckKnowsTheServicesOfAlerts(t *testing.T) {
	t.Parallel()
	sound := []string{"POSTRIDER_SECRETS_KEYS=" + testKey, "POSTRIDER_DATABASE_URL=postgres://db.test/p"}
	const line = `postrider: alerts.urls: item 2: shoutrrr has no service "nonsense" (from `
	for place, args := range map[string][]string{
		"POSTRIDER_ALERTS_URLS": {"POSTRIDER_ALERTS_URLS=logger:// nonsense://hunter2@x"},
		"--alerts.urls":         {},
	} {
		environ, flags, code := slices.Concat(sound, args), []string(nil), exitFailed
		if len(args) == 0 {
			flags, code = []string{"--alerts.urls", "logger:// nonsense://hunter2@x"}, exitUsage
		}
		for _, command := range [][]string{{"config", "check"}, {"serve"}} {
			got := cli(t.Context(), environ, "", append(command, flags...)...)
			if got.code != code || got.errout != line+place+")\n" || got.out != "" {
				t.Errorf("%v: exit %d, %s%s", command, got.code, got.out, got.errout)
			}
		}
	}
	both := []string{sound[0], "POSTRIDER_ALERTS_URLS=nonsense://hunter2@x"} // and no database.url
	if got := cli(t.Context(), both, "", "config", "check"); strings.Count(got.errout, "\n") != 2 {
		t.Errorf("not both faults:\n%s", got.errout)
	}
	must(t, append(sound, "POSTRIDER_ALERTS_URLS=logger://"), "config", "check")
}

func TestConfigIsPrintedWithoutSecrets(t *testing.T) {
	t.Parallel()
	environ := []string{
		"POSTRIDER_SECRETS_KEYS=" + testKey, "POSTRIDER_DATABASE_URL=postgres://u:hunter2@db.test/p",
		"POSTRIDER_BOOTSTRAP_ADMIN_KEY=hunter2hunter2hunter2",
	}
	for _, args := range [][]string{{"config", "print"}, {"config", "print", "--json"}, {"config", "check"}} {
		out := must(t, environ, args...)
		if strings.Contains(out, "hunter2") || strings.Contains(out, testKey) {
			t.Errorf("%v shows a secret:\n%s", args, out)
		}
	}
	if out := must(t, environ, "config", "print"); !strings.Contains(out, "env POSTRIDER_DATABASE_URL") {
		t.Errorf("it does not say where database.url comes from:\n%s", out)
	}
}

func TestConfigFileIsNamedByAFlag(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(path, []byte("http:\n  addr: 127.0.0.1:7777\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := must(t, nil, "config", "print", "--config", path); !strings.Contains(out, "127.0.0.1:7777") {
		t.Errorf("the file was not read:\n%s", out)
	}
	if got := cli(t.Context(), nil, "", "config", "print", "--config", path+"x"); got.code != exitFailed {
		t.Errorf("a file that is not there: exit %d", got.code)
	}
}

func TestParseRoles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		allRoles: allRoles, "scheduler, api": "api,scheduler", "dispatcher": "dispatcher", "api,api": "api",
	} {
		if r, err := parseRoles(text); err != nil || r.String() != want {
			t.Errorf("%q: %v, %v, want %s", text, r, err, want)
		}
	}
	for _, text := range []string{"", "api,", "API", "api;dispatcher"} {
		if r, err := parseRoles(text); err == nil {
			t.Errorf("%q is taken as %v", text, r)
		}
	}
}
