// Command postrider sends webhooks reliably: it is the server, the tools around it and a client of its HTTP API.
//
// main.go parses, runs and exits; each command has a file; wire.go builds the parts of a process out of the configuration
// and supervise.go starts and stops them. Nothing here decides about an event, a delivery or an endpoint: the packages
// that are wired together do.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"
)

// world is all that a command touches of the process it runs in, so that a test can give it another one.
type world struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string // as os.Environ gives it
	program        string   // how it was called: os.Args[0]
	now            func() time.Time
}

// garbage is how much may be allocated, in percent of what is in use, before it is collected: Go's own 100 would have a
// sending process collect a small heap many times a second, for a third of its time. GOGC in the environment goes before.
const garbage = 400

func main() {
	w := world{os.Stdin, os.Stdout, os.Stderr, os.Environ(), os.Args[0], time.Now}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	os.Exit(untilSecondSignal(w, os.Args[1:]))
}

// untilSecondSignal runs the command line. The first signal asks it to stop, the second one does not wait for that.
func untilSecondSignal(w world, args []string) int {
	signals := make(chan os.Signal, 2)
	stopSignals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // else we were started with nohup, and a closed terminal is to mean nothing
		stopSignals = append(stopSignals, syscall.SIGHUP)
	}
	signal.Notify(signals, stopSignals...)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	code := make(chan int, 1)
	go func() { code <- run(ctx, w, args) }()
	for stopping := false; ; stopping = true {
		select {
		case c := <-code:
			return c
		case s := <-signals:
			if stopping {
				fmt.Fprintln(w.stderr, "postrider: stopped at once by a second signal")
				return exitFailed
			}
			cancel(signalError{s})
		}
	}
}

// signalError is why a command's context ended.
type signalError struct{ os.Signal }

func (e signalError) Error() string { return "stopped by a signal: " + e.String() }

// run parses the command line, runs its command and gives the exit code.
func run(ctx context.Context, w world, args []string) int {
	root := newRoot(w)
	root.SetArgs(args)
	return report(w.stderr, root.ExecuteContext(ctx))
}
