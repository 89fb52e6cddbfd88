package pg

import (
	"strings"
	"unicode/utf8"

	"github.com/postrider/postrider/internal/fault"
)

// CheckText refuses what no column of type text takes, naming where it was given: a search by it is a mistake of who asks.
func CheckText(pointer, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fault.InvalidAt(pointer, "must be UTF-8 without NUL")
	}
	return nil
}
