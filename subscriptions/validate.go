package subscriptions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/postrider/postrider/internal/id"
)

// What tenants and endpoints share. A check gives the value in the form that is kept, or an error in words for the
// caller; none of them repeats the value, which may be long or private.

const (
	maxName     = 200
	maxMetadata = 16 << 10 // bytes, as JSON without blanks
	maxDepth    = 32       // of metadata; PostgreSQL's own parser gives up somewhere beyond 6,000
)

// uidForm is CONTRACT §3's, and a CHECK of the tables.
var uidForm = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)

func checkUID(uid string) (string, error) {
	if !uidForm.MatchString(uid) {
		return "", errors.New("a uid is 1 to 128 letters, digits and any of _ . : -")
	}
	if id.LooksLikeID(uid) {
		return "", errors.New("a uid may not begin like one of our own ids")
	}
	return uid, nil
}

// CheckUID is the rule for uids, for others that have some.
func CheckUID(uid string) error {
	_, err := checkUID(uid)
	return err
}

// CheckDescription is the rule for descriptions, for others that have one.
func CheckDescription(text string) error {
	_, err := checkDescription(text)
	return err
}

// checkText wants what a text column takes: UTF-8 without NUL.
func checkText(text string, maxChars int) error {
	switch {
	case !utf8.ValidString(text):
		return errors.New("is not valid UTF-8")
	case strings.ContainsRune(text, 0):
		return errors.New("may not hold the character NUL")
	case utf8.RuneCountInString(text) > maxChars:
		return fmt.Errorf("has more than %d characters", maxChars)
	}
	return nil
}

func checkName(name string) (string, error) {
	if strings.TrimSpace(name) == "" {
		return "", errors.New("is required")
	}
	return name, checkText(name, maxName)
}

// checkEmail wants a bare address (RFC 5322 addr-spec, up to RFC 5321's 254 characters): it is put into mails as it is.
func checkEmail(email string) (string, error) {
	address, err := mail.ParseAddress(email)
	if err != nil || address.Address != email || len(email) > 254 {
		return "", errors.New("is not an e-mail address of the form name@host, 254 characters at most")
	}
	return email, checkText(email, 254)
}

// checkMetadata gives the object with its numbers as json.Number, as a read does. jsonb keeps no NUL, and no number
// beyond its own numeric's range.
func checkMetadata(metadata map[string]any) (map[string]any, error) {
	if metadata == nil {
		return map[string]any{}, nil
	}
	text, err := encodeJSON(metadata)
	if err != nil {
		return nil, errors.New("is not an object of JSON values")
	}
	if len(text) > maxMetadata {
		return nil, fmt.Errorf("is more than %d bytes of JSON", maxMetadata)
	}
	plain, err := decodeObject(text)
	if err != nil {
		return nil, errors.New("is not an object of JSON values")
	}
	return plain, checkValue(plain, maxDepth)
}

func checkValue(value any, depth int) error {
	if depth < 0 {
		return fmt.Errorf("is nested more than %d deep", maxDepth)
	}
	switch v := value.(type) {
	case string:
		return checkText(v, maxMetadata)
	case json.Number:
		// What a double holds, PostgreSQL's numeric does too, unless it is spelled with a vast negative exponent.
		if f, err := strconv.ParseFloat(v.String(), 64); err != nil || f == 0 && strings.ContainsAny(v.String(), "eE") {
			return errors.New("holds a number beyond what a double-precision number can be")
		}
	case []any:
		for _, inner := range v {
			if err := checkValue(inner, depth-1); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, inner := range v {
			if err := checkText(name, maxMetadata); err != nil {
				return err
			}
			if err := checkValue(inner, depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// encodeJSON is json.Marshal without the escapes for HTML, which would count for five bytes each.
func encodeJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode as JSON: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// decodeObject reads a JSON object and keeps the digits of its numbers.
func decodeObject(text []byte) (map[string]any, error) {
	out := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&out); err != nil {
		return nil, fmt.Errorf("decode a JSON object: %w", err)
	}
	return out, nil
}
