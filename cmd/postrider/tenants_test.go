package main

import (
	"net/http"
	"strings"
	"testing"
)

func TestTenantFlagsAreWhatTheServerIsAsked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line []string
		body string
	}{
		"another address":     {[]string{"--contact-email", "it@acme.example"}, `{"contact_email":"it@acme.example"}`},
		"no address any more": {[]string{"--contact-email="}, `{"contact_email":null}`},
		"a name alone":        {[]string{"--name", "Acme"}, `{"name":"Acme"}`},
		"its own times":       {[]string{"--keep-events", "90d", "--keep-attempts", "default"}, `{"retention":{"attempts":null,"events":"90d"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t, answerJSON(200, `{"id":"ten_1"}`))
			out := must(t, nil, s.args(append([]string{"tenants", "update", "acme"}, c.line...)...)...)
			if got := s.asked[0]; got.method != http.MethodPatch || got.uri != "/v1/tenants/acme" || got.body != c.body {
				t.Errorf("asked %s %s %s", got.method, got.uri, got.body)
			}
			if !strings.Contains(out, "ten_1") {
				t.Errorf("shown: %s", out)
			}
		})
	}
}
