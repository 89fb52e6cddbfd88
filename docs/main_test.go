package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// program is the binary, built for the pages' commands when the first page needs it.
var program = sync.OnceValues(func() (string, error) {
	file := filepath.Join(scratch, "postrider")
	build := exec.Command("go", "build", "-o", file, "../cmd/postrider")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return file, nil
})

// scratch is a folder that is there until the last test is over.
var scratch string

func TestMain(m *testing.M) { os.Exit(withScratch(m)) }

func withScratch(m *testing.M) int {
	dir, err := os.MkdirTemp("", "postrider-docs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	scratch = dir
	return m.Run()
}
