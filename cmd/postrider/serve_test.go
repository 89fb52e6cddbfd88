package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/migrations"
	"github.com/postrider/postrider/signer"
)

const adminKey = "an-admin-key-for-tests-alone"

// server is the environment of a process on the test's own database that listens on any free port.
func serverEnv(t *testing.T, more ...string) []string {
	t.Helper()
	return append([]string{
		"POSTRIDER_DATABASE_URL=" + pgtest.URL(t), "POSTRIDER_DATABASE_MAX_CONNS=6", "POSTRIDER_SECRETS_KEYS=" + testKey,
		"POSTRIDER_HTTP_ADDR=127.0.0.1:0", "POSTRIDER_BOOTSTRAP_ADMIN_KEY=" + adminKey,
		"POSTRIDER_DELIVERY_ALLOW_HTTP=true", "POSTRIDER_DELIVERY_ALLOW_NETWORKS=127.0.0.0/8",
	}, more...)
}

// clientEnv is the environment of commands that call the server.
func clientEnv(t *testing.T, l *live) []string {
	t.Helper()
	addr := l.log.await(t, `"addr":"([^"]+)","time":"[^"]+","message":"listening"`)
	return []string{"POSTRIDER_URL=http://" + addr, "POSTRIDER_API_KEY=" + adminKey}
}

// target is a subscriber that keeps what it got.
func target(t *testing.T) (url string, got <-chan http.Header) {
	t.Helper()
	ch := make(chan http.Header, 10)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ch <- r.Header }))
	t.Cleanup(s.Close)
	return s.URL, ch
}

func TestServeDeliversAndStopsInOrder(t *testing.T) {
	t.Parallel()
	server := goCLI(t, serverEnv(t), "serve")
	env := clientEnv(t, server)
	url, got := target(t)
	must(t, env, "tenants", "create", "Acme", "--uid", "acme")
	created := must(t, env, "endpoints", "create", url, "--tenant", "acme", "--json")
	var e endpoint
	if err := json.Unmarshal([]byte(created), &e); err != nil || e.Signature.Secret == "" {
		t.Fatalf("%s: %v", created, err)
	}
	must(t, env, "events", "send", "--tenant", "acme", "--type", "order.paid", "--data", `{"a":1}`)
	h := <-got
	if h.Get(signer.HeaderEventType) != "order.paid" || h.Get("User-Agent") != userAgent() {
		t.Errorf("it got %v", h)
	}
	id := h.Get(signer.HeaderDeliveryID)
	if out := must(t, env, "deliveries", "list", "--tenant", "acme"); !strings.Contains(out, id) {
		t.Errorf("%s is not in the list:\n%s", id, out)
	}
	if out := must(t, env, "deliveries", "show", id); !strings.Contains(out, "order.paid") {
		t.Errorf("the delivery:\n%s", out)
	}
	if out := must(t, env, "events", "show", h.Get(signer.HeaderID), "--tenant", "acme"); !strings.Contains(out, id) {
		t.Errorf("the event:\n%s", out)
	}
	portal := strings.TrimPrefix(env[0], "POSTRIDER_URL=") + "/portal/enter?token=prl_"
	link := strings.TrimSpace(must(t, env, "portal", "link", "acme", "--read-only", "--expires-in", "1m"))
	if !strings.HasPrefix(link, portal) || !strings.Contains(visit(t, link), "Continue") {
		t.Errorf("the link into the portal: %s", link)
	}
	if code := server.stop(t); code != exitDone {
		t.Errorf("exit %d:\n%s", code, server.log)
	}
	log := server.log.String()
	if !strings.HasSuffix(log, "\"message\":\"stopped\"}\n") {
		t.Errorf("the last line is not that it stopped:\n%s", log)
	}
	for _, secret := range []string{adminKey, testKey, e.Signature.Secret, strings.TrimPrefix(link, portal)} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %s:\n%s", secret, log)
		}
	}
	if got := cli(t.Context(), env, "", "tenants", "list"); !strings.Contains(got.errout, "connection refused") {
		t.Errorf("it still answers: %s%s", got.out, got.errout)
	}
}

