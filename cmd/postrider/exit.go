package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/config"
)

// The exit codes of every command.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // the command line makes no sense; nothing was tried
)

// usageError says that the command line makes no sense. An empty detail says it by the help that was printed.
type usageError struct {
	detail  string
	command string // whose --help helps
}

func (e usageError) Error() string { return e.detail }

func usagef(cmd *cobra.Command, format string, args ...any) error {
	return usageError{fmt.Sprintf(format, args...), cmd.CommandPath()}
}

// report prints what went wrong, if anything did, and gives the exit code. Each fault is one line.
func report(stderr io.Writer, err error) int {
	var usage usageError
	var bad *config.Error
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		if usage.detail != "" {
			fmt.Fprintf(stderr, "postrider: %s; see '%s --help'\n", oneLine(usage.detail), usage.command)
		}
		return exitUsage
	case errors.As(err, &bad):
		for _, f := range bad.Faults {
			fmt.Fprintln(stderr, "postrider:", oneLine(f.String()))
		}
		if fromFlags(bad.Faults) {
			return exitUsage
		}
		return exitFailed
	}
	for _, e := range split(err) {
		fmt.Fprintln(stderr, "postrider:", oneLine(e.Error()))
	}
	return exitFailed
}

// fromFlags reports whether all that is wrong with the configuration was said on the command line.
func fromFlags(faults []config.Fault) bool {
	for _, f := range faults {
		if !strings.HasPrefix(f.From, "--") {
			return false
		}
	}
	return len(faults) > 0
}

// split takes apart what errors.Join put together.
func split(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error }) // the outermost alone: a list that was wrapped is one error
	if !ok || !strings.Contains(err.Error(), "\n") {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, split(e)...)
	}
	return out
}

// oneLine lets an error of several lines, such as a failed connection to each of a host's addresses, be one, and keeps
// what came from elsewhere from steering the terminal. A line that comes again is left out: an address is tried with TLS
// and without, and refuses both in the same words.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.Join(strings.Fields(line), " "); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return printable(strings.Join(lines, " "))
}
