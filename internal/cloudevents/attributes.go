// Package cloudevents is what CloudEvents 1.0 (github.com/cloudevents/spec) asks of attributes, of their headers over HTTP
// and of the JSON format. It is pure: it reads no request, knows no tenant and no endpoint, and sends nothing.
package cloudevents

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// SpecVersion is the one that we speak.
	SpecVersion = "1.0"
	// ContentType is that of one event in the JSON format. It is spelled as the SDK for JavaScript wants it, which takes no other
	// letter case of the charset.
	ContentType = "application/cloudevents+json; charset=utf-8"
	// MetadataName is the member of an event's metadata that keeps the attributes which an event of ours has no other place
	// for: all but specversion, id, type and datacontenttype.
	MetadataName = "cloudevents"
)

// Check says what is wrong with an attribute, its name or its value (§ 3.1 and 3.2 of the specification). A value is a
// string, a bool or a json.Number. It is for the attributes that are kept under MetadataName: the others are events' own.
func Check(name string, value any) error {
	switch name {
	case "specversion", "id", "type", "datacontenttype", "data", "data_base64":
		return errors.New("is no attribute that can be given here")
	case "source", "dataschema", "subject", "time":
		text, ok := value.(string)
		if !ok {
			return errors.New("has to be a string")
		}
		return checkKnown(name, text)
	}
	if !isName(name) {
		return errors.New("names of attributes are lower-case letters and digits")
	}
	switch value := value.(type) {
	case string:
		return CheckText(value)
	case bool:
		return nil
	case json.Number:
		if _, err := strconv.ParseInt(string(value), 10, 32); err != nil {
			return errors.New("is no whole number of 32 bits")
		}
		return nil
	}
	return errors.New("has to be a string, a whole number, true or false")
}

func isName(name string) bool {
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9') {
			return false
		}
	}
	return name != ""
}

var timeForm = regexp.MustCompile(`(?i)^[0-9-]{10}T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):\d\d)$`)

// checkKnown looks at those whose form the specification fixes.
func checkKnown(name, text string) error {
	if text == "" {
		return errors.New("is empty")
	}
	switch name {
	case "time":
		// RFC 3339 takes small letters as well, and Go does not. Go takes more besides: an hour of one digit, a decimal comma.
		if _, err := time.Parse(time.RFC3339, strings.ToUpper(text)); err != nil || !timeForm.MatchString(text) {
			return errors.New("is no time of the form 2026-11-30T09:00:00Z")
		}
		return nil
	case "source":
		return checkURI(text, false)
	case "dataschema":
		return checkURI(text, true)
	}
	return CheckText(text)
}

// CheckText holds a string against § 3.1: no control characters, and none that is no character.
func CheckText(text string) error {
	if !utf8.ValidString(text) {
		return errors.New("is not UTF-8")
	}
	for _, c := range text {
		if unicode.IsControl(c) || 0xFDD0 <= c && c <= 0xFDEF || c&0xFFFE == 0xFFFE {
			return fmt.Errorf("holds the character %U, which no attribute may", c)
		}
	}
	return nil
}

// checkURI wants a URI-reference of RFC 3986, or a whole URI. net/url alone takes much that is none.
func checkURI(text string, absolute bool) error {
	const others = "-._~:/?#[]@!$&'()*+,;=%"
	for _, c := range []byte(text) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') && strings.IndexByte(others, c) < 0 {
			return errors.New("is no URI: what is not ASCII, blanks and such have to be percent-encoded")
		}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("is no URI") // the parser's own words repeat it
	case absolute && u.Scheme == "":
		return errors.New("is no absolute URI: it has no scheme")
	}
	return nil
}

// Kept reads what is kept under MetadataName. It leaves out what no attribute can be: metadata may come from elsewhere
// than from a CloudEvent.
func Kept(text []byte) map[string]any {
	if len(text) == 0 {
		return nil
	}
	kept := map[string]any{}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	if dec.Decode(&kept) != nil {
		return nil
	}
	for name, value := range kept {
		if Check(name, value) != nil {
			delete(kept, name)
		}
	}
	return kept
}
