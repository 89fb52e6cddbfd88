package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/pgtest"
)

const (
	adminKey  = "an-admin-key-for-the-end-to-end-tests"
	sealKey   = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=" // 32 bytes
	patience  = 30 * time.Second                               // for what should take a moment; only a failure waits it out
	killGrace = 20 * time.Second
)

// process is `postrider serve` with its own database and a schedule in tenths of seconds.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	url string // of the API

	mu   sync.Mutex
	log  bytes.Buffer
	done chan error
}

// settings are environment variables without their prefix, over the tests' own.
type settings map[string]string

// anotherBinary is a setting that is none: another binary than the one under test, such as that of the version before.
const anotherBinary = "-binary"

// command is the binary with its arguments, and with nothing in its environment but the settings.
func (s settings) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	for key, value := range s {
		switch {
		case key == anotherBinary:
			cmd.Path = value
			continue
		case !strings.HasPrefix(key, "SSL_") && !strings.HasPrefix(key, "OTEL_"): // those are Go's and OpenTelemetry's
			key = "POSTRIDER_" + key
		}
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	return cmd
}

// serve starts a process on the test's database and waits until it takes requests.
func serve(t *testing.T, over settings) *process {
	t.Helper()
	p := start(t, over)
	p.t.Cleanup(p.stop)
	return p
}

func start(t *testing.T, over settings) *process {
	t.Helper()
	return startAs(t, "api,dispatcher,scheduler", over)
}

// startAs is start with the roles that the process has; any process listens at least for health checks.
func startAs(t *testing.T, roles string, over settings) *process {
	t.Helper()
	p, err := tryStart(t, roles, over)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tryStart is startAs for a process that may not come up.
func tryStart(t *testing.T, roles string, over settings) (*process, error) {
	t.Helper()
	env := settings{
		"DATABASE_MIGRATE_ON_START": "true",
		"HTTP_ADDR":                 "127.0.0.1:0",
		"SECRETS_KEYS":              sealKey,
		"BOOTSTRAP_ADMIN_KEY":       adminKey,
		"DELIVERY_ALLOW_HTTP":       "true",
		"DELIVERY_ALLOW_NETWORKS":   "127.0.0.0/8,::1/128",
		"DELIVERY_RETRY_SCHEDULE":   "100ms,100ms,100ms,100ms,100ms",
		"DELIVERY_TIMEOUT":          "2s",
		"DELIVERY_CONNECT_TIMEOUT":  "1s",
		"DELIVERY_LEASE":            "4s",
	}
	maps.Copy(env, over)
	if env["DATABASE_URL"] == "" {
		env["DATABASE_URL"] = pgtest.URL(t)
	}
	p := &process{t: t, done: make(chan error, 1)}
	p.cmd = env.command(t, "serve", "--roles", roles)
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan string, 1)
	go p.follow(out, listening)
	select {
	case addr := <-listening:
		p.url = "http://" + addr
		return p, nil
	case err := <-p.done:
		return nil, fmt.Errorf("serve ended: %w\n%s", err, p.logged())
	case <-time.After(patience):
		p.kill()
		return nil, fmt.Errorf("serve does not listen\n%s", p.logged())
	}
}

// follow keeps the log, and tells the address from its line.
func (p *process) follow(out io.Reader, listening chan<- string) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.mu.Lock()
		p.log.Write(lines.Bytes())
		p.log.WriteByte('\n')
		p.mu.Unlock()
		var line struct{ Addr, Message string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && strings.HasSuffix(line.Message, "listening") {
			select {
			case listening <- line.Addr:
			default:
			}
		}
	}
	p.done <- p.cmd.Wait()
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// kill is kill -9, and waits until the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
	p.done <- nil
}

// stop ends the process as an operator does. One that is dead already is fine; one that does not end is a failure.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-p.done:
		if err != nil {
			p.t.Errorf("serve ended with %v\n%s", err, p.logged())
		}
		p.done <- nil
	case <-time.After(killGrace):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		<-p.done
		p.t.Errorf("serve did not stop on SIGTERM\n%s", p.logged())
	}
	if p.t.Failed() {
		p.t.Logf("log of the process:\n%s", p.logged())
	}
}

// command runs the program and gives its exit code; what it says goes to the test's log.
func command(t *testing.T, env settings, args ...string) (code int) {
	t.Helper()
	code, said := output(t, env, args...)
	t.Logf("%s: %s", strings.Join(args, " "), strings.TrimSpace(said))
	return code
}

// output runs the program and gives its exit code and what it prints.
func output(t *testing.T, env settings, args ...string) (code int, printed string) {
	t.Helper()
	cmd := env.command(t, args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), said.String()
}

// freePort is one below those that the kernel gives to outgoing connections, which could take it before a restart does.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 10240 + rand.IntN(32768-10240)
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// eventually waits until ok says "", which is the last reason why not.
func eventually(t *testing.T, ok func() string) {
	t.Helper()
	within(t, patience, ok)
}

// within is eventually with a time of its own: a channel that failed is tried again after half a minute.
func within(t *testing.T, limit time.Duration, ok func() string) {
	t.Helper()
	late := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for why := ok(); why != ""; why = ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal(why)
		}
	}
}

func sprint(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
