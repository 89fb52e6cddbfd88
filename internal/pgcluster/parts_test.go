package pgcluster

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func listen(t *testing.T, port int) int {
	t.Helper()
	l, err := net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().(*net.TCPAddr).Port
}

func TestChoose(t *testing.T) {
	t.Parallel()
	installed := func(majors ...int) (all []binaries) {
		for _, m := range majors {
			all = append(all, binaries{dir: strconv.Itoa(m), major: m})
		}
		return all
	}
	for name, c := range map[string]struct {
		have  []binaries
		major int
		want  int    // 0: none
		says  string // in the error
	}{
		"nothing":                        {nil, 0, 0, "apt-get install postgresql"},
		"the first":                      {installed(17, 16, 15), 0, 17, ""},
		"the one in PATH goes first":     {installed(16, 17), 0, 16, ""},
		"too old ones are passed over":   {installed(13, 15), 0, 15, ""},
		"only too old":                   {installed(13, 12), 0, 0, "only PostgreSQL 13, 12, and 15"},
		"the cluster's own":              {installed(17, 15), 15, 15, ""},
		"the cluster's own is not there": {installed(17, 16), 15, 0, "made by PostgreSQL 15, and here is only 17, 16"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := choose(c.have, c.major)
			if got.major != c.want || (err == nil) != (c.want != 0) {
				t.Fatal(got, err)
			}
			if err != nil && (!errors.Is(err, ErrNoPostgres) || !strings.Contains(err.Error(), c.says)) {
				t.Error(err)
			}
		})
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	bin, links := t.TempDir(), t.TempDir()
	program := func(name, body string) string {
		path := filepath.Join(bin, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	server := program("postgres", "echo 'postgres (PostgreSQL) 16.3 (Debian 16.3-1)'")
	if b, ok := inspect(server); ok {
		t.Error("taken without an initdb", b)
	}
	program("initdb", "")
	link := filepath.Join(links, "postgres")
	if err := os.Symlink(server, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{server, link} {
		if b, ok := inspect(path); !ok || b != (binaries{dir: bin, major: 16}) {
			t.Errorf("%s: %v, %v", path, b, ok)
		}
	}
	for _, body := range []string{"echo something else", "exit 1"} {
		if b, ok := inspect(program("postgres", body)); ok {
			t.Errorf("%s: taken as %v", body, b)
		}
	}
	if b, ok := inspect(filepath.Join(links, "none")); ok {
		t.Error("taken though not there", b)
	}
}

func TestPickPort(t *testing.T) {
	t.Parallel()
	taken := listen(t, 0)
	if port, err := pickPort(taken, taken+1); err == nil {
		t.Errorf("%d was given, which is taken", port)
	}
	port, err := pickPort(lowestPort, firstOutgoingPort())
	if err != nil || port < lowestPort || port >= firstOutgoingPort() {
		t.Error(port, err)
	}
}

func TestDefaultDir(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/srv/state")
	if got := DefaultDir(); got != "/srv/state/postrider" {
		t.Error(got)
	}
	t.Setenv("HOME", "/home/someone")
	want := "/home/someone/.local/state/postrider"
	if os.Geteuid() == 0 {
		want = "/var/lib/postrider"
	}
	for _, none := range []string{"", "relative/paths/are/invalid"} { // XDG Base Directory Specification 0.8
		t.Setenv("XDG_STATE_HOME", none)
		if got := DefaultDir(); got != want {
			t.Errorf("%q: %s", none, got)
		}
	}
}

func TestClosedAbove(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	shut := filepath.Join(top, "shut")
	inner := filepath.Join(shut, "inner")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	self := account{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	stranger := account{name: "stranger", uid: self.uid + 4242, gid: self.gid + 4242}
	if closed, err := self.closedAbove(inner); closed != "" || err != nil {
		t.Error("closed to ourselves:", closed, err)
	}
	if err := os.Chmod(shut, 0o700); err != nil {
		t.Fatal(err)
	}
	// t.TempDir may itself lie in a folder closed to others; that one is named then, being what to mend first.
	closed, err := stranger.closedAbove(inner)
	if err != nil || closed == "" || !strings.HasPrefix(inner, closed) {
		t.Errorf("%q is closed to a stranger (%v)", closed, err)
	}
	stranger.switched = true
	err = stranger.letIn(inner)
	if err == nil || !strings.Contains(err.Error(), closed+" is closed") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}

func TestSweepTemporary(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	made := func(name string, age time.Duration) string {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(dir, then, then); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	dead, young, held, other := made("postrider-pg-1", 2*time.Hour), made("postrider-pg-2", time.Minute),
		made("postrider-pg-3", 0), made("something-else", 2*time.Hour)
	holder := &folder{dir: held}
	if err := holder.takeLock(); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(held, then, then); err != nil {
		t.Fatal(err)
	}

	sweepTemporary(parent)

	for dir, want := range map[string]bool{dead: false, young: true, held: true, other: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if err := holder.close(false); err != nil {
		t.Error(err)
	}
}
