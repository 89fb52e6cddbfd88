package docs_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/apitest"
	"github.com/postrider/postrider/internal/pgtest"
)

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

// The port that the README names is the default one.
func TestPrintedPortIsTheDefault(t *testing.T) {
	t.Parallel()
	_, port, err := net.SplitHostPort(defaults(t)["http.addr"])
	if err != nil || port != "8080" {
		t.Errorf("http.addr is by default on port %s, and the README says 8080: %v", port, err)
	}
}
