package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/postrider/postrider/config"
	"github.com/postrider/postrider/signer"
)

// generated are the parts of pages that are written from the code, between <!-- generated: name --> and <!-- end: name -->. What stands
// around them is written by hand.
var generated = []struct {
	page, name string
	text       func(*testing.T) string
}{
	{"docs/configuration.md", "keys", configurationText},
	{"docs/commands.md", "commands", commandsText},
	{"docs/verify-signatures.md", "receivers", receiversText},
}

func TestGeneratedPartsAreWhatTheCodeSays(t *testing.T) {
	t.Parallel()
	for _, g := range generated {
		old := read(t, g.page)
		begin, end := "<!-- generated: "+g.name+" -->\n", "<!-- end: "+g.name+" -->\n"
		head, rest, begins := strings.Cut(old, begin)
		_, tail, ends := strings.Cut(rest, end)
		if !begins || !ends {
			t.Errorf("%s lacks %sor %s", g.page, begin, end)
			continue
		}
		next := head + begin + "\n" + g.text(t) + "\n" + end + tail
		switch {
		case next == old:
		case *update:
			if err := os.WriteFile(filepath.Join(root, g.page), []byte(next), 0o600); err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("%s is not what the code says any more: `make docs` writes it anew", g.page)
		}
	}
}

// configurationText is a table and a piece of a file for each section.
func configurationText(t *testing.T) string {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	config.AddFlags(flags)
	var sections []string
	keys := map[string][]*pflag.Flag{}
	flags.VisitAll(func(f *pflag.Flag) {
		section, _, _ := strings.Cut(f.Name, ".")
		if keys[section] == nil {
			sections = append(sections, section)
		}
		keys[section] = append(keys[section], f)
	})
	var out strings.Builder
	for i, section := range sections {
		if i > 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "## %s\n\n| key | default | takes | environment variable | what it sets |\n| --- | --- | --- | --- | --- |\n", section)
		for _, f := range keys[section] {
			def, usage := "–", strings.ReplaceAll(f.Usage, "|", "\\|")
			if f.DefValue != "" {
				def = "`" + f.DefValue + "`"
			}
			usage, _, _ = strings.Cut(usage, " (other users see flags")
			fmt.Fprintf(&out, "| `%s` | %s | %s | `POSTRIDER_%s` | %s |\n", f.Name, def, f.Value.Type(),
				strings.ToUpper(strings.ReplaceAll(f.Name, ".", "_")), usage)
		}
		out.WriteString("\n```yaml\n")
		written := ""
		for _, f := range keys[section] {
			parts := strings.Split(f.Name, ".")
			for depth, part := range parts[:len(parts)-1] {
				if prefix := strings.Join(parts[:depth+1], "."); prefix+"." != written && !strings.HasPrefix(written, prefix+".") {
					out.WriteString(strings.Repeat("  ", depth) + part + ":\n")
				}
			}
			written = strings.Join(parts[:len(parts)-1], ".") + "."
			out.WriteString(strings.TrimRight(strings.Repeat("  ", len(parts)-1)+parts[len(parts)-1]+": "+f.DefValue, " ") + "\n")
		}
		out.WriteString("```\n")
	}
	return out.String()
}

var (
	subcommand = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +\S`)
	flagColumn = regexp.MustCompile(`(?m)^( +-.*?\S) {4,}`)
	keyFlag    = regexp.MustCompile(`(?m)^ +--[a-z]+\.[a-z_.]+ .*\n`)
)

// commandsText is what --help says of every command.
func commandsText(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	var walk func(path []string)
	walk = func(path []string) {
		help := helpOf(t, path)
		before, _, _ := strings.Cut(help, "\nUsage:\n")
		_, list, isGroup := strings.Cut(help, "\nAvailable Commands:\n")
		list, _, _ = strings.Cut(list, "\n\n")
		if len(path) > 0 {
			fmt.Fprintf(&out, "%s postrider %s\n\n", strings.Repeat("#", min(len(path)+1, 4)), strings.Join(path, " "))
			if isGroup {
				out.WriteString(strings.TrimSpace(before) + ".\n\n")
			} else {
				out.WriteString("```text\n" + usageOf(help) + "```\n\n")
			}
		}
		for _, match := range subcommand.FindAllStringSubmatch(list, -1) {
			if !slices.Contains([]string{"help", "completion"}, match[1]) {
				walk(append(slices.Clone(path), match[1]))
			}
		}
	}
	walk(nil)
	return strings.TrimSuffix(out.String(), "\n")
}

// usageOf is the help of a command without the flags of the configuration, which are on a page of their own.
func usageOf(help string) string {
	shorter := keyFlag.ReplaceAllString(help, "")
	if shorter != help { // the columns were as wide as the longest of them
		shorter = flagColumn.ReplaceAllString(shorter, "$1   ")
	}
	lines := strings.Split(strings.TrimSpace(shorter), "\n")
	if shorter != help {
		lines = append(lines, "", "and a flag for keys of the configuration (docs/configuration.md), as far as the command uses them")
	}
	return strings.Join(lines, "\n") + "\n"
}

func helpOf(t *testing.T, path []string) string {
	t.Helper()
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, append(path, "--help")...)
	cmd.Env = []string{"HOME=/home/you", "XDG_STATE_HOME=/home/you/.local/state"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("postrider %s --help: %v\n%s", strings.Join(path, " "), err, out)
	}
	return tidy(string(out))
}

// The portal shows this code to tenants, and its tests run it; here it is taken from the same files.
const receivers = "internal/portal/templates/snippets"

var receiverLanguages = []struct{ name, fence, ending string }{
	{"Go", "go", "go.txt"}, {"Node.js", "js", "mjs"}, {"Python", "python", "py"}, {"PHP", "php", "php"}, {"Ruby", "ruby", "rb"},
}

// receiversText is the code that verifies, for each scheme in each language, folded.
func receiversText(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, scheme := range signer.Schemes() {
		fmt.Fprintf(&out, "### Code for %s\n\n", scheme)
		for _, l := range receiverLanguages {
			code := read(t, receivers+"/"+string(scheme)+"."+l.ending)
			header := strings.ToLower(signer.SignatureHeader(scheme, ""))
			code = strings.ReplaceAll(code, "signature-header-name", header)
			fmt.Fprintf(&out, "<details><summary>%s</summary>\n\n```%s\n%s\n```\n\n</details>\n", l.name, l.fence, strings.TrimSpace(code))
		}
		out.WriteString("\n")
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// A language that the portal has is on the page too.
func TestReceiversAreInEveryLanguageOfThePortal(t *testing.T) {
	t.Parallel()
	found, err := filepath.Glob(filepath.Join(root, receivers, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if want := len(receiverLanguages) * len(signer.Schemes()); len(found) != want {
		t.Errorf("%s has %d files, and the page shows %d", receivers, len(found), want)
	}
}
