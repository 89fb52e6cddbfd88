// Package duration reads and writes spans of time as Postrider's configuration and API spell them: Go's notation
// ("90s", "1h30m") plus "d" for a day of 24 hours ("30d", "1d12h").
//
// It does not know calendars (no months, no daylight saving time) and sets no limits of its own beyond what a
// time.Duration holds: what span makes sense for a field is the caller's business. Nothing in Postrider lasts a negative
// time, so a sign is refused here once and for all. Errors are sentences for whoever typed the value; each is one line.
package duration

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Day is 24 hours.
const Day = 24 * time.Hour

// right ends every error: it shows what would have been taken.
const right = "want a duration such as 15s, 1h30m or 30d"

// quoteLimit is how many bytes of a refused text an error repeats, so that a hostile value cannot flood a log or an answer.
const quoteLimit = 40

// Parse reads one duration: decimal numbers, each with one of the units ns, us (or µs), ms, s, m, h and d, or a bare "0".
// The sum has to fit a time.Duration (106751 days).
func Parse(text string) (time.Duration, error) {
	switch {
	case text == "":
		return 0, errors.New("is empty, " + right)
	case text == "0":
		return 0, nil
	case strings.HasPrefix(text, "-"):
		return 0, fmt.Errorf("%s is negative, %s", quote(text), right)
	}
	var sum time.Duration
	for rest := strings.TrimPrefix(text, "+"); ; {
		term, tail, err := nextTerm(rest)
		if err != nil {
			return 0, fmt.Errorf("%s %w, %s", quote(text), err, right)
		}
		if term > math.MaxInt64-sum {
			return 0, fmt.Errorf("%s %w, %s", quote(text), errTooLong, right)
		}
		sum += term
		if rest = tail; rest == "" {
			return sum, nil
		}
	}
}

var (
	errTooLong  = errors.New("is longer than 106751d")
	errNoNumber = errors.New("is not a duration")
	errNoUnit   = errors.New("has no unit")
)

// nextTerm takes one number and its unit off the front of text.
func nextTerm(text string) (term time.Duration, rest string, err error) {
	number := leading(text, func(c byte) bool { return c == '.' || '0' <= c && c <= '9' })
	unit := leading(text[len(number):], func(c byte) bool { return c != '.' && (c < '0' || c > '9') })
	rest = text[len(number)+len(unit):]
	switch {
	case strings.Trim(number, ".") == "" || strings.Count(number, ".") > 1:
		return 0, "", errNoNumber
	case unit == "":
		return 0, "", errNoUnit
	}
	scale := int64(1) // how many of the unit that Go reads make one of the unit that is written
	switch unit {
	case "d":
		unit, scale = "h", 24
	case "ns", "us", "µs", "μs", "ms", "s", "m", "h": // both spellings of the micro sign, as in Go
	default:
		return 0, "", fmt.Errorf("has an unknown unit %s", quote(unit))
	}
	// The number and the unit are well-formed by now, so that all that can be wrong is the size.
	term, err = time.ParseDuration(number + unit)
	if err != nil || int64(term) > math.MaxInt64/scale {
		return 0, "", errTooLong
	}
	return time.Duration(int64(term) * scale), rest, nil
}

// leading gives the longest prefix of text whose bytes all belong.
func leading(text string, belongs func(byte) bool) string {
	for i := range len(text) {
		if !belongs(text[i]) {
			return text[:i]
		}
	}
	return text
}

// ParseList reads durations separated by commas, such as "1m,5m,30m"; blanks around a comma do not count.
func ParseList(text string) ([]time.Duration, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("is empty, want durations such as 1m,5m,30m")
	}
	items := strings.Split(text, ",")
	list := make([]time.Duration, len(items))
	for i, item := range items {
		d, err := Parse(strings.TrimSpace(item))
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		list[i] = d
	}
	return list, nil
}

// Format writes d with as few units as it needs: 5d, 1h30m, 1m, 1.5s, 0s. Parse reads it back without loss if d is not negative.
func Format(d time.Duration) string {
	if d < 0 {
		return d.String() // nothing here makes one; shown as Go does rather than hidden
	}
	days, rest := d/Day, d%Day
	if days == 0 {
		return trimZeros(rest)
	}
	text := strconv.FormatInt(int64(days), 10) + "d"
	if rest > 0 {
		text += trimZeros(rest)
	}
	return text
}

// Round drops what nobody asks for in a span that has passed: to the second under an hour, to the minute beyond.
func Round(d time.Duration) time.Duration {
	if d < time.Hour {
		return d.Round(time.Second)
	}
	return d.Round(time.Minute)
}

// trimZeros drops the parts that Go's notation fills up with: 1h30m0s is 1h30m, and 1h0m0s is 1h.
func trimZeros(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// FormatList writes durations as ParseList reads them: 1m,5m,30m.
func FormatList(list []time.Duration) string {
	items := make([]string, len(list))
	for i, d := range list {
		items[i] = Format(d)
	}
	return strings.Join(items, ",")
}

func quote(text string) string {
	if len(text) > quoteLimit {
		return strconv.Quote(text[:quoteLimit]) + "…"
	}
	return strconv.Quote(text)
}
