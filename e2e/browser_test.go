//go:build browser

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

var only = flag.String("only", "", "the subjects that TestBrowser looks at, with commas between them; all of them without it")

// checked is one line from browser/run.mjs. The last one is a Done and no check.
type checked struct {
	Subject, Name, Detail string
	OK                    bool
	Done                  int
}

// Somebody with Chromium goes through the pages of a server whose every field holds what a page must not fall for. What is
// on the stage is in the files beside this one; what is done there, one file for each subject, in browser/subjects. Each of
// the checks comes back as a line, and is a subtest here.
func TestBrowser(t *testing.T) {
	t.Parallel()
	s := setStage(t)
	drive(t, "run.mjs", s.told())
}

// drive runs a program of the folder browser, tells it of the stage, and judges by what it prints. Ended early it is given
// time to end its browser.
func drive(t *testing.T, script string, told any) {
	t.Helper()
	stage, err := json.Marshal(told)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", script, *only)
	cmd.Dir, cmd.Stdin, cmd.Stderr = "../browser", bytes.NewReader(stage), t.Output()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killGrace
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (scripts/deps installs it)", err)
	}
	seen, done := 0, -1
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v checked
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Errorf("%s printed %q", script, lines.Text())
			continue
		}
		if v.Subject == "" {
			done = v.Done
			continue
		}
		seen++
		t.Run(v.Subject+"/"+v.Name, func(t *testing.T) {
			if !v.OK {
				t.Error(strings.TrimSpace(v.Detail))
			}
		})
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v", script, err)
	}
	if seen == 0 || seen != done {
		t.Errorf("%s printed %d checks and made %d", script, seen, done)
	}
}
