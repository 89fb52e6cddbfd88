//go:build interop

package docs_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The SQL of the document on MariaDB, whose server scripts/interop installs where it is missing: the table as printed there,
// the producer's transaction, and the relay's statements with values for their parameters.
func TestOutboxOnMariaDB(t *testing.T) {
	t.Parallel()
	ask := mariaDB(t)
	ask(snippetOf(t, outboxDocument, "outbox: mysql"))
	ask(`CREATE TABLE orders (id bigint PRIMARY KEY, state text) ENGINE = InnoDB; INSERT INTO orders VALUES (1001, 'open')`)
	write := snippetOf(t, outboxDocument, "outbox: write")
	ask(write)
	ask(strings.Replace(write, "COMMIT", "ROLLBACK", 1))
	if got := ask(statement(t, "tenants")); got != "demo\n" {
		t.Errorf("%q", got)
	}
	oldest := strings.Replace(statement(t, "oldest"), "$1", "'demo'", 1) + "500"
	cells := strings.Split(strings.TrimSpace(ask(oldest)), "\t")
	if len(cells) != 7 || cells[0] != "1" || len(cells[1]) != 36 || cells[4] != `{"order": 1001, "amount": 49.90}` {
		t.Fatalf("%q", cells)
	}
	ask(strings.NewReplacer("$1", "'no such type'", "$2", "1").Replace(statement(t, "putAside")))
	if got := ask(oldest); got != "" {
		t.Errorf("what was put aside is read: %q", got)
	}
}

// statement gives one of the relay's, by the name of its constant.
func statement(t *testing.T, name string) string {
	t.Helper()
	for line := range strings.Lines(snippetOf(t, outboxDocument, "outbox: go")) {
		if words := strings.Fields(line); len(words) > 2 && words[0] == name && words[1] == "=" {
			return strings.Trim(strings.TrimSpace(line[strings.Index(line, "=")+1:]), "`")
		}
	}
	t.Fatalf("the relay has no statement %s", name)
	return ""
}

// mariaDB starts a server on a socket of its own and gives the way to ask it. Rows come with tabs between their cells.
func mariaDB(t *testing.T) func(sql string) string {
	t.Helper()
	dir := t.TempDir()
	socket, data := filepath.Join(dir, "s"), "--datadir="+filepath.Join(dir, "data")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	t.Cleanup(cancel)
	install := exec.CommandContext(ctx, "mariadb-install-db", "--no-defaults", data, "--user=root", "--auth-root-authentication-method=normal",
		"--skip-test-db")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := exec.CommandContext(ctx, "mariadbd", "--no-defaults", data, "--user=root", "--socket="+socket, "--skip-networking",
		"--pid-file="+filepath.Join(dir, "pid"))
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
	})
	ask := func(database, sql string) (string, error) {
		client := exec.CommandContext(ctx, "mariadb", "--no-defaults", "--socket="+socket, "--user=root", "--batch", "--raw",
			"--skip-column-names", database)
		client.Stdin = strings.NewReader(sql)
		out, err := client.CombinedOutput()
		return string(out), err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		out, err := ask("mysql", "CREATE DATABASE shop")
		if err == nil {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("MariaDB does not come up: %s", out)
		}
	}
	return func(sql string) string {
		t.Helper()
		out, err := ask("shop", sql)
		if err != nil {
			t.Fatalf("%v: %s\n%s", err, out, sql)
		}
		return out
	}
}
