package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadLogo(t *testing.T) {
	t.Parallel()
	const svg, png = `<svg xmlns="http://www.w3.org/2000/svg"/>`, "\x89PNG\r\n\x1a\n..."
	for name, c := range map[string]struct{ file, body, want string }{
		"svg":           {"a.svg", svg, "image/svg+xml"},
		"png":           {"a.PNG", png, "image/png"},
		"none":          {"", "", ""},
		"svg as png":    {"a.png", svg, "use portal.logo_file: "},
		"png as svg":    {"a.svg", png, "use portal.logo_file: "},
		"not UTF-8":     {"a.svg", svg + "\xff", "use portal.logo_file: "},
		"empty":         {"a.svg", "", "use portal.logo_file: "},
		"just right":    {"a.png", png + strings.Repeat("x", maxLogo-len(png)), "image/png"},
		"one too large": {"a.png", png + strings.Repeat("x", maxLogo-len(png)+1), "use portal.logo_file: "},
	} {
		path := c.file
		if path != "" {
			path = filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(path, []byte(c.body), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := readLogo(path)
		if err != nil && !strings.HasPrefix(err.Error(), c.want) || err == nil && (got.contentType != c.want || string(got.body) != c.body) {
			t.Errorf("%s: %q, %v", name, got.contentType, err)
		}
	}
	if _, err := readLogo(filepath.Join(t.TempDir(), "no.svg")); err == nil || !strings.Contains(err.Error(), "no.svg") {
		t.Errorf("of a file that is not there: %v", err)
	}
}
