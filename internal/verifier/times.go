package verifier

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/signer"
)

// units are what timestamps are written in by mistake, by their number of digits.
var units = map[int]struct {
	name string
	per  int64 // in a second
}{13: {"milliseconds", 1e3}, 16: {"microseconds", 1e6}, 19: {"nanoseconds", 1e9}}

// timeFindings says what is wrong with the timestamp, and with its age.
func (c *claim) timeFindings() []Finding {
	if c.scheme == signer.GitHub {
		return nil
	}
	if c.timestamp == "" {
		if c.scheme == signer.Stripe && c.signature != "" {
			return []Finding{{
				"timestamp_missing", "there is no t=… in " + c.signatureHeader(c.scheme),
				"Have the header passed on as it is: t=<unix seconds>,v1=<hex>.",
			}}
		}
		return nil // the header's being missing was said
	}
	where := c.timestampHeader()
	seconds, err := strconv.ParseInt(c.timestamp, 10, 64)
	if unit, ok := units[len(c.timestamp)]; ok && err == nil && c.timestamp[0] != '-' && c.timestamp[0] != '+' {
		return []Finding{{
			"timestamp_unit", fmt.Sprintf("the timestamp in %s is in %s (%s)", where, unit.name, moment(time.Unix(seconds/unit.per, 0))),
			"It has to be whole seconds since 1970, and these digits are what is signed: leave them as they were sent.",
		}}
	}
	if c.signedAt().IsZero() || strings.ContainsAny(c.timestamp, "+-") {
		return []Finding{{
			"timestamp_unreadable", fmt.Sprintf("the timestamp in %s is no number of seconds: %s%s", where, clip(c.timestamp), asTime(c.timestamp)),
			"It has to be whole seconds since 1970, as they were sent: do not turn it into a date before the check.",
		}}
	}
	return c.ageFindings()
}

// timestampHeader is the header that the timestamp stands in.
func (c *claim) timestampHeader() string {
	switch c.scheme {
	case signer.Standard, signer.StandardEd25519:
		return signer.HeaderTimestamp
	case signer.TimestampedHex:
		return signer.HeaderHexTimestamp
	case signer.Stripe, signer.GitHub:
	}
	return c.signatureHeader(c.scheme)
}

func (c *claim) ageFindings() []Finding {
	at := c.signedAt()
	age := c.Now.Sub(at)
	switch {
	case c.Tolerance <= 0 || age.Abs() <= c.Tolerance:
		return nil
	case age > 0:
		return []Finding{{
			"timestamp_old", fmt.Sprintf("it was signed %s ago (%s); allowed are %s", long(age), moment(at), c.Tolerance),
			"Each attempt is signed afresh, so a receiver sees seconds: if it was that old when it came, set the receiver's clock. " +
				"A capture grows old by itself: --at says when it came, --any-time lets the age be.",
		}}
	}
	return []Finding{{
		"timestamp_ahead", fmt.Sprintf("it was signed %s in the future (%s); allowed are %s", long(-age), moment(at), c.Tolerance),
		"The receiver's clock is behind, or the sender's is ahead: set them by NTP.",
	}}
}

// long writes a span that may be of years.
func long(d time.Duration) string {
	if days := d / (24 * time.Hour); days > 2 {
		return strconv.Itoa(int(days)) + " days"
	}
	return d.Round(time.Second).String()
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// asTime recognizes other ways to write a time.
func asTime(text string) string {
	for name, format := range map[string]string{
		"an RFC 3339 time": time.RFC3339, "an HTTP date": "Mon, 02 Jan 2006 15:04:05 GMT", "a time of SQL": time.DateTime,
	} {
		if _, err := time.Parse(format, text); err == nil {
			return ", " + name
		}
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return ", a number that is not whole"
	}
	return ""
}

// clip shortens what came with the request.
func clip(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		text = string(r[:most-1]) + "…"
	}
	return strconv.Quote(text)
}
