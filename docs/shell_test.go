package docs_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// terminal is a program that goes on beside the test, in a process group of its own, with what it has printed so far.
type terminal struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // closed at the next output
}

// begin starts it. When the test is over it is asked to end, and has to.
func begin(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	out := &terminal{cmd: cmd, done: make(chan struct{}), changed: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(out.done)
		_ = cmd.Wait() // its code is in the state
	}()
	t.Cleanup(func() { out.end(t) })
	return out
}

func (o *terminal) end(t *testing.T) {
	t.Helper()
	select {
	case <-o.done:
		if code := o.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%s ended with %d:\n%s", o.cmd, code, o)
		}
		return
	default:
	}
	_ = syscall.Kill(-o.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-o.done:
	case <-time.After(patience):
		_ = syscall.Kill(-o.cmd.Process.Pid, syscall.SIGKILL)
		t.Errorf("%s does not end:\n%s", o.cmd, o)
	}
}

func (o *terminal) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(p)
}

func (o *terminal) String() string {
	if o == nil {
		return "there is none"
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await waits until what it prints matches, and gives the pattern's last group.
func (o *terminal) await(t *testing.T, pattern string) string {
	t.Helper()
	want := regexp.MustCompile(pattern)
	late := time.After(patience)
	for ended := false; ; {
		o.mu.Lock()
		found, changed := want.FindStringSubmatch(o.text.String()), o.changed
		o.mu.Unlock()
		if found != nil {
			return found[len(found)-1]
		}
		if ended {
			t.Fatalf("%s ended without %s:\n%s", o.cmd, pattern, o)
		}
		select {
		case <-changed:
		case <-o.done:
			ended = true
		case <-late:
			t.Fatalf("%s does not print %s:\n%s", o.cmd, pattern, o)
		}
	}
}

// shell is the bash in which a page's commands run one after the other, so that what one sets the next one has.
type shell struct {
	h     *house
	in    io.WriteCloser
	codes *bufio.Scanner
	cmd   *exec.Cmd
	n     int // blocks so far
	other *terminal
}

func newShell(h *house) *shell {
	h.t.Helper()
	codes, theirs, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	s := &shell{h: h, codes: bufio.NewScanner(codes), cmd: exec.Command("bash", "--noprofile", "--norc")}
	s.cmd.Dir, s.cmd.Env, s.cmd.ExtraFiles = h.dir, h.env, []*os.File{theirs}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		h.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	_ = theirs.Close()
	hung := time.AfterFunc(2*patience, func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) })
	h.t.Cleanup(func() {
		_ = s.in.Close()
		_ = s.cmd.Wait() // it may have ended by a command that failed, which was told of
		hung.Stop()
		_ = codes.Close()
	})
	return s
}

// tell has bash do a line, and gives the code that it ends with; "" if bash has ended over it.
func (s *shell) tell(line string) string {
	s.h.t.Helper()
	if _, err := fmt.Fprintf(s.in, "%s\necho $? >&3\n", line); err != nil || !s.codes.Scan() {
		return ""
	}
	return s.codes.Text()
}

// write puts a block into a file, as what it means here.
func (s *shell) write(b block) (file string) {
	s.h.t.Helper()
	s.n++
	file = fmt.Sprintf("%s/.block-%d.%s", s.h.dir, s.n, b.lang)
	if err := os.WriteFile(file, []byte(s.h.here(b.code)), 0o600); err != nil {
		s.h.t.Fatal(err)
	}
	return file
}

// run runs a block, and gives what it printed and its exit code, "" if the shell ended.
func (s *shell) run(b block, mayFail bool) (out, code string) {
	s.h.t.Helper()
	file := s.write(b)
	act := ". " + file
	if b.lang == "sql" {
		act = "psql \"$DATABASE_URL\" -X -v ON_ERROR_STOP=1 -f " + file
	}
	if mayFail { // apart, so that it may end the shell that it is in
		act = "set +e; ( set +e; " + act + " )"
	} else {
		act = "set -euo pipefail; " + act
	}
	code = s.tell(act + " >" + file + ".out 2>&1 </dev/null")
	text, err := os.ReadFile(filepath.Clean(file + ".out"))
	if err != nil {
		s.h.t.Fatal(err)
	}
	return string(text), code
}

// beside starts a block in another terminal, which has what this one has exported.
func (s *shell) beside(b block, ready string) {
	s.h.t.Helper()
	file := s.write(b)
	if s.tell("export -p >"+file+".env") != "0" {
		s.h.t.Fatalf("%s: the shell has ended", b)
	}
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", ". "+file+".env; . "+file)
	cmd.Dir, cmd.Env = s.h.dir, s.h.env
	s.other = begin(s.h.t, cmd)
	s.other.await(s.h.t, ready)
	if strings.Contains(b.code, "postrider serve") {
		s.h.opens(s.other)
	}
}
