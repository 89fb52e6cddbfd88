package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
)

// broker is a server of Debian's packages with a folder and ports of its own.
type broker struct {
	t     *testing.T
	url   string
	make  func() *exec.Cmd
	cmd   *exec.Cmd
	ready func(ctx context.Context) error
}

// launch starts the broker, and waits until it takes connections.
func (b *broker) launch() {
	b.t.Helper()
	b.cmd = b.make()
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	log, err := os.CreateTemp(b.t.TempDir(), "broker-*.log")
	if err != nil {
		b.t.Fatal(err)
	}
	defer log.Close()
	b.cmd.Stdout, b.cmd.Stderr = log, log
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	eventually(b.t, func() string {
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		if err := b.ready(ctx); err != nil {
			said, _ := os.ReadFile(log.Name())
			return fmt.Sprintf("%s is not ready: %v\n%s", b.cmd.Path, err, said)
		}
		return ""
	})
}

// kill ends the broker and what it has started, at once.
func (b *broker) kill() {
	_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL) // its own group
	_ = b.cmd.Wait()
}

func find(t *testing.T, candidates ...string) string {
	t.Helper()
	for _, c := range candidates {
		if path, err := exec.LookPath(c); err == nil {
			return path
		}
	}
	t.Fatalf("%s is not there: scripts/deps brokers", candidates[0])
	return ""
}

// startNATS starts a nats-server with JetStream, whose data outlives kill and launch.
func startNATS(t *testing.T) *broker {
	t.Helper()
	program, port, data := find(t, "nats-server", "/usr/sbin/nats-server"), freePort(t), t.TempDir()
	b := &broker{t: t, url: "nats://127.0.0.1:" + strconv.Itoa(port)}
	b.make = func() *exec.Cmd {
		return exec.Command(program, "-js", "-sd", data, "-a", "127.0.0.1", "-p", strconv.Itoa(port))
	}
	b.ready = func(context.Context) error {
		conn, err := nats.Connect(b.url)
		if err == nil {
			conn.Close()
		}
		return err
	}
	b.launch()
	t.Cleanup(b.kill)
	return b
}

// stream makes a stream of all subjects below `events.`, and one that takes what was refused.
func (b *broker) stream() jetstream.JetStream {
	b.t.Helper()
	conn, err := nats.Connect(b.url, nats.MaxReconnects(-1))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		b.t.Fatal(err)
	}
	for name, subject := range map[string]string{"EVENTS": "events.>", "REFUSED": "refused"} {
		if _, err := js.CreateStream(b.t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}}); err != nil {
			b.t.Fatal(err)
		}
	}
	return js
}

// startRabbit starts a RabbitMQ with a port mapper of its own, as the user that we are.
func startRabbit(t *testing.T) *broker {
	t.Helper()
	program := find(t, "/usr/lib/rabbitmq/bin/rabbitmq-server")
	home, port, mapper := t.TempDir(), freePort(t), strconv.Itoa(freePort(t))
	settings := fmt.Sprintf("listeners.tcp.1 = 127.0.0.1:%d\n", port)
	if err := os.WriteFile(filepath.Join(home, "rabbitmq.conf"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	names := exec.Command(find(t, "epmd"), "-port", mapper, "-address", "127.0.0.1")
	names.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := names.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = names.Process.Kill()
		_ = names.Wait()
	})
	b := &broker{t: t, url: fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", port)}
	distribution := strconv.Itoa(freePort(t))
	b.make = func() *exec.Cmd {
		cmd := exec.Command(program)
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + home, "ERL_EPMD_PORT=" + mapper, "ERL_EPMD_ADDRESS=127.0.0.1",
			"RABBITMQ_NODENAME=postrider@localhost", "RABBITMQ_DIST_PORT=" + distribution,
			"RABBITMQ_MNESIA_BASE=" + filepath.Join(home, "data"), "RABBITMQ_LOG_BASE=" + filepath.Join(home, "log"),
			"RABBITMQ_CONFIG_FILE=" + filepath.Join(home, "rabbitmq"), "RABBITMQ_PID_FILE=" + filepath.Join(home, "pid"),
			"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(home, "plugins"),
		}
		return cmd
	}
	b.ready = func(context.Context) error {
		conn, err := amqp.Dial(b.url)
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	b.launch()
	t.Cleanup(b.kill)
	return b
}

// queues makes a queue for events and one for what was refused, both durable, and gives a channel whose publishing is confirmed.
func (b *broker) queues() *amqp.Channel {
	b.t.Helper()
	conn, err := amqp.Dial(b.url)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		b.t.Fatal(err)
	}
	for _, queue := range []string{"events", "refused"} {
		if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
			b.t.Fatal(err)
		}
	}
	return ch
}
