package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEndpointFlagsAreWhatTheServerIsAsked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ line, method, body string }{
		"create": {
			"create https://a.test --rate-limit 100/1m30s --ordering group --format cloudevents --trace-context", "POST",
			`{"format":"cloudevents","ordering":"group","rate_limit":{"limit":100,"per":"1m30s"},"trace_context":true,"url":"https://a.test"}`,
		},
		"filter":    {"create https://a.test --filter payload.a==1", "POST", `{"filter":"payload.a==1","url":"https://a.test"}`},
		"no filter": {"update ep_1 --filter=", "PATCH", `{"filter":null}`},
		"update":    {"update ep_1 --rate-limit 1/1d", "PATCH", `{"rate_limit":{"limit":1,"per":"1d"}}`},
		"take away": {"update ep_1 --rate-limit= --ordering= --format=", "PATCH", `{"format":null,"ordering":null,"rate_limit":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t, answerJSON(200, `{"id":"ep_1","status":"enabled"}`))
			must(t, nil, s.args(append([]string{"endpoints", "--tenant", "acme"}, strings.Fields(c.line)...)...)...)
			if got := s.asked[0]; got.method != c.method || got.body != c.body {
				t.Errorf("asked %s %s, want %s %s", got.method, got.body, c.method, c.body)
			}
		})
	}
}

func TestAnEndpointIsShownWithItsPace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		want   []string // each is the whole of a line, but for blanks
	}{
		"paced": {
			`{"id":"ep_1","status":"enabled","rate_limit":{"limit":100,"per":"1s"},"ordering":"group","format":"cloudevents","paused_until":"2026-11-30T09:05:00Z",
				"breaker":{"state":"open","since":"2026-11-30T09:00:00Z","next_probe_at":"2026-11-30T09:01:00Z"}}`,
			[]string{
				"rate limit 100/1s", "ordering group", "format cloudevents", "paused until 2026-11-30T09:05:00Z",
				"breaker open since 2026-11-30T09:00:00Z, next probe 2026-11-30T09:01:00Z",
			},
		},
		"plain": {
			`{"id":"ep_1","status":"enabled","rate_limit":null,"ordering":"none","paused_until":null,
				"breaker":{"state":"closed","since":null,"next_probe_at":null}}`,
			[]string{"rate limit none", "ordering none", "breaker closed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t, answerJSON(200, c.answer))
			out := must(t, nil, s.args("endpoints", "show", "ep_1", "--tenant", "acme")...)
			lines := map[string]bool{}
			for line := range strings.Lines(out) {
				lines[strings.Join(strings.Fields(line), " ")] = true
			}
			for _, want := range c.want {
				if !lines[want] {
					t.Errorf("no line %q in\n%s", want, out)
				}
			}
		})
	}
}

func TestTLSFlagsAreFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca, cert, key := file("ca", "A\n"), file("cert", "C\n"), file("key", "K\n")
	for name, c := range map[string]struct {
		line []string
		body string
	}{
		"create":      {[]string{"create", "https://a.test", "--tls-ca", ca, "--tls-certificate", cert, "--tls-key", key}, `{"tls":{"ca":"A\n","certificate":"C\n","key":"K\n"},"url":"https://a.test"}`},
		"another":     {[]string{"update", "ep_1", "--tls-certificate", cert, "--tls-key", key}, `{"tls":{"certificate":"C\n","key":"K\n"}}`},
		"take away":   {[]string{"update", "ep_1", "--tls-ca=", "--tls-certificate="}, `{"tls":{"ca":null,"certificate":null}}`},
		"nothing":     {[]string{"update", "ep_1", "--timeout", "1s"}, `{"timeout":"1s"}`},
		"one of both": {[]string{"update", "ep_1", "--tls-ca", ca}, `{"tls":{"ca":"A\n"}}`},
	} {
		s := newStandIn(t, answerJSON(200, `{"id":"ep_1","status":"enabled"}`))
		must(t, nil, s.args(append([]string{"endpoints", "--tenant", "acme"}, c.line...)...)...)
		if got := s.asked[0]; got.body != c.body {
			t.Errorf("%s: asked %s, want %s", name, got.body, c.body)
		}
	}
}

func TestAnEndpointIsShownWithItsTLS(t *testing.T) {
	t.Parallel()
	for tls, want := range map[string]string{
		`null`: "the system's authorities, no client certificate",
		`{"ca":"x","certificate":null,"certificate_subject":null,"certificate_not_after":null}`:                     "its own authorities",
		`{"ca":null,"certificate":"x","certificate_subject":"CN=a","certificate_not_after":"2027-01-01T00:00:00Z"}`: "the system's authorities, the client certificate of CN=a until 2027-01-01T00:00:00Z",
	} {
		s := newStandIn(t, answerJSON(200, `{"id":"ep_1","status":"enabled","tls":`+tls+`}`))
		out := must(t, nil, s.args("endpoints", "show", "ep_1", "--tenant", "acme")...)
		if !strings.Contains(strings.Join(strings.Fields(out), " "), "tls "+want+" created") {
			t.Errorf("%s is shown as\n%s", tls, out)
		}
	}
}
