//go:build interop

package docs_test

import (
	"os"
	"path/filepath"
	"testing"
)

// scripts/interop fetches the library that the Node.js receiver imports.
func TestNodeReceiver(t *testing.T) {
	t.Parallel()
	dir := place(t, map[string]string{
		"receiver.mjs": snippet(t, "verify: node"), "harness.mjs": read(t, "docs/testdata/harness.mjs"),
	})
	libraries, err := filepath.Abs(filepath.Join(root, "interop", "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(libraries, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	judge(t, deliveries(t, false), dir, "node", "harness.mjs")
}

// scripts/interop installs Python where it is missing.
func TestPythonReceiver(t *testing.T) {
	t.Parallel()
	dir := place(t, map[string]string{
		"receiver.py": snippet(t, "verify: python"), "harness.py": read(t, "docs/testdata/harness.py"),
	})
	judge(t, deliveries(t, true), dir, "python3", "-B", "harness.py")
}
