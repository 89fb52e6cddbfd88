package docs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/config"
	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/signer"
)

// table gives the rows of the Markdown table under a head, each by its cells.
func table(t *testing.T, document, head string) [][]string {
	t.Helper()
	_, rest, found := strings.Cut(read(t, document), "\n"+head+"\n")
	if !found {
		t.Fatalf("%s has no table with the head %s", document, head)
	}
	var rows [][]string
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows[1:] // without the line of dashes
}

// codes gives what stands in back-quotes, and "" for a dash.
func codes(cell string) []string {
	var all []string
	for _, match := range regexp.MustCompile("`[^`]*`|–").FindAllString(cell, -1) {
		all = append(all, strings.Trim(match, "`–"))
	}
	return all
}

// defaults gives each key of the configuration with its default, as `postrider config print` spells it.
func defaults(t *testing.T) map[string]string {
	t.Helper()
	cfg, err := config.Load(nil, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := cfg.Print(&out, true); err != nil {
		t.Fatal(err)
	}
	var printed map[string]struct{ Value any }
	if err := json.Unmarshal(out.Bytes(), &printed); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for key, p := range printed {
		switch v := p.Value.(type) {
		case []any:
			words := make([]string, len(v))
			for i := range v {
				words[i] = fmt.Sprint(v[i])
			}
			all[key] = strings.Join(words, ",")
		default:
			all[key] = fmt.Sprint(v)
		}
	}
	return all
}

func TestConfigurationTableHasEveryKeyWithItsDefault(t *testing.T) {
	t.Parallel()
	want := defaults(t)
	for _, row := range table(t, "README.md", "| key | default | what it sets |") {
		keys, values := codes(row[0]), codes(row[1])
		for i, key := range keys {
			value := values[min(i, len(values)-1)]
			if right, known := want[key]; !known || right != value {
				t.Errorf("README.md gives %s the default %q; it is %q", key, value, right)
			}
			delete(want, key)
		}
	}
	if len(want) > 0 {
		t.Errorf("README.md lacks %v", slices.Sorted(maps.Keys(want)))
	}
}

func TestSchemeTableHasEveryScheme(t *testing.T) {
	t.Parallel()
	var got []string
	for _, row := range table(t, "README.md", "| scheme | headers | signed bytes | secret |") {
		got = append(got, codes(row[0])[0])
		name := signer.SignatureHeader(signer.Scheme(codes(row[0])[0]), "")
		if !strings.Contains(row[1], name) {
			t.Errorf("the scheme %s signs in %s, and the README says %s", codes(row[0])[0], name, row[1])
		}
	}
	var want []string
	for _, s := range signer.Schemes() {
		want = append(want, s.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("schemes %v, want %v", got, want)
	}
}

func TestOutcomeTableHasEveryOutcome(t *testing.T) {
	t.Parallel()
	want := map[string]bool{}
	for _, o := range dispatcher.Outcomes() {
		want[o.String()] = o != dispatcher.Unknown // the process died: there was no answer to show
	}
	for _, row := range table(t, "README.md", "| answer | outcome | the delivery | the endpoint |") {
		for _, name := range codes(row[1]) {
			if !want[name] {
				t.Errorf("README.md has the outcome %s twice, or there is none", name)
			}
			want[name] = false
		}
	}
	for name, missing := range want {
		if missing {
			t.Errorf("README.md lacks the outcome %s", name)
		}
	}
}

// imports gives the modules of go.mod that our code imports, tests included, each with one of the files that do.
func imports(t *testing.T) map[string]string {
	t.Helper()
	var modules []string
	for _, match := range regexp.MustCompile(`(?m)^\t(\S+) v\S+`).FindAllStringSubmatch(read(t, "go.mod"), -1) {
		modules = append(modules, match[1])
	}
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "node_modules" || name == "testdata" || strings.HasPrefix(name, ".") && name != ".."):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			name := strings.Trim(spec.Path.Value, `"`)
			for _, module := range modules {
				if name == module || strings.HasPrefix(name, module+"/") {
					found[module] = path
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestEveryDependencyHasItsReason(t *testing.T) {
	t.Parallel()
	reasons := read(t, "docs/decisions/0010-dependencies.md")
	used := imports(t)
	if len(used) == 0 {
		t.Fatal("no module is imported: is go.mod read rightly?")
	}
	for module, file := range used {
		if !strings.Contains(reasons, "`"+module+"`") {
			t.Errorf("docs/decisions/0010-dependencies.md does not say what %s is for, which %s imports", module, file)
		}
	}
}

func TestEveryReasonIsExplained(t *testing.T) {
	t.Parallel()
	states := read(t, "docs/states.md")
	declared := regexp.MustCompile(`Reason\s*=\s*"(\w+)"`).FindAllStringSubmatch(read(t, "dispatcher/state.go"), -1)
	if len(declared) == 0 {
		t.Fatal("dispatcher/state.go declares no reasons any more")
	}
	for _, match := range declared {
		if !strings.Contains(states, "`"+match[1]+"`") {
			t.Errorf("docs/states.md does not explain the reason %s", match[1])
		}
	}
	for _, s := range dispatcher.States() {
		if !strings.Contains(states, "`"+s.String()+"`") {
			t.Errorf("docs/states.md does not explain the state %s", s)
		}
	}
}

func TestLogLinesToWatchAreWritten(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for _, pattern := range []string{"dispatcher/*.go", "internal/*/*.go", "cmd/postrider/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			code.WriteString(read(t, strings.TrimPrefix(filepath.ToSlash(file), root+"/")))
		}
	}
	for _, row := range table(t, "docs/operating.md", "| line | level | means |") {
		for _, name := range codes(row[0]) {
			// What happened to an alert is put together: "alert." and one of notice_kind.
			verb, put := strings.CutPrefix(name, "alert.")
			together := put && strings.Contains(read(t, "migrations/0001_core.sql"), "'"+verb+"'")
			if !strings.Contains(code.String(), `"`+name+`"`) && !together {
				t.Errorf("docs/operating.md explains the log line %s, which nobody writes", name)
			}
		}
	}
}
