package api

import (
	"errors"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/postrider/postrider/internal/fault"
)

// huma names places as "body.events[3].type" and "query.limit"; CONTRACT §3 wants JSON pointers. Both spellings are made
// to be one-to-one by quoting, before huma sees them, the characters of a key that mean something in either: readTree
// does it to each key with quoteKey, pointer undoes it. (Unquoted, a dot in a key would also make huma lose its place.)
var (
	keyQuoter   = strings.NewReplacer("~", "~0", "/", "~1", ".", "~2", "[", "~3", "]", "~4")
	keyUnquoter = strings.NewReplacer("~2", ".", "~3", "[", "~4", "]")
	pathSteps   = strings.NewReplacer(".", "/", "[", "/", "]", "")
)

func quoteKey(key string) string {
	if !strings.ContainsAny(key, "~/.[]") {
		return key
	}
	return keyQuoter.Replace(key)
}

// pointer turns huma's location into a pointer: "/events/3/type" for the body, "?limit" for a query parameter, "/type"
// for a part of the path (which is a field of what the body would say otherwise).
func pointer(location string) string {
	if rest, ok := strings.CutPrefix(location, "query."); ok {
		name, _, _ := strings.Cut(rest, "[") // which of several values is not told apart
		return "?" + name
	}
	at := strings.IndexAny(location, ".[") // "body", "body.x", "body[3]", "path.x"
	if at < 0 {
		return ""
	}
	return keyUnquoter.Replace(pathSteps.Replace(location[at:]))
}

// problemErrors gives the places that an error of huma's, or a fault in a list of them, speaks of.
func problemErrors(err error) []ProblemError {
	var detail *huma.ErrorDetail
	if errors.As(err, &detail) {
		return []ProblemError{reword(ProblemError{Pointer: pointer(detail.Location), Detail: detail.Message})}
	}
	var f *fault.Error
	if !errors.As(err, &f) {
		return []ProblemError{{Detail: err.Error()}}
	}
	var places []ProblemError
	for _, field := range f.Fields {
		places = append(places, ProblemError{Pointer: field.Pointer, Detail: field.Detail})
	}
	return places
}

// reword says huma's two most frequent messages as we would, and lets a missing field be pointed to itself, where huma
// points to the object that lacks it.
func reword(e ProblemError) ProblemError {
	before, after, _ := strings.Cut(validation.MsgExpectedRequiredProperty, "%s")
	if rest, ok := strings.CutPrefix(e.Detail, before); ok {
		if name, ok := strings.CutSuffix(rest, after); ok {
			return ProblemError{Pointer: e.Pointer + "/" + name, Detail: "is required"}
		}
	}
	if e.Detail == validation.MsgUnexpectedProperty {
		e.Detail = "there is no such field"
	}
	return e
}
