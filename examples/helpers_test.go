// Package examples_test runs the examples as their READMEs say: the programs themselves, on real sockets and databases.
package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/apitest"
	"github.com/postrider/postrider/internal/pgtest"
)

const patience = time.Minute // for what should take a moment; only a failure waits it out

// program is one that runs until it is stopped.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	done chan struct{} // closed when it has ended

	mu   sync.Mutex
	said bytes.Buffer
}

var listens = regexp.MustCompile(`http://127\.0\.0\.1:\d+|"addr":"(127\.0\.0\.1:\d+)".*listening"`)

// launch starts a program and waits until it says where it listens.
func launch(t *testing.T, env map[string]string, name string, args ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Env = environ(t, env)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = in, in
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	_ = in.Close()
	found := make(chan string, 1)
	go p.follow(out, found)
	t.Cleanup(p.stop)
	select {
	case p.url = <-found:
	case <-p.done:
		t.Fatalf("%s ended:\n%s", name, p.log())
	case <-time.After(patience):
		t.Fatalf("%s does not listen:\n%s", name, p.log())
	}
	return p
}

// postrider starts the real thing on the test's database. Deliveries may go to this machine.
func postrider(t *testing.T) *program {
	t.Helper()
	return launch(t, map[string]string{
		"POSTRIDER_DATABASE_URL": pgtest.URL(t), "POSTRIDER_DATABASE_MIGRATE_ON_START": "true", "POSTRIDER_HTTP_ADDR": "127.0.0.1:0",
		"POSTRIDER_SECRETS_KEYS":        "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
		"POSTRIDER_BOOTSTRAP_ADMIN_KEY": apitest.AdminKey, "POSTRIDER_DELIVERY_ALLOW_HTTP": "true",
		"POSTRIDER_DELIVERY_ALLOW_NETWORKS": "127.0.0.0/8",
	}, filepath.Join(built, "postrider"), "serve")
}

func environ(t *testing.T, env map[string]string) []string {
	t.Helper()
	all := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "NO_PROXY=*"}
	for name, value := range env {
		all = append(all, name+"="+value)
	}
	return all
}

func (p *program) follow(out io.ReadCloser, found chan<- string) {
	defer close(p.done)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.mu.Lock()
		p.said.Write(lines.Bytes())
		p.said.WriteByte('\n')
		p.mu.Unlock()
		if match := listens.FindStringSubmatch(lines.Text()); match != nil {
			url := match[0]
			if match[1] != "" {
				url = "http://" + match[1]
			}
			select {
			case found <- url:
			default:
			}
		}
	}
	_ = out.Close()
	_ = p.cmd.Wait()
}

func (p *program) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// kill is kill -9, and waits until the program is gone.
func (p *program) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
}

// stop ends the program as its user does, and wants it to end well. One that has ended already is fine.
func (p *program) stop() {
	select {
	case <-p.done:
		return
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			p.t.Errorf("%s ended with %d", p.cmd, code)
		}
	case <-time.After(patience):
		p.kill()
		p.t.Errorf("%s did not stop", p.cmd)
	}
	if p.t.Failed() {
		p.t.Logf("%s:\n%s", p.cmd, p.log())
	}
}

// run runs a program to its end.
func run(t *testing.T, env map[string]string, name string, args ...string) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = environ(t, env)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// direct keeps no connection, so that programs can be stopped whenever a test is done with them.
var direct = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}

// ask makes a request and gives the answer's status and body. A status of 0 is no answer.
func ask(t *testing.T, method, url, body string, header map[string]string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	for name, value := range header {
		req.Header[name] = []string{value}
	}
	resp, err := direct.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(read)
}

// call asks a Postrider, which has to answer with this status, and reads the answer.
func call(t *testing.T, status int, method, url, body string) map[string]any {
	t.Helper()
	got, answer := ask(t, method, url, body, map[string]string{"Authorization": "Bearer " + apitest.AdminKey, "Content-Type": "application/json"})
	if got != status {
		t.Fatalf("%s %s: %d %s", method, url, got, answer)
	}
	read := map[string]any{}
	if err := json.Unmarshal([]byte(answer), &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// eventually waits until something is so.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); !so(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it did not come to be")
		}
	}
}
