package schema

import (
	"net/url"
	"strconv"
	"strings"
)

// referenceTo finds the place in a schema that refers to an address, "" if none does in so many words.
func referenceTo(doc any, address string) string {
	base, err := url.Parse(home)
	if err != nil {
		return ""
	}
	l := looker{base: base, wanted: strings.TrimSuffix(address, "#")}
	l.look(doc, nil)
	return pointer(l.at)
}

type looker struct {
	base   *url.URL
	wanted string
	at     []string
}

func (l *looker) look(value any, path []string) (found bool) {
	switch value := value.(type) {
	case []any:
		for n, inner := range value {
			if l.look(inner, append(path, strconv.Itoa(n))) {
				return true
			}
		}
	case map[string]any:
		for name, inner := range value {
			here := append(path[:len(path):len(path)], name)
			if l.refers(name, inner) {
				l.at = here
				return true
			}
			if l.look(inner, here) {
				return true
			}
		}
	}
	return false
}

func (l *looker) refers(name string, value any) bool {
	ref, is := value.(string)
	if !is || name != "$ref" && name != "$dynamicRef" {
		return false
	}
	full, err := l.base.Parse(ref)
	return ref == l.wanted || err == nil && (full.String() == l.wanted || strings.HasPrefix(full.String(), l.wanted+"#"))
}
