package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

const index = "docs/README.md"

// A page that nobody is led to is not read.
func TestIndexListsEveryPage(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{"README.md": true} // which is the index
	for _, match := range markdownLink.FindAllStringSubmatch(read(t, index), -1) {
		listed[match[1]] = true
	}
	found, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range found {
		if !listed[name] {
			t.Errorf("%s does not list %s: add a line such as `- [Name](%s): what is found there`, in the group that fits", index, name, name)
		}
	}
	if !strings.Contains(read(t, "README.md"), "("+index+")") {
		t.Errorf("README.md does not lead to %s", index)
	}
}

var (
	heading  = regexp.MustCompile(`(?m)^#{1,6} +(.+?)\s*$`)
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	fenced   = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$")
)

// anchors gives what a document's headings are reached by, as GitHub makes it of them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		title := linkText.ReplaceAllString(match[1], "$1")
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title)
		all[anchor] = true
	}
	return all
}

func TestLinksLeadToHeadings(t *testing.T) {
	t.Parallel()
	for _, document := range documents(t) {
		for _, match := range markdownLink.FindAllStringSubmatch(read(t, document), -1) {
			target, anchor, has := strings.Cut(match[1], "#")
			if !has || strings.Contains(target, "://") || target != "" && filepath.Ext(target) != ".md" {
				continue
			}
			to := document
			if target != "" {
				to = filepath.Join(filepath.Dir(document), target)
			}
			if !exists(to) {
				continue // TestLinksLeadToFiles says so
			}
			if !anchors(read(t, to))[anchor] {
				t.Errorf("%s links to %s, and %s has no such heading", document, match[1], to)
			}
		}
	}
}
