package config

import (
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
)

const examplePath = "../postrider.example.yaml"

var update = flag.Bool("update", false, "write "+examplePath+" anew")

// exampleText is what the example file has to say: every key with its default, under a line that explains it.
func exampleText() string {
	var out strings.Builder
	out.WriteString(`# Every key of Postrider, with its default. Copy what you change to postrider.yaml, or name the file with --config.
# A flag (--http.addr) wins over an environment variable (POSTRIDER_HTTP_ADDR), that over this file, that over the default.
# A key without a value has no default. Durations are Go's, plus d: 90s, 1h30m, 30d. Sizes are bytes, kB, MB, KiB, MiB.
# Lists are written with commas (1m,5m) or as YAML lists. An unknown key or a bad value stops the start with one line.
`)
	section := ""
	for _, k := range keys {
		of, name := k.name[:strings.LastIndexByte(k.name, '.')], k.name[strings.LastIndexByte(k.name, '.')+1:]
		indent := strings.Repeat("  ", strings.Count(k.name, "."))
		if of != section {
			outer, inner, nested := strings.Cut(of, ".")
			switch {
			case !nested:
				out.WriteString("\n" + outer + ":\n")
			default:
				out.WriteString("  " + inner + ":\n")
			}
			section = of
		}
		out.WriteString(indent + "# " + k.usage + "\n" + strings.TrimRight(indent+name+": "+k.def, " ") + "\n")
	}
	return out.String()
}

func TestExampleFile(t *testing.T) {
	t.Parallel()
	if *update {
		if err := os.WriteFile(examplePath, []byte(exampleText()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != exampleText() {
		t.Error("the file is not what the table of keys says; go test ./config -run TestExampleFile -update writes it anew")
	}
}

// The example holds every key of the contract, and loads to the very defaults.
func TestExampleFileIsTheDefaults(t *testing.T) {
	t.Parallel()
	c, err := Load(nil, examplePath, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	for _, k := range everyKey {
		if got := field(c, k.field); !reflect.DeepEqual(got, k.def) {
			t.Errorf("%s is %#v, by default %#v", k.name, got, k.def)
		}
		standard, _ := lookup(k.name)
		if want := map[bool]Source{true: SourceFile, false: SourceDefault}[standard.def != ""]; c.Source(k.name) != want {
			t.Errorf("%s comes from the %s, want %s", k.name, c.Source(k.name), want)
		}
	}
	text, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	section, inner := "", ""
	for line := range strings.Lines(string(text)) {
		name, _, isKey := strings.Cut(strings.TrimRight(line, "\n"), ":")
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "#") || !isKey:
		case strings.HasPrefix(name, "    "):
			seen[section+"."+inner+"."+strings.TrimSpace(name)] = true
		case strings.HasPrefix(name, " "):
			inner = strings.TrimSpace(name)
			seen[section+"."+inner] = true
		default:
			section = name
		}
	}
	for _, k := range everyKey {
		if !seen[k.name] {
			t.Errorf("%s is not in the example", k.name)
		}
	}
}
