package config

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// redacted stands wherever a secret would.
const redacted = "[redacted]"

const rightKey = "want base64 of exactly 32 bytes (openssl rand -base64 32)"

// secretly marks a kind whose values are never repeated.
func secretly[T any](k kind[T]) kind[T] {
	k.secret = true
	return k
}

var secretKeyKind = secretly(listOf(single("key", parseSecretKey, func([32]byte) any { return redacted }), splitWords))

// parseSecretKey decodes strictly: a text of another length, alphabet or padding is more likely the wrong thing pasted
// than a key.
func parseSecretKey(text string) (key [32]byte, err error) {
	// The decoder passes over line breaks; a key does not hold any.
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != len(key) || strings.ContainsAny(text, "\r\n") {
		return key, errors.New("is not a key, " + rightKey)
	}
	return [32]byte(raw), nil
}

var adminKeyKind = secretly(single("key", func(text string) (string, error) { return text, nil }, func(text string) any {
	if text == "" {
		return ""
	}
	return redacted
}))

var databaseURLKind = secretly(single("url", func(text string) (string, error) { return text, nil },
	func(text string) any { return redactDatabaseURL(text) }))

// In a service URL the token may be anywhere, the host included, so only the service is shown.
var alertURLKind = secretly(listOf(single("url", parseAlertURL, func(text string) any {
	scheme, _, _ := strings.Cut(text, ":")
	return scheme + "://" + redacted
}), splitURLs))

func parseAlertURL(text string) (string, error) {
	parsed, err := url.Parse(text) // its error is not wrapped: it repeats the URL
	if err != nil || parsed.Scheme == "" || !strings.Contains(text, "://") {
		return "", errors.New("is not a service URL, want one such as slack://…, smtp://… or generic://…")
	}
	return text, nil
}

// The password may be anywhere in what is no good URL, so nothing but the scheme of a good one is shown.
var mailURLKind = secretly(single("url", func(text string) (string, error) { return text, nil }, func(text string) any {
	switch {
	case text == "":
		return ""
	case checkMailURL(text) != nil:
		return redacted
	}
	scheme, _, _ := strings.Cut(text, ":")
	return scheme + "://" + redacted
}))

// Of a token that was given without a name, all but the = at its end would be the name: so not even that is shown.
var tracingHeaderKind = secretly(listOf(single("header", parseTracingHeader, func(TracingHeader) any { return redacted }), splitCommas))

func parseTracingHeader(text string) (TracingHeader, error) {
	name, value, ok := strings.Cut(text, "=")
	h := TracingHeader{strings.TrimSpace(name), strings.TrimSpace(value)}
	if !ok || !httpguts.ValidHeaderFieldName(h.Name) || h.Value == "" || !httpguts.ValidHeaderFieldValue(h.Value) {
		return TracingHeader{}, errors.New("is not a header, want name=value")
	}
	return h, nil
}

var proxyURLKind = secretly(single("url", func(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no proxy is a value of this key, not a thing that was looked for
	}
	parsed, err := url.Parse(text)
	if err != nil { // not wrapped: it repeats the URL
		return nil, errors.New("is not a URL, " + rightProxy)
	}
	return parsed, nil
}, func(proxy *url.URL) any {
	if proxy == nil {
		return ""
	}
	return redactUserinfo(proxy)
}))

// redactDatabaseURL hides the password, wherever it is, and keeps what tells one database from another. What is no good
// URL may have its password anywhere, so nothing of it is shown.
func redactDatabaseURL(text string) string {
	if text == "" {
		return ""
	}
	parsed, err := url.Parse(text)
	if err != nil || checkDatabaseURL(text) != nil {
		return redacted
	}
	out := parsed.Scheme + "://"
	if parsed.User != nil {
		out += url.User(parsed.User.Username()).String()
		if _, has := parsed.User.Password(); has {
			out += ":" + redacted
		}
		out += "@"
	}
	out += parsed.Host + parsed.EscapedPath()
	if parsed.RawQuery == "" {
		return out
	}
	settings := strings.Split(parsed.RawQuery, "&")
	for i, setting := range settings {
		name, _, _ := strings.Cut(setting, "=")
		// PostgreSQL takes password and sslpassword as settings too. An escaped name is not read as one of them by eye.
		if strings.Contains(strings.ToLower(name), "password") || strings.Contains(name, "%") {
			settings[i] = name + "=" + redacted
		}
	}
	return out + "?" + strings.Join(settings, "&")
}

// redactUserinfo hides user and password of a proxy's URL.
func redactUserinfo(proxy *url.URL) string {
	if checkProxyURL(proxy) != nil {
		return redacted
	}
	out := proxy.Scheme + "://"
	if proxy.User != nil {
		out += redacted + "@"
	}
	return out + proxy.Host
}

// ambiguous reports whether a password with an unescaped / ? # or @ may have pushed the parts of the URL out of place.
func ambiguous(text string, parsed *url.URL) bool {
	ats := strings.Count(text, "@")
	return parsed.Opaque != "" || strings.Contains(text, "#") || ats > 1 || (ats == 1 && parsed.User == nil)
}
