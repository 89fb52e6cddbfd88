package pgcluster

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A killed parent takes its server along, and leaves nothing that hinders the next one.
func TestParentKilled(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), helperDir+"="+dir)
	parent.Stderr = t.Output()
	stdin, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close() // it is only there to stay open
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, readErr := bufio.NewReader(stdout).ReadString('\n')
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := parent.Wait(); err == nil {
		t.Fatal("the parent ended by itself")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || readErr != nil {
		t.Fatalf("the parent said %q: %v, %v", line, err, readErr)
	}

	f := &folder{dir: dir}
	if gone, err := f.awaitGone(t.Context(), pid, fastPatience); err != nil || !gone {
		t.Fatalf("its server still runs (%v)", err)
	}
	c := start(t, Options{Dir: dir})
	if got := query(t, c.URL(), `SELECT 'up'`); got != "up" {
		t.Error(got)
	}
}

// What a killed process can leave in a folder, each with a server that comes up all the same.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	c := start(t, Options{Dir: dir})
	url := c.URL()

	t.Run("a server that lost its parent", func(t *testing.T) {
		// As far as the folder can tell, this one's parent is gone: nobody holds the lock.
		if err := c.dir.lock.Close(); err != nil {
			t.Fatal(err)
		}
		c.dir.lock = nil
		next := start(t, Options{Dir: dir})
		<-c.server.done
		if got := query(t, next.URL(), `SELECT 'up'`); got != "up" || next.URL() != url {
			t.Errorf("%s at %s", got, next.URL())
		}
	})

	t.Run("a pid file whose pid another program has now", func(t *testing.T) {
		other := exec.Command("sleep", "60")
		other.SysProcAttr = c.dir.account.attributes()
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := other.Process.Kill(); err != nil {
				t.Error(err)
			}
			if err := other.Wait(); err == nil {
				t.Error("the other program ended by itself: was it taken for a server?")
			}
		}()
		pidFile := filepath.Join(c.dir.data(), "postmaster.pid")
		if err := os.WriteFile(pidFile, fmt.Appendf(nil, "%d\n%s\n", other.Process.Pid, c.dir.data()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.dir.account.own(pidFile); err != nil {
			t.Fatal(err)
		}
		next := start(t, Options{Dir: dir})
		if got := query(t, next.URL(), `SELECT 'up'`); got != "up" {
			t.Error(got)
		}
		if err := other.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the other program is gone: %v", err)
		}
	})

	t.Run("a port that is taken by now", func(t *testing.T) {
		if err := c.dir.readState(); err != nil {
			t.Fatal(err)
		}
		taken := listen(t, c.dir.state.Port)
		next := start(t, Options{Dir: dir})
		if next.dir.state.Port == taken {
			t.Error("it has the port of another")
		}
		if got := query(t, next.URL(), `SELECT 'up'`); got != "up" {
			t.Error(got)
		}
	})

	t.Run("a cluster that was never finished", func(t *testing.T) {
		half := filepath.Join(filepath.Dir(dir), "half")
		if err := os.MkdirAll(filepath.Join(half, "data.new", "base"), 0o700); err != nil {
			t.Fatal(err)
		}
		next := start(t, Options{Dir: half})
		if got := query(t, next.URL(), `SELECT 'up'`); got != "up" {
			t.Error(got)
		}
	})
}
