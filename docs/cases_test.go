package docs_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// without are the cases of docs/cases that no test names, with the reason.
var without = map[string]string{
	"FC-047": "CONTRACT §6 names another rule, delivery.disable_after; TestEndpointThatOnlyFailsIsDisabled shows that one",
	"FC-050": "TestRefusals of internal/api walks all routes",
}

// Each case of docs/cases/field-cases.json is named by a test, or by what a test reads.
func TestFieldCasesAreTested(t *testing.T) {
	t.Parallel()
	var file struct{ Cases []struct{ ID string } }
	if err := json.Unmarshal([]byte(read(t, "docs/cases/field-cases.json")), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 34 {
		t.Fatalf("only %d cases", len(file.Cases))
	}
	tests := testsText(t)
	for _, c := range file.Cases {
		if !strings.Contains(tests, c.ID) && without[c.ID] == "" {
			t.Errorf("no test names %s", c.ID)
		}
	}
}

// testsText is all tests of the project but this one, and what lies in their testdata.
func testsText(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == ".git" {
			return err
		}
		is := strings.HasSuffix(path, "_test.go") && filepath.Base(path) != "cases_test.go" ||
			strings.Contains(path, "/testdata/") && strings.HasSuffix(path, ".json")
		if d.IsDir() || !is {
			return nil
		}
		text, err := fs.ReadFile(tree, path)
		all.Write(text)
		return err //nolint:wrapcheck // names the file
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
