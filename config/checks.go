package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The checks of single values. Each gives nil or a sentence that says what would be right; those of secrets do not repeat
// the value.

// within wants min ≤ value ≤ max; NaN is neither. show writes a value as its key takes it, nil stands for fmt's way.
func within[T cmp.Ordered](least, most T, show func(T) string) func(T) error {
	if show == nil {
		show = func(value T) string { return fmt.Sprint(value) }
	}
	return func(value T) error {
		if value >= least && value <= most {
			return nil
		}
		return fmt.Errorf("%s is out of range, want %s to %s", show(value), show(least), show(most))
	}
}

// orZero takes 0 as well, which stands for never.
func orZero[T cmp.Ordered](check func(T) error) func(T) error {
	return func(value T) error {
		var zero T
		if value == zero {
			return nil
		}
		if err := check(value); err != nil {
			return fmt.Errorf("%w, or 0", err)
		}
		return nil
	}
}

// between wants a list of that many values.
func between[T any](least, most int, what string) func([]T) error {
	return func(list []T) error {
		if len(list) >= least && len(list) <= most {
			return nil
		}
		return fmt.Errorf("has %d values, want %d to %d, each a %s", len(list), least, most, what)
	}
}

// each wants every value of a list to pass a check.
func each[T any](check func(T) error) func([]T) error {
	return func(list []T) error {
		for i, value := range list {
			if err := check(value); err != nil {
				return fmt.Errorf("item %d %w", i+1, err)
			}
		}
		return nil
	}
}

// optional lets the empty text pass.
func optional(check func(string) error) func(string) error {
	return func(text string) error {
		if text == "" {
			return nil
		}
		return check(text)
	}
}

func oneOf(names ...string) func(string) error {
	return func(text string) error {
		if slices.Contains(names, text) {
			return nil
		}
		return fmt.Errorf("%s is unknown, want %s", quote(text), strings.Join(names, " or "))
	}
}

// checkAddr wants what net.Listen takes, with the port as a number.
func checkAddr(text string) error {
	const right = "want host:port such as 127.0.0.1:8080 or :8080"
	host, port, err := net.SplitHostPort(text)
	if err != nil || strings.ContainsAny(host, " \t\r\n/@") {
		return fmt.Errorf("%s is not an address, %s", quote(text), right)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%s has no port from 0 to 65535, %s", quote(text), right)
	}
	return nil
}

func checkPorts(r PortRange) error {
	switch {
	case r.First == 0:
		return fmt.Errorf("%q begins at 0, want ports from 1 to 65535", r)
	case r.First > r.Last:
		return fmt.Errorf("%q runs backwards, want %d-%d", r, r.Last, r.First)
	}
	return nil
}

func checkDistinct(keys [][32]byte) error {
	for i, key := range keys {
		if first := slices.Index(keys, key); first < i {
			return fmt.Errorf("item %d is item %d again, want distinct keys", i+1, first+1)
		}
	}
	return nil
}

// noURL says what goes wrong most often: a password with characters that have a meaning in a URL.
const noURL = "is not a URL (the characters / ? # @ : % and blanks of a password are written %2F %3F %23 %40 %3A %25 %20), "

func checkDatabaseURL(text string) error {
	const right = "want postgres://user:password@host:5432/database" //nolint:gosec // G101: nobody's password
	parsed, err := url.Parse(text)                                   // not wrapped: it repeats the URL
	switch {
	case err != nil || ambiguous(text, parsed):
		return errors.New(noURL + right)
	case parsed.Scheme != "postgres" && parsed.Scheme != "postgresql":
		return errors.New("is not a URL of PostgreSQL, " + right)
	case !strings.Contains(text, "://"):
		return errors.New("has no // after its scheme, " + right)
	}
	return nil
}

const rightProxy = "want http://, https:// or socks5://[user:password@]host:port"

func checkProxyURL(proxy *url.URL) error {
	switch {
	case proxy == nil:
		return nil
	case proxy.Scheme != "http" && proxy.Scheme != "https" && proxy.Scheme != "socks5":
		return errors.New("is not a URL of a proxy, " + rightProxy)
	case proxy.Hostname() == "":
		return errors.New("has no host, " + rightProxy)
	case proxy.Path != "" && proxy.Path != "/", proxy.RawQuery != "", proxy.Fragment != "", ambiguous(proxy.String(), proxy):
		return errors.New("has something after the port, " + rightProxy)
	}
	return nil
}

// checkAdminKey wants what goes through a header as it is: visible ASCII (RFC 9110 §5.5), and enough of it.
func checkAdminKey(text string) error {
	const right = "want 8 or more printable ASCII characters without blanks"
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("has a blank or a character that is not printable ASCII, " + right)
	}
	if len(text) < 8 {
		return fmt.Errorf("has %d characters, %s", len(text), right)
	}
	return nil
}
