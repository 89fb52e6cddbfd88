package ingest

import (
	"errors"
	"strings"
)

// What is said of a message that was refused, where it is kept.
const (
	headerReason = "postrider-refused"
	headerOrigin = "postrider-refused-from" // the subject or routing key that it came by
)

var errNowhere = errors.New("there is no --refused-to where it could be kept")

// oneLine is text that a header can hold.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