func TestRolesInProcessesOfTheirOwnWorkTogether(t *testing.T) {
	t.Parallel()
	env := serverEnv(t)
	taker := goCLI(t, env, "serve", "--roles", "api")
	sender := goCLI(t, env, "serve", "--roles", "dispatcher")
	keeper := goCLI(t, env, "serve", "--roles", "scheduler")
	client := clientEnv(t, taker)
	url, got := target(t)
	must(t, client, "tenants", "create", "Acme", "--uid", "acme")
	must(t, client, "endpoints", "create", url, "--tenant", "acme", "--uid", "shop", "--event-types", "other")
	must(t, client, "endpoints", "test", "shop", "--tenant", "acme", "--type", "ping")
	if h := <-got; h.Get(signer.HeaderEventType) != "ping" {
		t.Errorf("it got %v", h)
	}
	for name, l := range map[string]*live{"dispatcher": sender, "scheduler": keeper} {
		base := "http://" + l.log.await(t, healthLine)
		for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/metrics": 200, "/v1/tenants": 404, "/docs": 404, "/openapi.json": 404} {
			status, body := get(t, base+path)
			if status != want || want == 404 && !strings.Contains(body, "urn:postrider:problem:not_found") {
				t.Errorf("%s: %s: %d %s", name, path, status, body)
			}
		}
	}
	for name, l := range map[string]*live{"api": taker, "dispatcher": sender, "scheduler": keeper} {
		if code := l.stop(t); code != exitDone {
			t.Errorf("%s: exit %d:\n%s", name, code, l.log)
		}
	}
	for name, l := range map[string]*live{"dispatcher": sender, "scheduler": keeper} {
		if strings.Contains(l.log.String(), `"message":"listening"`) {
			t.Errorf("%s says that it has the API:\n%s", name, l.log)
		}
	}
	if strings.Contains(taker.log.String(), "health.") {
		t.Errorf("the API's process has health checks beside it:\n%s", taker.log)
	}
}

const healthLine = `"addr":"([^"]+)","time":"[^"]+","message":"health.listening"`

// Processes of one machine may share a configuration, and with it the address.
func TestHealthChecksGiveWayWhereTheAddressIsTaken(t *testing.T) {
	t.Parallel()
	env := serverEnv(t)
	taken := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(taken.Close)
	addr := strings.TrimPrefix(taken.URL, "http://")
	url, got := target(t)
	sender := goCLI(t, append(slices.Clone(env), "POSTRIDER_HTTP_ADDR="+addr), "serve", "--roles", "dispatcher")
	client := clientEnv(t, goCLI(t, env, "serve", "--roles", "api"))
	must(t, client, "tenants", "create", "Acme", "--uid", "acme")
	must(t, client, "endpoints", "create", url, "--tenant", "acme", "--uid", "shop")
	must(t, client, "endpoints", "test", "shop", "--tenant", "acme")
	<-got
	if code := sender.stop(t); code != exitDone {
		t.Errorf("exit %d:\n%s", code, sender.log)
	}
	line := lineWith(t, sender.log.String(), "health.not_served")
	if !strings.Contains(line, `"level":"warn"`) || !strings.Contains(line, `"addr":"`+addr+`"`) ||
		!strings.Contains(line, "address already in use") || strings.Contains(sender.log.String(), "health.listening") {
		t.Errorf("the log:\n%s", sender.log)
	}
}

