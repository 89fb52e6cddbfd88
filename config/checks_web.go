package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The checks of what browsers get to see.

// originForm leaves nothing in a host that means something in a header or a policy that it is put into.
var originForm = regexp.MustCompile(`^https?://([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?$`)

// checkOrigin wants a scheme and a host, as browsers write them, and nothing more.
func checkOrigin(text string) error {
	if !originForm.MatchString(text) {
		return fmt.Errorf("%s is not an origin, want https:// or http://, a host in lower case and no path, such as https://app.example.com", quote(text))
	}
	return nil
}

// checkIssuer wants the provider's own spelling of itself. What it says on the way is believed, so without TLS it has to be on
// this machine.
func checkIssuer(text string) error {
	const right = "want https://, such as https://id.example.com"
	parsed, err := url.Parse(text)
	switch {
	case err != nil || parsed.Host == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "":
		return fmt.Errorf("%s is not the URL of an issuer, %s", quote(text), right)
	case parsed.Scheme == "https":
		return nil
	case parsed.Scheme == "http" && isLoopback(parsed.Hostname()):
		return nil
	}
	return fmt.Errorf("%s is not on this machine and without TLS, %s", quote(text), right)
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func checkScopes(list []string) error {
	if !slices.Contains(list, "openid") {
		return errors.New("has no openid, want it among them")
	}
	return each(checkNotEmpty)(list)
}

func checkNotEmpty(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("is empty, want a text")
	}
	return nil
}

// checkTrimmed is for a secret.
func checkTrimmed(text string) error {
	if strings.TrimSpace(text) != text {
		return errors.New("has blanks around it, want the secret alone")
	}
	return nil
}

func checkTitle(text string) error {
	const most = 80
	if strings.TrimSpace(text) == "" || utf8.RuneCountInString(text) > most || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("%s is no name, want 1 to %d characters in one line", quote(text), most)
	}
	return nil
}

func checkLogo(text string) error {
	if lower := strings.ToLower(text); !strings.HasSuffix(lower, ".svg") && !strings.HasSuffix(lower, ".png") {
		return fmt.Errorf("%s is no logo, want a file whose name ends in .svg or .png", quote(text))
	}
	return nil
}

var colourForm = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

func checkColour(text string) error {
	if !colourForm.MatchString(text) {
		return fmt.Errorf("%s is not a colour, want one such as #2f6fde (in YAML in quotes)", quote(text))
	}
	return nil
}

// checkCollector wants where OTLP goes by HTTP. What it refuses is not repeated: it may have a password in it.
func checkCollector(text string) error {
	const right = "want one such as http://127.0.0.1:4318"
	parsed, err := url.Parse(text)
	switch {
	case err != nil || parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.Hostname() == "":
		return errors.New("is not the URL of a collector, " + right)
	case parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "":
		return errors.New("has a user, a query or a fragment, " + right + "; credentials go into tracing.headers")
	}
	return nil
}
