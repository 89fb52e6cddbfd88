package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the project's folder, seen from here.
const root = ".."

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// snippet gives the code block of the README that follows the comment <!-- name -->, as it is printed there.
func snippet(t *testing.T, name string) string {
	t.Helper()
	return snippetOf(t, "README.md", name)
}

// snippetOf is snippet of another document.
func snippetOf(t *testing.T, document, name string) string {
	t.Helper()
	_, rest, found := strings.Cut(read(t, document), "<!-- "+name+" -->\n```")
	_, code, fenced := strings.Cut(rest, "\n")
	code, _, closed := strings.Cut(code, "\n```\n")
	if !found || !fenced || !closed {
		t.Fatalf("%s has no code block after <!-- %s -->", document, name)
	}
	return code + "\n"
}

// documents are all Markdown files that are the project's own, by their path in the project.
func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "examples/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			all = append(all, strings.TrimPrefix(filepath.ToSlash(path), root+"/"))
		}
	}
	if len(all) < 10 {
		t.Fatalf("only %d documents found", len(all))
	}
	return all
}

func exists(path string) bool {
	_, err := os.Stat(filepath.Join(root, path))
	return err == nil
}

var markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksLeadToFiles(t *testing.T) {
	t.Parallel()
	for _, document := range documents(t) {
		for _, match := range markdownLink.FindAllStringSubmatch(read(t, document), -1) {
			target, _, _ := strings.Cut(match[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			if !exists(filepath.Join(filepath.Dir(document), target)) {
				t.Errorf("%s links to %s, which is not there", document, match[1])
			}
		}
	}
}

var (
	// A path is what stands in back-quotes and has a slash and an ending of ours, or lies in a folder of ours.
	namedPath = regexp.MustCompile("`((?:cmd|config|dispatcher|docs|interop|internal|migrations|scripts|signer|subscriptions|bench)/[^`\\s*…<>{}]*)`")
	// Names of code stand in back-quotes right before the file that has them: `claimSQL` in `dispatcher/claim.go`.
	namedCode = regexp.MustCompile("((?:`[A-Za-z]\\w*`(?:, | and ))*`[A-Za-z]\\w*`) in\\s+`([a-z/_]+\\.(?:go|sql|yml))`")
	quoted    = regexp.MustCompile("`([^`]+)`")
)

func TestNamedFilesAreThere(t *testing.T) {
	t.Parallel()
	for _, document := range documents(t) {
		for _, match := range namedPath.FindAllStringSubmatch(read(t, document), -1) {
			if !exists(match[1]) {
				t.Errorf("%s names %s, which is not there", document, match[1])
			}
		}
	}
}

func TestNamedCodeIsThere(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, document := range documents(t) {
		for _, match := range namedCode.FindAllStringSubmatch(read(t, document), -1) {
			file := match[2]
			if !exists(file) {
				continue // TestNamedFilesAreThere says so
			}
			code := read(t, file)
			for _, name := range quoted.FindAllStringSubmatch(match[1], -1) {
				checked++
				if !regexp.MustCompile(`\b` + name[1] + `\b`).MatchString(code) {
					t.Errorf("%s says that %s is in %s, where it is not", document, name[1], file)
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d names were checked: do the documents still name them so?", checked)
	}
}
