//go:build ops

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// units copies the units to a folder, with a program at hand as what they start: this test, which nothing starts here.
func units(t *testing.T) (dir string, names []string) {
	t.Helper()
	dir = t.TempDir()
	files, err := filepath.Glob("systemd/*.service")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		start := regexp.MustCompile(`(?m)^ExecStart=postrider `)
		if !start.Match(text) {
			t.Errorf("%s starts something else", file)
		}
		name := strings.ReplaceAll(filepath.Base(file), "@.", "@dispatcher.")
		if err := os.WriteFile(filepath.Join(dir, name), start.ReplaceAll(text, []byte("ExecStart="+os.Args[0]+" ")), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return dir, names
}

func analyze(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "systemd-analyze", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestOpsUnitsAreSound(t *testing.T) {
	t.Parallel()
	dir, names := units(t)
	for _, name := range names {
		if said := analyze(t, dir, "verify", "--man=no", "./"+name); said != "" {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// From 0 (nothing can be done with it) to 10; what is left is the network, which it is for. The threshold is in tenths.
func TestOpsUnitsAreExposedLittle(t *testing.T) {
	t.Parallel()
	dir, names := units(t)
	for _, name := range names {
		said := analyze(t, dir, "security", "--offline=true", "--no-pager", "--threshold=13", "./"+name)
		if !strings.Contains(said, "Overall exposure level") {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// The three differ in what they start and when, and in nothing that protects.
func TestOpsUnitsAreHardenedAlike(t *testing.T) {
	t.Parallel()
	var first []string
	for _, name := range []string{"postrider.service", "postrider@.service", "postrider-migrate.service"} {
		text, err := os.ReadFile("systemd/" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "\nDynamicUser=")
		rest, _, _ = strings.Cut(rest, "\n[Install]")
		lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(rest), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "#") || line == "EnvironmentFile=-/etc/postrider/%i.env"
		})
		if first == nil {
			first = lines
		}
		if len(lines) < 25 || !slices.Equal(lines, first) {
			t.Errorf("%s: %q, want %q", name, lines, first)
		}
	}
}
