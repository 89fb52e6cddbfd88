package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// built is the folder of the programs that are built once for all tests.
var built string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "postrider-examples-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	built = dir
	for _, from := range []string{"../cmd/postrider", "./orders-go"} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, filepath.Base(from)), from)
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build", from+":", err)
			return 1
		}
	}
	return m.Run()
}
