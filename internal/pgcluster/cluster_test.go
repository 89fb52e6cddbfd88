package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// openDir is a folder that the unprivileged user can get to when the tests run as root; t.TempDir's is not.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgcluster-test-") //nolint:usetesting // that one is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "not", "yet", "there")
}

func start(t *testing.T, opts Options) *Cluster {
	t.Helper()
	opts.Log = t.Output()
	c, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, c) })
	return c
}

func stop(t *testing.T, c *Cluster) {
	t.Helper()
	if err := c.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// query runs the statements and gives the last one's value as text.
func query(t *testing.T, url string, statements ...string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var value string
	for i, sql := range statements {
		if i < len(statements)-1 {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		} else if err := conn.QueryRow(t.Context(), sql).Scan(&value); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	return value
}

func TestEphemeral(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Ephemeral: true, Settings: map[string]string{"work_mem": "5MB"}})

	for _, want := range []struct{ url, sql, value string }{
		{c.URL(), `SELECT current_database() || ' ' || current_user || ' ' || current_setting('is_superuser')`, "postrider postrider off"},
		{c.URL(), `SELECT pg_get_userbyid(datdba)::text FROM pg_database WHERE datname = 'postrider'`, "postrider"},
		{c.AdminURL(), `SELECT current_setting('is_superuser')`, "on"},
		{c.URL(), `SELECT current_setting('server_encoding') || ' ' || current_setting('timezone')`, "UTF8 UTC"},
		{c.URL(), `SELECT current_setting('fsync') || ' ' || current_setting('synchronous_commit')`, "off off"},
		{c.URL(), `SELECT current_setting('work_mem')`, "5MB"},
		{c.AdminURL(), `SELECT current_setting('listen_addresses') || current_setting('unix_socket_directories')`, "127.0.0.1"},
		{c.URL(), `SELECT rolcreatedb::text FROM pg_roles WHERE rolname = current_user`, "true"},
	} {
		if got := query(t, want.url, want.sql); got != want.value {
			t.Errorf("%s: %q, want %q", want.sql, got, want.value)
		}
	}
	stranger := strings.Replace(c.AdminURL(), c.dir.state.AdminPassword, "guessed", 1)
	if conn, err := pgx.Connect(t.Context(), stranger); err == nil {
		t.Error("the superuser is let in with a wrong password", conn.Close(t.Context()))
	}

	dir, url := c.dir.dir, c.URL()
	stop(t, c)
	stop(t, c) // again: nothing to do
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		t.Error("the server still runs", conn.Close(t.Context()))
	}
	if err := c.Restart(t.Context()); err == nil {
		t.Error("a stopped cluster restarts")
	}
}

func TestKeptFromRunToRun(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	first := start(t, Options{Dir: dir})
	url := first.URL()
	if got := query(t, url, `SELECT current_setting('fsync')`); got != "on" {
		t.Errorf("fsync is %s in a cluster that is kept", got)
	}
	query(t, url, `CREATE SCHEMA kept`, `CREATE TABLE kept.it AS SELECT 'yes' AS v`, `SELECT v FROM kept.it`)
	info, err := os.Stat(first.dir.statePath())
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the passwords' file has mode %v", info.Mode())
	}

	if second, err := Start(t.Context(), Options{Dir: dir}); err == nil {
		t.Error("a second one starts in the same folder", second.Stop())
	} else if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("process %d,", os.Getpid())) ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("a second one says %q", err)
	}
	stop(t, first)

	again := start(t, Options{Dir: dir})
	if again.URL() != url {
		t.Errorf("the URL was %s and is %s", url, again.URL())
	}
	if got := query(t, again.URL(), `SELECT v FROM kept.it`); got != "yes" {
		t.Errorf("kept.it has %q", got)
	}

	if err := again.Kill(); err != nil {
		t.Fatal(err)
	}
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		t.Error("a killed server answers", conn.Close(t.Context()))
	}
	if err := again.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query(t, again.URL(), `SELECT v FROM kept.it`); again.URL() != url || got != "yes" {
		t.Errorf("after a crash: %s, %q", again.URL(), got)
	}
	if err := again.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop(t, again)

	if err := os.Remove(again.dir.statePath()); err != nil {
		t.Fatal(err)
	}
	if c, err := Start(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "begin anew") {
		t.Error("without its passwords it should say what to do:", c, err)
	}
}

// heard is a log that says so when a text came by.
type heard struct {
	text string
	once sync.Once
	yes  chan struct{}
}

func (h *heard) Write(b []byte) (int, error) {
	if strings.Contains(string(b), h.text) {
		h.once.Do(func() { close(h.yes) })
	}
	return len(b), nil
}

// The URL was handed out, so a restart waits for its port instead of taking another.
func TestRestartWaitsForItsPort(t *testing.T) {
	t.Parallel()
	inUse := &heard{text: "Address already in use", yes: make(chan struct{})}
	c, err := Start(t.Context(), Options{Ephemeral: true, Log: inUse})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, c) })
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(c.dir.state.Port)))
	if err != nil {
		t.Fatal(err)
	}
	url, restarted := c.URL(), make(chan error)
	go func() { restarted <- c.Restart(t.Context()) }()
	select {
	case <-inUse.yes:
	case err := <-restarted:
		t.Fatalf("it did not meet the other listener: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-restarted; err != nil || c.URL() != url {
		t.Fatal(err, c.URL())
	}
	if got := query(t, url, `SELECT 'up'`); got != "up" {
		t.Error(got)
	}
}

func TestStartIsBoundedByItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if c, err := Start(ctx, Options{Dir: openDir(t)}); !errors.Is(err, enough) {
		t.Error(c, err)
	}
}

func TestServerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	c, err := Start(t.Context(), Options{Ephemeral: true, Settings: map[string]string{"work_mem": "much"}})
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "work_mem"`) || strings.Contains(err.Error(), "\n") {
		t.Error(c, err)
	}
}

// A postmaster that is killed takes its sessions with it in the end, and the next start waits for that.
func TestPostmasterKilled(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Ephemeral: true, Settings: map[string]string{"fsync": "on", "synchronous_commit": "on"}})
	session, err := pgx.Connect(t.Context(), c.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close(context.WithoutCancel(t.Context()))
	if _, err := session.Exec(t.Context(), `CREATE TABLE kept AS SELECT 'kept' AS word`); err != nil {
		t.Fatal(err)
	}
	if err := c.KillPostmaster(); err != nil {
		t.Fatal(err)
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query(t, c.URL(), `SELECT word FROM kept`); got != "kept" {
		t.Errorf("after the restart: %q", got)
	}
	if err := session.Ping(t.Context()); err == nil {
		t.Error("a session outlived its server")
	}
}
