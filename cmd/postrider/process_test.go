package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mainVariable has the test binary be the program itself.
const mainVariable = "POSTRIDER_TEST_MAIN"

// process is the program as a process of its own, set up by its environment alone.
type process struct {
	*exec.Cmd
	out *watched // both outputs
	end chan error
}

func startProcess(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{exec.Command(os.Args[0], args...), newWatched(), make(chan error, 1)}
	p.Env = append([]string{mainVariable + "=1"}, env...)
	p.Stdout, p.Stderr = p.out, p.out
	p.begin(t)
	return p
}

// begin starts it, and sees to it that it is gone when the test is over.
func (p *process) begin(t *testing.T) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		err := p.Wait()
		p.out.end()
		p.end <- err
	}()
	t.Cleanup(func() { _ = p.Process.Kill() }) // it is gone by then, unless the test failed
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// exit waits for the process' end and gives its exit code.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	select {
	case err := <-p.end:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatalf("it does not end:\n%s", p.out)
	}
	return p.ProcessState.ExitCode()
}

func (p *process) addr(t *testing.T) string {
	t.Helper()
	return p.out.await(t, `"addr":"([^"]+)","time":"[^"]+","message":"listening"`)
}

func TestASignalStopsAProcessInOrder(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			p := startProcess(t, serverEnv(t), "serve")
			p.addr(t)
			p.signal(t, s)
			if code := p.exit(t); code != exitDone {
				t.Errorf("exit %d:\n%s", code, p.out)
			}
			if log := p.out.String(); !strings.Contains(log, `"why":"stopped by a signal: `+s.String()+`"`) ||
				!strings.HasSuffix(log, "\"message\":\"stopped\"}\n") {
				t.Errorf("the log:\n%s", log)
			}
		})
	}
}

func TestASecondSignalDoesNotWait(t *testing.T) {
	t.Parallel()
	p := startProcess(t, serverEnv(t), "serve")
	conn, err := net.Dial("tcp", p.addr(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// A request whose body does not come: a stop would wait for it.
	fmt.Fprintf(conn, "POST /v1/tenants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n", adminKey)
	if _, err := conn.Read(make([]byte, 16)); err != nil { // "100 Continue": it is being read
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGTERM)
	p.out.await(t, `"message":"stopping"`)
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != exitFailed {
		t.Errorf("exit %d:\n%s", code, p.out)
	}
	if log := p.out.String(); !strings.HasSuffix(log, "postrider: stopped at once by a second signal\n") {
		t.Errorf("the log:\n%s", log)
	}
}

func TestExitCodesOfAProcess(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{
		"version": exitDone, "versio": exitUsage, "migrate status": exitFailed, "serve --database.max_conns x": exitUsage,
	} {
		p := startProcess(t, nil, strings.Fields(line)...)
		if code := p.exit(t); code != want {
			t.Errorf("%s: exit %d, want %d:\n%s", line, code, want, p.out)
		}
	}
}
