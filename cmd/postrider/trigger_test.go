package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

func TestTriggerTakesTheExampleAndSaysWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	server := goCLI(t, serverEnv(t, "POSTRIDER_DELIVERY_RETRY_SCHEDULE=50ms,1h"), "serve")
	env := clientEnv(t, server)
	example := filepath.Join(t.TempDir(), "example.json")
	if err := os.WriteFile(example, []byte(`{"order": "A-1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, env, "tenants", "create", "Acme", "--uid", "acme")
	got := cli(t.Context(), env, "", "trigger", "order.paid", "--tenant", "acme", "--wait")
	if got.code != exitFailed || !strings.Contains(got.errout, `"order.paid" is not in the catalogue: give a payload by --data or --file, or`) {
		t.Errorf("no type: %+v", got)
	}
	must(t, env, "event-types", "put", "order.paid", "--description", "paid")
	if got := cli(t.Context(), env, "", "trigger", "order.paid", "--tenant", "acme"); got.code != exitFailed ||
		!strings.Contains(got.errout, `no example for "order.paid": give a payload by --data`) {
		t.Errorf("no example: %+v", got)
	}
	must(t, env, "event-types", "put", "order.paid", "--example", example)
	if got := cli(t.Context(), env, "", "trigger", "order.paid", "--tenant", "acme", "--wait"); got.code != exitFailed ||
		!strings.Contains(got.errout, "no endpoint of the tenant gets it") {
		t.Errorf("nobody: %+v", got)
	}

	var calls atomic.Int32
	flaky := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(flaky.Close)
	must(t, env, "endpoints", "create", flaky.URL, "--tenant", "acme", "--uid", "shop")
	out := must(t, env, "trigger", "order.paid", "--tenant", "acme", "--wait")
	if !regexp.MustCompile(`(?m)^ep_\w+ dlv_\w+: attempt 2 succeeded 200; succeeded$`).MatchString(out) {
		t.Errorf("a flaky one: %s", out)
	}

	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(refusing.Close)
	must(t, env, "endpoints", "create", refusing.URL, "--tenant", "acme", "--uid", "vault", "--event-types", "other")
	if out := must(t, env, "trigger", "order.paid", "--tenant", "acme", "--wait"); !strings.Contains(out, ": skipped, event_type") {
		t.Errorf("one that does not want it: %s", out)
	}
	got = cli(t.Context(), env, "", "trigger", "order.paid", "--tenant", "acme", "--endpoint", "vault", "--data", `{}`, "--wait")
	if got.code != exitFailed || !strings.Contains(got.out, "attempt 1 unauthorized 401; failed (unauthorized)") ||
		!strings.Contains(got.errout, "1 of 1 endpoints did not take it") {
		t.Errorf("one that refuses: %+v", got)
	}
	must(t, env, "endpoints", "update", "vault", "--tenant", "acme", "--status", "disabled")
	got = cli(t.Context(), env, "", "trigger", "order.paid", "--tenant", "acme", "--endpoint", "vault", "--wait")
	if got.code != exitFailed || !strings.Contains(got.out, ": held") || !strings.Contains(got.errout, "1 of 1 endpoints did not take it") {
		t.Errorf("one that is disabled: %+v", got)
	}
	var e event
	if err := json.Unmarshal([]byte(must(t, env, "trigger", "order.paid", "--tenant", "acme", "--wait", "--json")), &e); err != nil ||
		e.Status != "succeeded" || len(e.Deliveries) != 1 || len(e.Skipped) != 1 {
		t.Errorf("for machines: %+v, %v", e, err)
	}
}

func TestTriggerSendsTheExampleAsItStands(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args      []string
		uri, body string
	}{
		"to all":          {nil, "/v1/tenants/acme/events", `{"type":"order.paid","payload":{ "a":1E+2 }}`},
		"to one":          {[]string{"--endpoint", "shop"}, "/v1/tenants/acme/endpoints/shop/test", `{"type":"order.paid","payload":{ "a":1E+2 }}`},
		"another payload": {[]string{"--data", `[1, 2]`}, "/v1/tenants/acme/events", `{"type":"order.paid","payload":[1, 2]}`},
	} {
		s := newStandIn(t, answerJSON(200, `{"id":"evt_1","type":"order.paid","status":"queued","deliveries":1,"example":{ "a":1E+2 }}`))
		out := must(t, nil, s.args(append([]string{"trigger", "order.paid", "--tenant", "acme"}, c.args...)...)...)
		last := s.asked[len(s.asked)-1]
		if out != "evt_1 order.paid: queued, 1 delivery\n" || last.uri != c.uri || last.body != c.body {
			t.Errorf("%s: %s, %s %s", name, out, last.uri, last.body)
		}
	}
}

func TestTriggerDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			answerJSON(202, `{"id":"evt_1","type":"a","status":"queued","deliveries":1}`)(w, r)
			return
		}
		answerJSON(200, `{"id":"evt_1","deliveries":[{"id":"dlv_1","endpoint_id":"ep_1","state":"pending","attempts":1,
			"last_outcome":"retryable","last_status":503,"next_attempt_at":"2026-11-30T09:01:00Z"}]}`)(w, r)
	})
	got := cli(t.Context(), nil, "", s.args("trigger", "a", "--tenant", "acme", "--data", "{}", "--wait", "--timeout", "1ms")...)
	if got.code != exitFailed || !strings.HasSuffix(got.out, "\nep_1 dlv_1: attempt 1 retryable 503; to be tried again in 1m\n") ||
		!strings.Contains(got.errout, "not all of it is through after 1ms; `postrider events show evt_1 --tenant acme` shows it") {
		t.Errorf("%+v", got)
	}
}
