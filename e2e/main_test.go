// Package e2e drives the built program from the outside, as its users meet it: processes that are started, killed and
// stopped, the HTTP API, and receivers that behave in every way the contract has a word for. It holds no code of the
// product, and knows nothing of the database but that it can be away.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// program is the binary under test, built once.
var program string

// atEnd is called after the tests; the suite of faults prints its report there.
var atEnd = func() error { return nil }

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "postrider-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "postrider")
	build := exec.Command("go", "build", "-o", program, "../cmd/postrider")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build the program:", err)
		return 1
	}
	code := m.Run()
	if err := atEnd(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