func TestMetricsOfItsOwnAddressAreNotAmongHealthChecks(t *testing.T) {
	t.Parallel()
	keeper := goCLI(t, serverEnv(t, "POSTRIDER_METRICS_ADDR=127.0.0.1:0"), "serve", "--roles", "scheduler")
	base := "http://" + keeper.log.await(t, healthLine)
	for path, want := range map[string]int{"/livez": 200, "/metrics": 404} {
		if status, body := get(t, base+path); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

func TestServeRefusesASchemaThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	env := serverEnv(t)
	if out := must(t, env, "migrate", "status"); strings.Contains(out, "pending") || !strings.Contains(out, "applied") {
		t.Errorf("a fresh database:\n%s", out)
	}
	execute(t, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)")
	must(t, env, "keys", "list") // as long as the schema says that a binary of this age runs on it
	execute(t, "UPDATE postrider.schema_compatibility SET oldest = 9999")
	refused(t, env, errNewerSchema)
	execute(t, "DELETE FROM goose_db_version WHERE version_id = 9999")
	for strings.Contains(must(t, env, "migrate", "down", "--json"), `"applied": true`) {
		continue
	}
	refused(t, env, errOlderSchema)
	server := goCLI(t, slices.Concat(env, []string{"POSTRIDER_DATABASE_MIGRATE_ON_START=true"}), "serve")
	clientEnv(t, server)
	if code := server.stop(t); code != exitDone {
		t.Errorf("exit %d:\n%s", code, server.log)
	}
	if out := must(t, env, "migrate", "up"); strings.Contains(out, "pending") {
		t.Errorf("after the start:\n%s", out)
	}
}

// What only a Citus cluster needs is refused elsewhere with one line, and changes nothing.
func TestDistributeWantsCitus(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"migrate", "distribute"}, {"migrate", "distribute", "--dry-run"}} {
		got := cli(t.Context(), serverEnv(t), "", args...)
		if want := "postrider: " + migrations.ErrNoCitus.Error() + "\n"; got.code != exitFailed || got.errout != want || got.out != "" {
			t.Errorf("%v: exit %d, %q, %q", args, got.code, got.errout, got.out)
		}
	}
}

// refused wants each command that works on the database to say why it does not.
func refused(t *testing.T, env []string, why error) {
	t.Helper()
	for _, args := range [][]string{{"serve"}, {"keys", "list"}} {
		got := cli(t.Context(), env, "", args...)
		if got.code != exitFailed || !strings.HasSuffix(got.errout, "postrider: "+why.Error()+"\n") {
			t.Errorf("%v: exit %d, %s", args, got.code, got.errout)
		}
	}
}

