package docs_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write into the pages what was printed or generated, where it is another thing than they say")

// given is what a page takes for granted, by a script that runs before it. Most take a tenant `demo`, which `make run` has made.
var given = map[string]string{
	"README.md": demo + `psql -qX "$DATABASE_URL" -c "CREATE TABLE orders (id text, paid boolean)"`,
}

const demo = "postrider tenants create Demo --uid demo >/dev/null\n"

// A page whose commands start the server has this comment; its database is empty.
const startsItself = "<!-- the page starts the server -->"

// What a page prints works as it stands, from top to bottom, against a server, a PostgreSQL and a receiver.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		all := blocks(t, page)
		if !slices.ContainsFunc(all, func(b block) bool { _, run, _ := b.wishes(); return run }) {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			h := runPage(t, page, all)
			if page == guide && !t.Failed() {
				h.checkEveryRouteIsCalled()
			}
		})
	}
}

// runPage runs a page, and gives the house that it ran against.
func runPage(t *testing.T, page string, all []block) *house {
	t.Helper()
	h := newHouse(t)
	if strings.Contains(read(t, page), startsItself) {
		h.prepare(`psql -qX "$DATABASE_URL" -c "DROP SCHEMA postrider CASCADE" 2>/dev/null`)
	} else {
		h.start()
		script, special := given[page]
		if !special {
			script = demo
		}
		h.prepare(script)
	}
	s := newShell(h)
	var printed string
	for _, b := range all {
		w, run, err := b.wishes()
		switch {
		case err != nil:
			t.Fatalf("%s: %v", b, err)
		case run && w.until != nil:
			s.beside(b, w.until.String())
		case run:
			printed = s.check(b, w)
		case b.comment == "prints: in the other terminal":
			if s.other == nil {
				t.Fatalf("%s: there is no other terminal yet", b)
			}
			s.other.await(t, h.here(wildcards(b.code)))
		case b.comment == "prints":
			compare(t, b, tidy(h.there(printed)))
		}
	}
	return h
}

// check runs a block; it has to end, and the server to answer, as the page says.
func (s *shell) check(b block, w wishes) (printed string) {
	t := s.h.t
	t.Helper()
	before := len(s.h.seen(0))
	out, code := s.run(b, w.exit != "0")
	var refused []string
	for _, c := range s.h.seen(before) {
		if c.status >= 400 {
			refused = append(refused, fmt.Sprint(c.status))
		}
	}
	if code != w.exit {
		t.Fatalf("%s: it ends with %q, and not with %s:\n%s\n%s\nthe other terminal:\n%s", b, code, w.exit, b.code, out, s.other)
	}
	if !slices.Equal(refused, w.statuses) {
		t.Fatalf("%s: the server refuses calls with %q; the page says that it does with %q (<!-- run: answers … -->):\n%s\n%s",
			b, refused, w.statuses, b.code, out)
	}
	return out
}

// tidy leaves out what nobody sees.
func tidy(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r", ""), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

// wildcards is a pattern for what a page prints: … is anything in a line, and alone in a line any lines.
func wildcards(text string) string {
	var pattern strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		parts := strings.Split(line, "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		pattern.WriteString(strings.Join(parts, ".*") + `\n`)
	}
	return pattern.String()
}

func compare(t *testing.T, b block, got string) {
	t.Helper()
	if regexp.MustCompile(`^` + wildcards(b.code) + `$`).MatchString(got) {
		return
	}
	if *update {
		rewrite(t, b, veil(got))
		return
	}
	t.Errorf("%s: the page says that this is printed:\n%s\nbut it is\n%s\n(go test ./docs -run %s -update writes it there)", b, b.code, got, t.Name())
}

// changing is what is another thing each time.
var changing = []struct {
	pattern *regexp.Regexp
	shown   string
}{
	{regexp.MustCompile(`\b(ten|ep|evt|dlv|att|alr|key|sch|job|aud)_[0-9a-z]{10,}`), "${1}_…"},
	{regexp.MustCompile(`\b(whsec|whpk|prk|prl)_[A-Za-z0-9+/=_-]{12,}`), "${1}_…"},
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\dT[0-9:.]+Z`), "…"},
	{regexp.MustCompile(`\b\d+d ago`), "… ago"},
	{regexp.MustCompile(`(?m)^(\s*"[a-z_0-9]*(?:_ms|_seconds|timestamp|signature|token|cursor)": )("?)[^",{[]+("?,?)$`), "$1$2…$3"},
	{regexp.MustCompile(`(?mi)^(date|etag|x-request-id|content-length): .*$`), "$1: …"},
}

// veil writes … for what is another thing each time. What else changes is veiled by whoever reads it.
func veil(text string) string {
	for _, c := range changing {
		text = c.pattern.ReplaceAllString(text, c.shown)
	}
	return text
}

// rewrite puts a text into a page in the place of a block's, wherever it is by now.
func rewrite(t *testing.T, b block, text string) {
	t.Helper()
	path := filepath.Join(root, b.page)
	now, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		t.Fatal(err)
	}
	fence := "<!-- " + b.comment + " -->\n```" + b.lang + "\n"
	old := fence + b.code + "```\n"
	if strings.Count(string(now), old) < 1 {
		t.Fatalf("%s: it is not there any more", b)
	}
	next := strings.Replace(string(now), old, fence+text+"```\n", 1)
	if err := os.WriteFile(path, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: written anew", b)
}
