package docs_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a piece of code that a page prints, with the comment right above it, which says what becomes of it:
//
//	<!-- run -->                                        it is run, in the page's order, in the page's shell
//	<!-- run: answers 422, exits 1 -->                  the same, and the server refuses a call, or the last command ends so
//	<!-- run: in another terminal, until "listening" -->   it goes on beside what follows; what follows waits for that output
//	<!-- prints -->                                     what the block before it prints; … stands for anything
//	<!-- prints: in the other terminal -->              what is to be found there by now
//	<!-- not run: needs a cluster: why -->              nobody runs it, for one of the reasons below
//	<!-- run by make smoke -->, <!-- run by TestX -->   another test runs it as it stands
//	<!-- verify: go -->                                 a test takes it by this name
type block struct {
	page    string
	line    int // of its first line of code, from 1
	lang    string
	code    string
	comment string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// kindsNotRun are the reasons for which a command is not run.
var kindsNotRun = []string{
	"needs root", "needs a superuser", "needs a cluster", "needs a provider", "needs a broker", "needs old data", "takes minutes",
}

var (
	commentAbove = regexp.MustCompile(`^\s*<!-- (.*) -->$`)
	runComment   = regexp.MustCompile(`^run(?:: (.+))?$`)
	until        = regexp.MustCompile(`^in another terminal, until "(.+)"$`)
	namedComment = regexp.MustCompile(`^[a-z]+: [a-z-]+$`)
)

// blocks gives the code of a page, from top to bottom.
func blocks(t *testing.T, page string) (all []block) {
	t.Helper()
	lines := strings.Split(read(t, page), "\n")
	for i := 0; i < len(lines); i++ {
		indent, lang, opens := strings.Cut(lines[i], "```")
		if !opens || strings.TrimSpace(indent) != "" {
			continue
		}
		b := block{page: page, line: i + 2, lang: lang}
		if match := commentAbove.FindStringSubmatch(lines[max(i-1, 0)]); match != nil {
			b.comment = match[1]
		}
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
			b.code += strings.TrimPrefix(lines[i], indent) + "\n"
		}
		all = append(all, b)
	}
	return all
}

// isCommand says whether a reader would run it, or takes it for what comes of that.
func (b block) isCommand() bool {
	return b.lang == "sh" || b.lang == "bash" || b.lang == "sql" || b.lang == "http"
}

// wishes are what a comment says of a run.
type wishes struct {
	statuses []string // of 400 and more, in their order
	exit     string
	until    *regexp.Regexp // of a block that goes on in another terminal
}

// wishes reads <!-- run: … -->; ok is false if the block has no such comment.
func (b block) wishes() (w wishes, ok bool, err error) {
	match := runComment.FindStringSubmatch(b.comment)
	if match == nil {
		return w, false, nil
	}
	w.exit = "0"
	if match[1] == "" {
		return w, true, nil
	}
	if terminal := until.FindStringSubmatch(match[1]); terminal != nil {
		w.until, err = regexp.Compile(terminal[1])
		return w, true, err
	}
	for _, wish := range strings.Split(match[1], ", ") {
		switch verb, object, _ := strings.Cut(wish, " "); verb {
		case "answers":
			w.statuses = append(w.statuses, strings.Fields(object)...)
		case "exits":
			w.exit = object
		default:
			return w, true, fmt.Errorf("it says %q, and a block that is run can say `answers 422`, `exits 1` or `in another terminal, until \"…\"`", wish)
		}
	}
	return w, true, nil
}

// pages are the documents for users, whose commands are run.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"README.md"}
	for _, name := range found {
		if name != "CONTRACT.md" { // which is a wish, and is held by tests of its own
			all = append(all, "docs/"+name)
		}
	}
	return all
}

// No command is printed that nobody has run, unless the page's source says why.
func TestEveryCommandIsRunOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	tests := testCode(t)
	for _, page := range pages(t) {
		for _, b := range blocks(t, page) {
			if err := b.accounted(t, tests); err != nil {
				t.Errorf("%s: %v", b, err)
			}
		}
	}
}

// accounted says what is wrong with the comment of a block, if anything.
func (b block) accounted(t *testing.T, tests string) error {
	t.Helper()
	if _, run, err := b.wishes(); run {
		if b.lang != "sh" && b.lang != "sql" {
			return fmt.Errorf("%s cannot be run, only sh and sql can", b.lang)
		}
		return err
	}
	reason, excused := strings.CutPrefix(b.comment, "not run: ")
	by, elsewhere := strings.CutPrefix(b.comment, "run by ")
	switch {
	case strings.HasPrefix(b.comment, "prints"):
		return nil
	case excused:
		if kind, why, _ := strings.Cut(reason, ": "); !slices.Contains(kindsNotRun, kind) || why == "" {
			return fmt.Errorf("it is not run because it %q: say one of %q, and behind a colon what of it", kind, kindsNotRun)
		}
		return nil
	case elsewhere:
		target, isMake := strings.CutPrefix(by, "make ")
		if isMake && !strings.Contains(read(t, "Makefile"), "\n"+target+": ") || !isMake && !strings.Contains(tests, "\nfunc "+by+"(") {
			return fmt.Errorf("it is said to be run by %s, which is not there", by)
		}
		return nil
	case namedComment.MatchString(b.comment) && strings.Contains(tests, `"`+b.comment+`"`):
		return nil
	case b.isCommand():
		return fmt.Errorf("nothing runs it. Put <!-- run --> in the line above the block to have it run, in the page's order against a"+
			" real server, or <!-- not run: KIND: why --> with one of %q (docs/blocks_test.go says what else there is)", kindsNotRun)
	}
	return nil
}

// testCode is all of our tests that could take a block by its name.
func testCode(t *testing.T) string {
	t.Helper()
	var code strings.Builder
	for _, pattern := range []string{"docs/*_test.go", "cmd/postrider/*_test.go", "e2e/*_test.go", "internal/*/*_test.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			code.WriteString(read(t, strings.TrimPrefix(filepath.ToSlash(file), root+"/")))
		}
	}
	return code.String()
}
