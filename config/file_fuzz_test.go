package config

import (
	"slices"
	"strings"
	"testing"
)

// Whatever the file holds, there is no panic, and each fault is one line.
func FuzzParseFile(f *testing.F) {
	for _, seed := range []string{
		"http: {addr: ':80'}", "http:\n  addr: :80\nlog.level: debug\n", "delivery: {retry_schedule: [1s, 2s]}", "a: &a {b: *a}",
		"http: &loop {addr: *loop}", "? {a: b}\n: c", "--- \n--- \n", "\x00", "http: !!binary aGk=", "alerts: {urls: [slack://a, ~]}", "<<: *x",
		"alerts.urls: |\n slack://a\n slack://b\n", "\"http\\naddr\": 1", "database: {url: \"a\\nb\"}", "delivery.timeout: \"1\\ns\"",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		settings, found := parseFile("p.yaml", []byte(text))
		for name, setting := range settings {
			k, ok := lookup(name)
			if !ok {
				t.Fatalf("%q became a setting of %q", text, name)
			}
			var c Config
			if err := k.parse(&c, setting.items); err != nil {
				found = append(found, c.fault(name, "%v", err))
			}
			for _, check := range []error{k.check(&c), c.Validate()} {
				if check != nil && strings.ContainsAny(check.Error(), "\r") {
					t.Errorf("%q: %q", text, check)
				}
			}
		}
		for _, fault := range found {
			if strings.ContainsAny(fault.String(), "\r\n") || fault.Key == "" || fault.Detail == "" {
				t.Errorf("the fault of %q is not one line: %q", text, fault.String())
			}
		}
	})
}

func TestSplitURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                        nil,
		"  ":                      nil,
		"slack://a":               {"slack://a"},
		"slack://a,smtp://b":      {"slack://a", "smtp://b"},
		"slack://a, smtp://b":     {"slack://a,", "smtp://b"},
		"slack://a\nsmtp://b":     {"slack://a", "smtp://b"},
		"smtp://h?to=a@x,b@y":     {"smtp://h?to=a@x,b@y"},
		"smtp://h?to=a,b,ntfy://": {"smtp://h?to=a,b", "ntfy://"},
		"generic+https://h,x":     {"generic+https://h,x"},
		",slack://a":              {"", "slack://a"},
	} {
		if got := splitURLs(text); !slices.Equal(got, want) {
			t.Errorf("splitURLs(%q) = %q, want %q", text, got, want)
		}
	}
}
