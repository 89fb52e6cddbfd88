package docs_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/apitest"
	"github.com/postrider/postrider/internal/pgtest"
)

// The calls are run as they are printed, by a shell. Curl is told by its own configuration file that the port they name
// is another one, and to print each answer's status in a line of its own.
func TestPrintedCallsAreTaken(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("there is no curl here: `make test` installs it, as does scripts/deps curl")
	}
	addr := strings.TrimPrefix(apitest.Start(t).URL, "http://")
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
		{"run: pull", []string{"201", "202", "200"}, `"webhook-signature":"v1,`},
		{"run: cloudevents", []string{"202"}, `"uid":"paid-1003"`},
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

// The Go that is printed enqueues, wherever it says the server is.
func TestPrintedGoEnqueues(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	const around = `package main

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/postrider/postrider/client"
)

func main() {
	ctx := context.Background()
	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	fmt.Println(err, overHTTP(ctx), within(ctx, db))
}

func overHTTP(ctx context.Context) error {
%s
	fmt.Println(receipt.ID)
	return err
}

func within(ctx context.Context, db *pgx.Conn) error {
%s
	return err
}
`
	if _, err := s.DB.Exec(t.Context(), `CREATE TABLE orders (id int, state text); INSERT INTO orders VALUES (1001, 'open')`); err != nil {
		t.Fatal(err)
	}
	code := strings.Replace(snippet(t, "enqueue: go"), "https://postrider.example.com", s.URL, 1)
	program := shop(t, map[string]string{"main.go": fmt.Sprintf(around, code, snippet(t, "enqueue: tx"))})
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), "POSTRIDER_API_KEY="+apitest.AdminKey, "DATABASE_URL="+pgtest.URL(t))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "evt_") || !strings.HasSuffix(string(out), "\n<nil> <nil> <nil>\n") || s.Events(t) != 2 {
		t.Errorf("%v %s: %d events", err, out, s.Events(t))
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
	cmd.Env = append(os.Environ(), "KEY="+apitest.AdminKey, "HOME="+home, "CURL_HOME="+home, "no_proxy=*")
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
