package config

import (
	"slices"
	"strings"
)

// Fault is one thing that is wrong with the configuration. It never holds a secret.
type Fault struct {
	Key    string // the key, the environment variable or the file that is at fault
	Detail string // what is wrong, and what would be right
	From   string // where it was set: postrider.yaml:12, POSTRIDER_HTTP_ADDR or --http.addr; "" for nowhere
}

// String is the fault in one line.
func (f Fault) String() string {
	line := f.Key + ": " + f.Detail
	if f.From != "" {
		line += " (from " + f.From + ")"
	}
	return line
}

// Error is everything that is wrong, at least one fault.
type Error struct {
	Faults []Fault
}

// Error is a line for each fault.
func (e *Error) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// faults collects what is wrong.
type faults []Fault

// err makes an error of the faults, nil if there are none.
func (fs faults) err() error {
	if len(fs) == 0 {
		return nil
	}
	return &Error{Faults: fs}
}

// about reports whether one of the faults is about key.
func (fs faults) about(key string) bool {
	return slices.ContainsFunc(fs, func(f Fault) bool { return f.Key == key })
}
