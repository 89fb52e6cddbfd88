// Command withpg runs a command beside a throw-away PostgreSQL, whose URL the command finds in
// POSTRIDER_TEST_DATABASE_URL (the owner's, who is no superuser) and POSTRIDER_TEST_ADMIN_URL (the superuser's), and
// passes the command's exit code on. Nothing of the server is left afterwards.
//
//	go run ./scripts/withpg -- go test ./...
//
// With -durable the server waits for the disk as in production, for benchmarks.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/mattn/go-isatty"

	"github.com/postrider/postrider/internal/pgcluster"
)

// usageError is the exit code for a command line that makes no sense, as of `postrider` itself; failed is for what goes
// wrong around the command.
const (
	failed     = 1
	usageError = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("withpg", flag.ContinueOnError)
	flags.SetOutput(stderr)
	durable := flags.Bool("durable", false, "wait for the disk, as production does")
	logPath := flags.String("log", "", "append what the server prints to this `file`")
	settings := map[string]string{}
	flags.Func("c", "a setting of the server, `name=value`; may be repeated", func(pair string) error {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return errors.New("want name=value")
		}
		settings[name] = value
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return usageError
	}
	if flags.NArg() == 0 {
		_, _ = fmt.Fprintln(stderr, "withpg: no command given: go run ./scripts/withpg -- go test ./...")
		return usageError
	}
	if *durable {
		for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
			if _, given := settings[name]; !given {
				settings[name] = "on"
			}
		}
	}
	if _, err := exec.LookPath(flags.Arg(0)); err != nil {
		_, _ = fmt.Fprintln(stderr, "withpg:", err)
		return failed
	}
	cmd := exec.Command(flags.Arg(0), flags.Args()[1:]...) //nolint:gosec // running what it is told to is its purpose
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	code, err := beside(cmd, pgcluster.Options{Ephemeral: true, Settings: settings}, *logPath)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "withpg:", err)
		return max(code, failed)
	}
	return code
}

// beside runs the command while a cluster is up and gives its exit code.
func beside(cmd *exec.Cmd, opts pgcluster.Options, logPath string) (code int, err error) {
	// Listen before anything is there to be cleaned up.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if logPath != "" {
		log, openErr := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if openErr != nil {
			return 0, fmt.Errorf("open the server's log: %w", openErr)
		}
		defer func() { err = errors.Join(err, log.Close()) }()
		opts.Log = log
	}
	cluster, err := startUnless(signals, opts)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	cmd.Env = append(os.Environ(),
		"POSTRIDER_TEST_DATABASE_URL="+cluster.URL(), "POSTRIDER_TEST_ADMIN_URL="+cluster.AdminURL())
	return runCommand(cmd, signals)
}

// startUnless starts the cluster unless a signal comes first.
func startUnless(signals <-chan os.Signal, opts pgcluster.Options) (*pgcluster.Cluster, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	started := make(chan struct{})
	defer close(started)
	go func() {
		select {
		case s := <-signals:
			cancel(fmt.Errorf("stopped by a signal: %v", s))
		case <-started:
		}
	}()
	return pgcluster.Start(ctx, opts)
}

// runCommand passes signals on. On a terminal the command is in our process group, where Ctrl-C reaches it without us;
// elsewhere it gets a group of its own and the whole group gets the signal, so that `go test` leaves no test binary behind.
func runCommand(cmd *exec.Cmd, signals <-chan os.Signal) (int, error) {
	terminal := isatty.IsTerminal(os.Stdin.Fd())
	if !terminal {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the command: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			to := cmd.Process.Pid
			if !terminal {
				to = -to
			}
			if number, ok := s.(syscall.Signal); ok && (!terminal || s != os.Interrupt) {
				_ = syscall.Kill(to, number) // it may be gone by now
			}
		case err := <-done:
			return exitCode(err)
		}
	}
}

// exitCode is the command's, or as a shell has it 128 and the signal that ended it.
func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &exit):
		return 0, fmt.Errorf("run the command: %w", err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}
