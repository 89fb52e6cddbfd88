package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/subscriptions"
)

const adminKey = "prk_the_admin_of_the_documents"

// serveAPI gives host:port of an API on a database of its own, with a tenant that is called demo.
func serveAPI(t *testing.T) string {
	t.Helper()
	db, clock := pgtest.Pool(t), &pg.Clock{}
	ids := id.NewGenerator(1, clock.Now)
	box, err := seal.New([][]byte{bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	policy := egress.Policy{}
	store := subscriptions.New(subscriptions.Deps{DB: db, IDs: ids, Now: clock.Now, Box: box, CheckURL: policy.CheckURL})
	uid := "demo"
	if _, err := store.CreateTenant(t.Context(), subscriptions.NewTenant{UID: &uid, Name: "Demo"}); err != nil {
		t.Fatal(err)
	}
	keys := auth.NewKeys(db, ids, clock.Now)
	if err := keys.EnsureBootstrap(t.Context(), adminKey); err != nil {
		t.Fatal(err)
	}
	in := intake.New(intake.Deps{DB: db, IDs: ids, Now: clock.Now, MaxPayload: 1 << 20, Types: store.Catalogue()})
	server := httptest.NewServer(api.New(api.Deps{
		Subscriptions: store, Intake: in, Keys: keys, Audit: audit.NewLog(db), Ping: db.Ping, Logger: zerolog.Nop(), MaxPayload: 1 << 20,
		Deliveries: dispatcher.NewDesk(dispatcher.DeskDeps{DB: db, IDs: ids, Now: clock.Now, Wake: func(int16) {}}),
		Alerts:     alert.NewDesk(db, ids.Next, clock.Now),
		Sessions:   auth.NewSessions(db, ids, keys, clock.Now, auth.SessionOptions{}), PublicURL: "http://127.0.0.1:8080",
	}))
	t.Cleanup(func() {
		server.Close()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := in.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := keys.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return server.Listener.Addr().String()
}

// The calls are run as they are printed, by a shell. Curl is told by its own configuration file that the port they name
// is another one, and to print each answer's status in a line of its own.
func TestPrintedCallsAreTaken(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("there is no curl here: `make test` installs it, as does scripts/deps curl")
	}
	addr := serveAPI(t)
	for _, c := range []struct {
		name     string
		statuses []string
		answer   string // a part of it
	}{
		{"run: envelope", []string{"202"}, `"type":"order.paid"`},
		{"run: raw", []string{"202"}, `"uid":"report-2026-11"`},
		{"run: batch", []string{"202"}, `"status":"succeeded"`}, // nobody subscribes here
		{"run: endpoint", []string{"201", "201"}, `"secret":"whsec_`},
		{"run: catalogue", []string{"201", "422"}, `"/payload/total: is no number but string"`},
		{"run: portal", []string{"201"}, `/portal/enter?token=prl_`},
	} {
		out := curl(t, addr, snippet(t, c.name))
		var statuses []string
		for line := range strings.Lines(out) {
			if status, ok := strings.CutPrefix(strings.TrimSpace(line), "status "); ok {
				statuses = append(statuses, status)
			}
		}
		if strings.Join(statuses, " ") != strings.Join(c.statuses, " ") || !strings.Contains(out, c.answer) {
			t.Errorf("%s: want %v and %s, got\n%s", c.name, c.statuses, c.answer, out)
		}
	}
	again := curl(t, addr, strings.Replace(snippet(t, "run: envelope"), "curl -sS", "curl -sS -i", 1))
	if !strings.Contains(strings.ToLower(again), "idempotent-replayed: true") {
		t.Errorf("the envelope sent once more is no replay:\n%s", again)
	}
}

func curl(t *testing.T, addr, script string) string {
	t.Helper()
	const settings = `connect-to = "127.0.0.1:8080:%s"
write-out = "\nstatus %%{http_code}\n"
max-time = 60
`
	home := place(t, map[string]string{".curlrc": fmt.Sprintf(settings, addr)})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Env = append(os.Environ(), "KEY="+adminKey, "HOME="+home, "CURL_HOME="+home, "no_proxy=*")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

// The port that the README names is the default one.
func TestPrintedPortIsTheDefault(t *testing.T) {
	t.Parallel()
	_, port, err := net.SplitHostPort(defaults(t)["http.addr"])
	if err != nil || port != "8080" {
		t.Errorf("http.addr is by default on port %s, and the README says 8080: %v", port, err)
	}
}
