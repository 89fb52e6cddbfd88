package alert

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const (
	redacted = "[redacted]"
	// maxError is how much of a channel's error is kept.
	maxError = 300
	// minPiece is the least length of a part of a URL that is taken for telling: shorter ones are common words.
	minPiece = 5
)

var anyURL = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'<>]+`)

// redactor makes a function that takes out of an error's text whatever may be a secret of this service URL: every URL
// (services make others of the one that is configured), and every piece of the configured one wherever it turns up,
// since services keep tokens in any part of it, the host included.
func redactor(raw string) func(string) string {
	var pieces []string
	add := func(s string) {
		words := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune("/:@?&=,;", r) })
		for _, p := range append(words, s) {
			if len(p) >= minPiece {
				pieces = append(pieces, p)
			}
		}
	}
	if u, err := url.Parse(raw); err == nil {
		add(u.Host)
		add(u.Path)
		add(u.EscapedPath())
		add(u.Fragment)
		if u.User != nil {
			add(u.User.Username())
			password, _ := u.User.Password()
			add(password)
			add(u.User.String())
		}
		for _, values := range u.Query() {
			for _, v := range values {
				add(v)
				add(url.QueryEscape(v))
			}
		}
	}
	// The longest first, so that no part of a piece is left over.
	slices.SortFunc(pieces, func(a, b string) int { return len(b) - len(a) })
	replace := make([]string, 0, 2*len(pieces))
	for _, p := range slices.Compact(pieces) {
		replace = append(replace, p, redacted)
	}
	replacer := strings.NewReplacer(replace...)
	return func(s string) string {
		s = replacer.Replace(anyURL.ReplaceAllString(s, redacted))
		if s = plain(s); len(s) > maxError {
			s = strings.ToValidUTF8(s[:maxError], "") + "…"
		}
		return s
	}
}
