package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// outcome is what a command line came to.
type outcome struct {
	code        int
	out, errout string
}

// call0 is when the tests' commands run, unless they work with a server.
var call0 = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// cli runs a command line as main would, in an environment of its own.
func cli(ctx context.Context, environ []string, stdin string, args ...string) outcome {
	return cliAt(ctx, call0, environ, stdin, args...)
}

// cliAt runs a command line at a time.
func cliAt(ctx context.Context, at time.Time, environ []string, stdin string, args ...string) outcome {
	ctx, cancel := context.WithTimeout(ctx, patience) // what is to be refused might run
	defer cancel()
	var out, errout bytes.Buffer
	w := world{strings.NewReader(stdin), &out, &errout, environ, "bin/postrider", func() time.Time { return at }}
	code := run(ctx, w, args)
	return outcome{code, out.String(), errout.String()}
}

// must runs a command line that has to succeed, and gives what it printed.
func must(t *testing.T, environ []string, args ...string) string {
	t.Helper()
	got := cli(t.Context(), environ, "", args...)
	if got.code != exitDone {
		t.Fatalf("postrider %s: exit %d\n%s%s", strings.Join(args, " "), got.code, got.out, got.errout)
	}
	return got.out
}