// execute runs a statement on the test's own database.
func execute(t *testing.T, sql string) {
	t.Helper()
	cfg, err := pg.ParseURL(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func TestServeSaysInOneLineWhyItDoesNotStart(t *testing.T) {
	t.Parallel()
	env := serverEnv(t)
	taken := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(taken.Close)
	addr := strings.TrimPrefix(taken.URL, "http://")
	for name, c := range map[string]struct{ variable, says string }{
		"a port that is taken":      {"POSTRIDER_HTTP_ADDR=" + addr, "address already in use"},
		"another port":              {"POSTRIDER_METRICS_ADDR=" + addr, "address already in use"},
		"no database there":         {"POSTRIDER_DATABASE_URL=postgres://u:hunter2@127.0.0.1:1/d", "connect to the database"},
		"a key that was revoked":    {"POSTRIDER_BOOTSTRAP_ADMIN_KEY=" + revokedKey(t, env), "bootstrap.admin_key"},
		"a service that is unknown": {"POSTRIDER_ALERTS_URLS=hunter2://token@x", "alerts.urls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := cli(t.Context(), slices.Concat(env, []string{c.variable}), "", "serve")
			lines := strings.Split(strings.TrimSpace(got.errout), "\n")
			last := lines[len(lines)-1]
			if got.code != exitFailed || !strings.HasPrefix(last, "postrider: ") || !strings.Contains(last, c.says) {
				t.Errorf("exit %d, %s", got.code, got.errout)
			}
			if strings.Contains(got.errout, "hunter2@") || strings.Contains(got.errout, "token@") {
				t.Errorf("a secret in %s", got.errout)
			}
		})
	}
}

// revokedKey makes a key and ends it, both straight in the database.
func revokedKey(t *testing.T, env []string) string {
	t.Helper()
	var k apiKey
	made := must(t, env, "keys", "create", "old", "--scopes", "admin", "--json")
	if err := json.Unmarshal([]byte(made), &k); err != nil {
		t.Fatal(err)
	}
	must(t, env, "keys", "revoke", k.ID)
	return k.Key
}

func TestKeysAreMadeStraightInTheDatabaseOrThroughAServer(t *testing.T) {
	t.Parallel()
	env := serverEnv(t)
	server := goCLI(t, env, "serve", "--roles", "api")
	remote := clientEnv(t, server)
	must(t, remote, "tenants", "create", "Acme", "--uid", "acme")
	now := time.Now() // what judges the keys' end is the server's and the database's clock
	for name, env := range map[string][]string{"database": env, "server": remote} {
		created := cliAt(t.Context(), now, env, "", "keys", "create", name, "--scopes", "events:write,deliveries:read", "--tenant", "acme", "--expires-in", "90d")
		if created.code != exitDone {
			t.Fatalf("%s: exit %d, %s", name, created.code, created.errout)
		}
		key := strings.TrimSpace(created.out)
		as := []string{remote[0], "POSTRIDER_API_KEY=" + key}
		must(t, as, "events", "send", "--tenant", "acme", "--type", "a", "--data", "{}")
		if got := cli(t.Context(), as, "", "tenants", "list"); got.code != exitFailed || !strings.Contains(got.errout, "(403 forbidden)") {
			t.Errorf("%s: what it may not do: exit %d, %s", name, got.code, got.errout)
		}
		list := must(t, env, "keys", "list")
		line := lineWith(t, list, name)
		if !strings.Contains(line, "events:write,deliveries:read") || !strings.Contains(line, now.Add(90*24*time.Hour).UTC().Format("2006-01-02")) || strings.Contains(list, key) {
			t.Errorf("%s: the list\n%s", name, list)
		}
		id := strings.Fields(line)[0]
		if out := must(t, env, "keys", "revoke", id); out != "revoked "+id+"\n" {
			t.Errorf("%s: %s", name, out)
		}
		if got := cli(t.Context(), env, "", "keys", "revoke", id); got.code != exitFailed || !strings.Contains(got.errout, "no such API key") {
			t.Errorf("%s: twice: exit %d, %s", name, got.code, got.errout)
		}
		if got := cli(t.Context(), env, "", "keys", "create", "x", "--scopes", "admin", "--tenant", "nobody"); got.code != exitFailed || !strings.Contains(got.errout, "no such tenant") {
			t.Errorf("%s: an unknown tenant: exit %d, %s", name, got.code, got.errout)
		}
		log := must(t, remote, "audit-log", "list", "--object", id)
		made, ended := lineWith(t, log, "api_key.created"), lineWith(t, log, "api_key.revoked")
		who, from := machineUser()+" (cli)", ""
		if name == "server" {
			who, from = "(key_", "127.0.0.1"
		}
		for _, line := range []string{made, ended} {
			if !strings.Contains(line, who) || !strings.Contains(line, from) || strings.Contains(line, key) {
				t.Errorf("%s: the audit log has %s", name, line)
			}
		}
	}
	var p page
	out := must(t, remote, "audit-log", "list", "--action", "tenant.created", "--since", "1h", "--json")
	if err := json.Unmarshal([]byte(out), &p); err != nil || len(p.Data) != 1 {
		t.Errorf("%v: %s", err, out)
	}
	if got := cli(t.Context(), remote, "", "audit-log", "list", "--action", "nix"); got.code != exitUsage {
		t.Errorf("an unknown action: exit %d, %s", got.code, got.errout)
	}
}

func lineWith(t *testing.T, text, word string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			return line
		}
	}
	t.Fatalf("no %s in\n%s", word, text)
	return ""
}

