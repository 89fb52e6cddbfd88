package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunPassesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		out  string // the beginning of what is printed
	}{
		"no command":    {nil, usageError, "withpg: no command given"},
		"unknown flag":  {[]string{"-fast", "--", "true"}, usageError, "flag provided but not defined"},
		"no pair":       {[]string{"-c", "fsync", "--", "true"}, usageError, "invalid value"},
		"no such thing": {[]string{"--", "/does/not/exist"}, failed, "withpg: exec: "},
		"URLs and exit code": {
			[]string{"--", "sh", "-c", `echo "$POSTRIDER_TEST_DATABASE_URL $POSTRIDER_TEST_ADMIN_URL"; exit 7`},
			7, "postgres://postrider:",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if code := run(c.args, strings.NewReader(""), &out, &out); code != c.code || !strings.HasPrefix(out.String(), c.out) {
				t.Errorf("exit code %d, want %d; printed %q, want %q…", code, c.code, out.String(), c.out)
			}
		})
	}
}

// self makes the test binary withpg itself.
const self = "POSTRIDER_WITHPG_SELF"

func init() {
	if os.Getenv(self) != "" {
		os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
}

// A signal to withpg reaches the command and what the command started, and the server ends all the same.
func TestSignal(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0], "--", "sh", "-c", `echo "$POSTRIDER_TEST_DATABASE_URL"; sleep 60; echo late`)
	cmd.Env = append(os.Environ(), self+"=1")
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	url, err := out.ReadString('\n')
	if err != nil || !strings.HasPrefix(url, "postgres://") {
		t.Fatal(url, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out) // ends when all that have the pipe are gone, `sleep` too
	if err != nil || len(rest) != 0 {
		t.Errorf("it went on: %q, %v", rest, err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 128+15 {
		t.Error(err)
	}
}
