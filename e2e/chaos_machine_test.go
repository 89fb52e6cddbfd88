//go:build chaos || ops

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// machine is the processes that work in a folder: Patroni and PostgreSQL with all its children, or etcd.
type machine struct {
	*patroni
	name    string
	dir     string
	port    int // of PostgreSQL, or of etcd's clients
	api     int // Patroni's, or etcd's for its peers
	program string
	args    []string
	pid     int // of Patroni
}

func (c *patroni) machine(name string) *machine {
	m := &machine{patroni: c, name: name, dir: filepath.Join(c.dir, name), port: freePort(c.t)}
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	c.own(m.dir)
	return m
}

// start is a machine's boot. Its output is a file there, which outlives a kill.
func (m *machine) start() {
	m.t.Helper()
	log, err := os.OpenFile(filepath.Join(m.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(m.program, m.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = m.dir, log, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + m.dir, "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: m.as, Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() { // the kernel's signal comes when the thread ends that started the child
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		m.t.Fatalf("start %s: %v", m.program, err)
	}
	m.pid = cmd.Process.Pid
}

// freeze has everything on the machine stand still, and gives the processes.
func (m *machine) freeze() (frozen []int) {
	for before := -1; before < len(frozen); { // one more may have been started meanwhile
		before = len(frozen)
		m.signal(syscall.SIGSTOP)
		frozen = m.pids()
	}
	return frozen
}

// signal reaches all that runs on the machine, Patroni first, which would look after the rest. It gives how many that were.
func (m *machine) signal(s syscall.Signal) (reached int) {
	for _, pid := range m.pids() {
		if syscall.Kill(pid, s) == nil {
			reached++
		}
	}
	return reached
}

// pids are the processes that work in the machine's folder: Patroni in itself, PostgreSQL's below it.
func (m *machine) pids() []int {
	var above, below []int
	all, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		m.t.Fatal(err)
	}
	for _, link := range all {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		switch at, _ := os.Readlink(link); { // one that has ended meanwhile works nowhere
		case at == m.dir:
			above = append(above, pid)
		case strings.HasPrefix(at, m.dir+"/"):
			below = append(below, pid)
		}
	}
	return append(above, below...)
}

// lose is a machine's sudden end: nothing on it says a last word.
func (m *machine) lose() {
	m.t.Helper()
	eventually(m.t, func() string {
		if left := m.signal(syscall.SIGKILL); left > 0 {
			return fmt.Sprintf("%d processes of %s do not end", left, m.name)
		}
		return ""
	})
}

// postmaster is PostgreSQL's first process, which takes connections.
func (m *machine) postmaster() int {
	m.t.Helper()
	pid, err := strconv.Atoi(m.lockFile(1))
	if err != nil {
		m.t.Fatal(err)
	}
	return pid
}

// release gives the bit of shared memory back by which a server that was killed would have known itself again.
func (m *machine) release() {
	if _, id, ok := strings.Cut(strings.TrimSpace(m.lockFile(7)), " "); ok {
		_ = exec.Command("ipcrm", "-m", strings.TrimSpace(id)).Run() // it is gone where the server could stop in order
	}
}

// lockFile gives a line of postmaster.pid (PostgreSQL's miscadmin.h): 1 is the process, 7 are key and id of its memory.
func (m *machine) lockFile(line int) string {
	raw, _ := os.ReadFile(filepath.Join(m.dir, "data", "postmaster.pid"))
	if lines := strings.Split(string(raw), "\n"); len(lines) >= line {
		return lines[line-1]
	}
	return ""
}

// own hands what we made to the cluster's user.
func (c *patroni) own(path string) {
	if c.as == nil {
		return
	}
	if err := os.Chown(path, int(c.as.Uid), int(c.as.Gid)); err != nil {
		c.t.Fatal(err)
	}
}

func account(t *testing.T, name string) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func address(scheme string, port int) string { return fmt.Sprint(scheme, "127.0.0.1:", port) }