func TestMetricsHaveAnAddressOfTheirOwn(t *testing.T) {
	t.Parallel()
	server := goCLI(t, serverEnv(t, "POSTRIDER_METRICS_ADDR=127.0.0.1:0"), "serve")
	base := strings.TrimPrefix(clientEnv(t, server)[0], "POSTRIDER_URL=")
	metrics := "http://" + server.log.await(t, `"addr":"([^"]+)","time":"[^"]+","message":"metrics.listening"`)
	for url, want := range map[string]int{
		metrics + "/metrics": 200, metrics + "/v1/tenants": 404, base + "/metrics": 404, base + "/readyz": 200,
	} {
		status, body := get(t, url)
		if status != want {
			t.Errorf("%s: %d, want %d", url, status, want)
		}
		if strings.HasSuffix(url, "/metrics") && want == 200 && !strings.Contains(body, "postrider_build_info{") {
			t.Errorf("the metrics:\n%s", body)
		}
	}
}

// A server holds up who guesses keys, counts it and says so; the admin goes on from the same address.
func TestGuessersAreHeldUpAndCounted(t *testing.T) {
	t.Parallel()
	server := goCLI(t, serverEnv(t), "serve", "--roles", "api")
	remote := clientEnv(t, server)
	must(t, remote, "keys", "list", "--url", strings.TrimPrefix(remote[0], "POSTRIDER_URL="))
	for i := 0; ; i++ {
		got := cli(t.Context(), []string{remote[0], fmt.Sprint("POSTRIDER_API_KEY=prk_guess_", i)}, "", "tenants", "list")
		if strings.Contains(got.errout, "(429 ") {
			break
		}
		if i == 100 || !strings.Contains(got.errout, "(401 ") {
			t.Fatalf("guess %d: exit %d, %s", i, got.code, got.errout)
		}
	}
	server.log.await(t, `"from":"127.0.0.1",("time":"[^"]+",)?"message":"auth.limited"`)
	must(t, remote, "tenants", "list")
	_, figures := get(t, strings.TrimPrefix(remote[0], "POSTRIDER_URL=")+"/metrics")
	for _, line := range []string{`postrider_auth_failures_total{reason="limited"} 1`, `postrider_auth_failures_total{reason="missing"} 0`} {
		if !strings.Contains(figures, line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}
}

// get fetches a page over a connection that is not kept.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestNoSecretIsLogged(t *testing.T) {
	t.Parallel()
	env := serverEnv(t, "POSTRIDER_LOG_LEVEL=trace")
	server := goCLI(t, env, "serve")
	client := clientEnv(t, server)
	url, got := target(t)
	must(t, client, "tenants", "create", "Acme", "--uid", "acme")
	const token, payload = "canary-header-token", "canary-payload"
	created := must(t, client, "endpoints", "create", url+"/?t=canary-query", "--tenant", "acme", "--header", "Authorization: "+token, "--json")
	var e endpoint
	if err := json.Unmarshal([]byte(created), &e); err != nil {
		t.Fatal(err)
	}
	must(t, client, "events", "send", "--tenant", "acme", "--type", "a", "--data", fmt.Sprintf("%q", payload))
	<-got
	server.stop(t)
	password, _, _ := strings.Cut(strings.TrimPrefix(pgtest.URL(t), "postgres://postrider:"), "@")
	for what, secret := range map[string]string{
		"the admin key": adminKey, "the sealing key": testKey, "the signing secret": e.Signature.Secret, "a header": token,
		"a payload": payload, "the URL's query": "canary-query", "the database's password": ":" + password + "@",
	} {
		if secret == "" || strings.Contains(server.log.String(), secret) || strings.Contains(server.out.String(), secret) {
			t.Errorf("%s is in the log:\n%s", what, server.log)
		}
	}
}
