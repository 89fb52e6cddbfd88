package docs_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// A promise is worth its test: each one that the documents name is there.
func TestNamedTestsAreThere(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := fs.ReadFile(tree, path)
		for _, match := range declared.FindAllStringSubmatch(string(code), -1) {
			there[match[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, document := range documents(t) {
		for _, match := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(read(t, document), -1) {
			named++
			if !there[match[1]] {
				t.Errorf("%s names %s, which is no test", document, match[1])
			}
		}
	}
	if named < 30 {
		t.Errorf("only %d tests are named: do the documents still name them so?", named)
	}
}
