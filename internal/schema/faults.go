package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/postrider/postrider/internal/fault"
)

// maxFaults is how many places of one payload are told of.
const maxFaults = 20

// faultsOf lists what is wrong where, the places in order. What a rule that is made of others has against a value is told
// by those others.
func faultsOf(err *jsonschema.ValidationError) fault.Fields {
	var all fault.Fields
	gather(err, &all)
	slices.SortStableFunc(all, func(a, b fault.Field) int {
		return cmp.Or(strings.Compare(a.Pointer, b.Pointer), strings.Compare(a.Detail, b.Detail))
	})
	all = slices.Compact(all)
	if more := len(all) - maxFaults; more > 0 {
		all = all[:maxFaults]
		all.Addf("", "and %d more places", more)
	}
	return all
}

func gather(err *jsonschema.ValidationError, all *fault.Fields) {
	if k, is := err.ErrorKind.(*kind.PropertyNames); is { // what is behind it has no place
		each(all, err.InstanceLocation, []string{k.Property}, "is no name that a field may have here")
		return
	}
	for _, cause := range err.Causes {
		gather(cause, all)
	}
	if len(err.Causes) > 0 {
		return
	}
	at := err.InstanceLocation
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		each(all, at, k.Missing, "is required")
	case *kind.DependentRequired:
		each(all, at, k.Missing, "is required beside the field "+short(k.Prop))
	case *kind.AdditionalProperties:
		each(all, at, k.Properties, "there is no such field")
	default:
		all.Addf(pointer(at), "%s", words(err.ErrorKind))
	}
}

func each(all *fault.Fields, at, names []string, detail string) {
	for _, name := range names {
		all.Addf(pointer(append(slices.Clone(at), name)), "%s", detail)
	}
}

// words says what rule was broken and never by which value, which may be long or private: it goes to the log as well.
func words(broken jsonschema.ErrorKind) string {
	switch k := broken.(type) {
	case *kind.Type:
		return "is no " + strings.Join(k.Want, " or ") + " but " + k.Got
	case *kind.Enum:
		return "is none of " + list(k.Want)
	case *kind.Const:
		return "is not " + list([]any{k.Want})
	case *kind.Minimum:
		return "is less than " + number(k.Want)
	case *kind.Maximum:
		return "is more than " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "is not more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "is not less than " + number(k.Want)
	case *kind.MultipleOf:
		return "is no multiple of " + number(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("has less than %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has more than %d characters", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("has less than %d items", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has more than %d items", k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("has less than %d fields", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("has more than %d fields", k.Want)
	case *kind.Pattern:
		return "does not match the pattern " + short(k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("has the same item at %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.FalseSchema:
		return "may not be there"
	}
	return "breaks the schema's rule " + strings.Join(broken.KeywordPath(), "/")
}

func number(r *big.Rat) string {
	return short(strings.TrimRight(strings.TrimRight(r.FloatString(6), "0"), "."))
}

func list(values []any) string {
	text, err := json.Marshal(values)
	if err != nil || len(text) < 2 {
		return "what is allowed"
	}
	return short(string(text[1 : len(text)-1]))
}

// short cuts what comes from a schema.
func short(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// explain says what is wrong with a schema, and where.
func explain(err error, doc any) error {
	var (
		invalid *jsonschema.SchemaValidationError
		broken  *jsonschema.ValidationError
		regex   *jsonschema.InvalidRegexError
		lost    *jsonschema.LoadURLError
		noPlace *jsonschema.JSONPointerNotFoundError
		noName  *jsonschema.AnchorNotFoundError
	)
	switch {
	case errors.As(err, &invalid) && errors.As(invalid.Err, &broken):
		return faultsOf(broken).Err()
	case errors.As(err, &regex):
		return fault.InvalidAt(fragment(regex.URL), "%s is no regular expression of the kind that is taken (RE2)", short(regex.Regex))
	case errors.As(err, &lost):
		return fault.InvalidAt(referenceTo(doc, lost.URL), "leads out of the schema; only what is within it (#/…) can be referred to")
	case errors.As(err, &noPlace):
		return fault.InvalidAt(referenceTo(doc, noPlace.URL), "leads to nothing")
	case errors.As(err, &noName):
		return fault.InvalidAt(referenceTo(doc, noName.Reference), "leads to nothing")
	}
	return fault.InvalidAt("", "is no JSON Schema that can be used: %s", short(strings.ReplaceAll(err.Error(), home, "")))
}

func fragment(location string) string {
	_, at, _ := strings.Cut(location, "#")
	if plain, err := url.PathUnescape(at); err == nil {
		return plain
	}
	return at
}
