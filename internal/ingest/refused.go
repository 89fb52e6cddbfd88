package ingest

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// What is said of a message that was refused, where it is kept.
const (
	headerReason = "postrider-refused"
	headerOrigin = "postrider-refused-from" // the subject or routing key that it came by
	headerID     = "postrider-refused-id"   // of one whose Nats-Msg-Id the stream of what was refused had already
)

// ErrBrokerAway means that a message could not be kept apart for now. It was not acknowledged, so the broker hands it out again.
var ErrBrokerAway = errors.New("the broker is away")

var errNowhere = errors.New("there is no --refused-to where it could be kept")

// oneLine is text that a header can hold.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// notConnected leaves out of an error a URL that cannot be read, and what it says of it: a password may stand in any part of it.
func notConnected(broker string, err error) error {
	var unread *url.Error
	if errors.As(err, &unread) {
		return fmt.Errorf("connect to %s: its URL is none; what is no letter and no digit in a user or a password has to be percent-encoded", broker)
	}
	return fmt.Errorf("connect to %s: %w", broker, err)
}

// filters are the subjects that a consumer is given. None: all of its stream.
func filters(c jetstream.Consumer) []string {
	config := c.CachedInfo().Config
	switch {
	case len(config.FilterSubjects) > 0:
		return config.FilterSubjects
	case config.FilterSubject != "":
		return []string{config.FilterSubject}
	}
	return []string{">"}
}

// takes reports whether one of NATS' patterns matches a subject.
func takes(patterns []string, subject string) bool {
	for _, p := range patterns {
		if matches(strings.Split(p, "."), strings.Split(subject, ".")) {
			return true
		}
	}
	return false
}

func matches(pattern, subject []string) bool {
	for n, token := range pattern {
		switch {
		case n == len(subject):
			return false
		case token == ">":
			return true
		case token != "*" && token != subject[n]:
			return false
		}
	}
	return len(pattern) == len(subject)
}
