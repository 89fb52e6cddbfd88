package main

import (
	"strings"
	"testing"
)

func TestScheduleFlagsAreWhatTheServerIsAsked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line               []string
		method, path, body string
	}{
		"create": {
			[]string{"create", "--cron", "30 9 * * *", "--timezone", "Europe/Berlin", "--type", "a", "--data", `{ "n":1.0 }`, "--late", "last"},
			"POST", "",
			`{"cron":"30 9 * * *","late":"last","timezone":"Europe/Berlin","type":"a","payload":{ "n":1.0 }}`,
		},
		"pause":   {[]string{"update", "daily", "--paused"}, "PATCH", "/daily", `{"paused":true}`},
		"go on":   {[]string{"update", "daily", "--paused=false", "--uid="}, "PATCH", "/daily", `{"paused":false,"uid":null}`},
		"payload": {[]string{"update", "daily", "--data", "null"}, "PATCH", "/daily", `{"payload":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t, answerJSON(200, `{"id":"sch_1","status":"active"}`))
			must(t, nil, s.args(append([]string{"schedules", "--tenant", "acme"}, c.line...)...)...)
			if got := s.asked[0]; got.method != c.method || got.uri != "/v1/tenants/acme/schedules"+c.path || got.body != c.body {
				t.Errorf("asked %s %s %s, want %s %s", got.method, got.uri, got.body, c.method, c.body)
			}
		})
	}
}

func TestAScheduleIsShown(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, answerJSON(200, `{"id":"sch_1","cron":"@daily","timezone":"UTC","status":"failing","last_error":"no",
		"next_at":"2026-11-30T09:05:00Z","occurrences":[{"at":"2026-11-29T00:00:00Z","error":"no"},
		{"at":"2026-11-28T10:00:00Z","by_hand":true,"event_id":"evt_1"}]}`))
	out := must(t, nil, s.args("schedules", "show", "sch_1", "--tenant", "acme")...)
	for _, want := range []string{"@daily (UTC)", "failing", "failed: no", "evt_1 (by hand)"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}
