package config

import (
	"strings"
	"testing"
)

// Whatever stands around the secret in a password, escaped or not, it is not shown.
func FuzzRedactPassword(f *testing.F) {
	for _, seed := range [][2]string{{"", ""}, {"12/", ""}, {"1@", "/"}, {"12?", "&password="}, {"#", ""}, {"%", "%zz"}, {"p@h/d?x=", ""}, {"[", "]"}, {"", ":1"}, {"\x00", "é"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		password := before + canary + after
		if text := "postgres://user:" + password + "@host/db"; strings.Contains(redactDatabaseURL(text), canary) {
			t.Errorf("%q is shown as %q", text, redactDatabaseURL(text))
		}
		if !strings.ContainsAny(password, "&#") {
			if text := "postgres://host/db?sslmode=require&password=" + password; strings.Contains(redactDatabaseURL(text), canary) {
				t.Errorf("%q is shown as %q", text, redactDatabaseURL(text))
			}
		}
		text := "http://user:" + password + "@proxy:1"
		if proxy, err := proxyURLKind.parse([]string{text}); err == nil && strings.Contains(redactUserinfo(proxy), canary) {
			t.Errorf("%q is shown as %q", text, redactUserinfo(proxy))
		}
	})
}
