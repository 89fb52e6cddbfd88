package config

import (
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/postrider/postrider/internal/duration"
)

const rightThrottle = "want messages/time such as 20/10m"

var throttleKind = single("number/time", func(text string) (Throttle, error) {
	messages, per, ok := strings.Cut(text, "/")
	n, err := strconv.ParseInt(strings.TrimSpace(messages), 10, 32)
	if !ok || err != nil {
		return Throttle{}, fmt.Errorf("%s is not a throttle, %s", quote(text), rightThrottle)
	}
	d, err := duration.Parse(strings.TrimSpace(per))
	if err != nil {
		return Throttle{}, fmt.Errorf("%s is not a throttle, %s", quote(text), rightThrottle)
	}
	return Throttle{Messages: int(n), Per: d}, nil
}, func(t Throttle) any { return t.String() })

// String is the throttle as its key takes it.
func (t Throttle) String() string { return strconv.Itoa(t.Messages) + "/" + duration.Format(t.Per) }

func checkThrottle(t Throttle) error {
	if t.Messages < 1 || t.Messages > 10000 || t.Per < time.Minute || t.Per > duration.Day {
		return fmt.Errorf("%s is out of range, want 1/1m to 10000/1d", t)
	}
	return nil
}

const rightMailURL = "want smtp:// or smtps://[user:password@]host[:port]/?from=hooks@example.com"

// checkMailURL repeats nothing of the value: it holds a password.
func checkMailURL(text string) error {
	parsed, err := url.Parse(text)
	switch {
	case err != nil || strings.TrimSpace(text) != text:
		return errors.New(noURL + rightMailURL)
	case parsed.Scheme != "smtp" && parsed.Scheme != "smtps":
		return errors.New("is not the URL of an SMTP server, " + rightMailURL)
	case parsed.Hostname() == "" || strings.Trim(parsed.Path, "/") != "" || parsed.Fragment != "":
		return errors.New("has no host, or something after it, " + rightMailURL)
	}
	query, err := url.ParseQuery(parsed.RawQuery)
	if err != nil {
		return errors.New("has a query that cannot be read, " + rightMailURL)
	}
	for name := range query {
		if name != "from" && name != "tls" {
			return errors.New("has a parameter that is unknown, want from, or tls as well")
		}
	}
	if _, err := mail.ParseAddress(query.Get("from")); err != nil {
		return errors.New("has no from that is an e-mail address, " + rightMailURL)
	}
	if tls := query.Get("tls"); query.Has("tls") && tls != "required" && tls != "optional" && tls != "none" {
		return errors.New("has a tls that is unknown, want required, optional or none")
	}
	return nil
}

func checkReference(text string) error {
	if len(text) > 128 || strings.ContainsAny(text, " \t\r\n/") {
		return fmt.Errorf("%s is neither an id nor a uid, want one such as ten_00076ez91zp0r3f or our-own", quote(text))
	}
	return nil
}

func checkCron(text string) error {
	if _, err := cron.ParseStandard(text); err != nil {
		return fmt.Errorf("%s is not a cron expression, want minute, hour, day, month and day of the week such as 0 9 * * 1-5, or @daily", quote(text))
	}
	return nil
}

func checkZone(text string) error {
	if _, err := time.LoadLocation(text); err != nil || text == "" || text == "Local" {
		return fmt.Errorf("%s is not a time zone, want one such as Europe/Berlin or UTC", quote(text))
	}
	return nil
}
