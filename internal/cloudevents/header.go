package cloudevents

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// ParseHeader gives the attribute that a header's value stands for (HTTP protocol binding, § 3.1.3.2): out of its quotes, if
// there are some, and percent-decoded once.
func ParseHeader(value string) (string, error) {
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		value = unquote(value[1 : len(value)-1])
	}
	if strings.IndexByte(value, '%') < 0 {
		return value, validText(value)
	}
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] != '%' {
			b.WriteByte(value[i])
			continue
		}
		if i+2 >= len(value) {
			return "", errBadPercent
		}
		high, low := hexDigit(value[i+1]), hexDigit(value[i+2])
		if high < 0 || low < 0 {
			return "", errBadPercent
		}
		b.WriteByte(byte(high<<4 | low)) //nolint:gosec // two digits of 4 bits
		i += 2
	}
	return b.String(), validText(b.String())
}

var errBadPercent = errors.New("holds a % without two hexadecimal digits behind it; a % itself is %25")

// unquote takes the backslashes of a quoted-string (RFC 9110, 5.6.4) away.
func unquote(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

func validText(text string) error {
	if !utf8.ValidString(text) {
		return errors.New("is not UTF-8 once it is percent-decoded")
	}
	return nil
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
