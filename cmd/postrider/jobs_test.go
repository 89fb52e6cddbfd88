package main

import (
	"net/http"
	"strings"
	"testing"
)

func TestReplayFlagsAreWhatTheServerIsAsked(t *testing.T) {
	t.Parallel()
	const since = "2026-11-30T09:00:00Z"
	for name, c := range map[string]struct {
		line          []string
		path, body    string
		answer, shown string
	}{
		"a window": {
			[]string{"endpoints", "replay", "shop", "--tenant", "acme", "--since", since, "--state", "failed,missing", "--type", "order.*"},
			"/v1/tenants/acme/endpoints/shop/replay", `{"since":"` + since + `","states":["failed","missing"],"types":["order.*"]}`,
			`{"id":"job_1","kind":"replay","state":"queued"}`, "job_1 replay: queued, 0 of 0\n",
		},
		"how many": {
			[]string{"endpoints", "replay", "shop", "--tenant", "acme", "--since", since, "--until", "2026-11-30T10:00:00+01:00", "--dry-run", "--wait"},
			"/v1/tenants/acme/endpoints/shop/replay", `{"dry_run":true,"since":"` + since + `","until":"` + since + `"}`,
			`{"kind":"replay","matched":7,"matched_at_least":true}`, "replay: 7 or more would go\n",
		},
		"an event": {
			[]string{"events", "replay", "evt_1", "--tenant", "acme"},
			"/v1/tenants/acme/events/evt_1/replay", `{}`,
			`{"id":"job_1","kind":"replay","state":"queued","matched":2}`, "job_1 replay: queued, 0 of 2\n",
		},
		"cancel an event": {
			[]string{"events", "cancel", "evt_1", "--tenant", "acme"},
			"/v1/tenants/acme/events/evt_1/cancel", ``,
			`{"id":"evt_1","status":"cancelled"}`, "cancelled",
		},
		"cancel a delivery": {
			[]string{"deliveries", "cancel", "dlv_1"},
			"/v1/deliveries/dlv_1/cancel", ``,
			`{"id":"dlv_1","state":"cancelled","reason":"manual"}`, "dlv_1 cancelled (manual)\n",
		},
		"cancel a job": {
			[]string{"jobs", "cancel", "job_1"},
			"/v1/jobs/job_1/cancel", ``,
			`{"id":"job_1","kind":"retry","state":"cancelled","done":3,"matched":9,"skipped":1}`, "job_1 retry: cancelled, 3 of 9, 1 skipped\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t, answerJSON(200, c.answer))
			out := must(t, nil, s.args(c.line...)...)
			if got := s.asked[0]; got.method != http.MethodPost || got.uri != c.path || got.body != c.body {
				t.Errorf("asked %s %s %s", got.method, got.uri, got.body)
			}
			if !strings.Contains(out, c.shown) {
				t.Errorf("shown:\n%s", out)
			}
		})
	}
}

func TestJobsAreListed(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, answerJSON(200, `{"data":[{"id":"job_1","kind":"replay","state":"running","matched":9,"done":4,"created_by":"key_1"}],"next_cursor":null}`))
	out := must(t, nil, s.args("jobs", "list", "--tenant", "acme")...)
	if got := s.asked[0]; !strings.HasPrefix(got.uri, "/v1/jobs?") || !strings.Contains(got.uri, "tenant=acme") {
		t.Errorf("asked %s", got.uri)
	}
	for _, want := range []string{"job_1", "replay", "running", "4", "9", "key_1"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is not in\n%s", want, out)
		}
	}
}

// A replay is waited for on a real server: how it ended is the exit code.
func TestReplayIsWaitedFor(t *testing.T) {
	t.Parallel()
	env := clientEnv(t, goCLI(t, serverEnv(t), "serve"))
	must(t, env, "tenants", "create", "Acme", "--uid", "acme")
	must(t, env, "events", "send", "--tenant", "acme", "--type", "a", "--data", "1")
	must(t, env, "endpoints", "create", "--tenant", "acme", "--uid", "late", "--kind", "pull")
	if out := must(t, env, "endpoints", "replay", "late", "--tenant", "acme", "--since", "1h", "--dry-run"); out != "replay: 1 would go\n" {
		t.Errorf("how many: %s", out)
	}
	out := must(t, env, "endpoints", "replay", "late", "--tenant", "acme", "--since", "1h", "--wait")
	if !strings.Contains(out, " replay: succeeded, 1 of 1\n") {
		t.Errorf("waited for: %s", out)
	}
	job, _, _ := strings.Cut(out, " ")
	if out := must(t, env, "jobs", "show", job); !strings.Contains(out, "succeeded, 1 of 1") {
		t.Errorf("shown: %s", out)
	}
	if out := must(t, env, "deliveries", "list", "--tenant", "acme"); !strings.Contains(out, "pending") {
		t.Errorf("what the endpoint never got does not wait for it:\n%s", out)
	}
}
