package main

import (
	"net/http"
	"strings"
	"testing"
)

func TestSendingWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	const accepted = `{"id":"evt_1","type":"a","status":"queued","deliveries":1}`
	event := func(status string) string {
		return `{"id":"evt_1","type":"a","status":"` + status + `","deliveries":[],"skipped":[]}`
	}
	for name, c := range map[string]struct {
		wait     string
		statuses []string // one look after the other
		code     int
		says     string
	}{
		"done at once":  {"--wait", []string{"succeeded"}, exitDone, "status      succeeded"},
		"two looks":     {"--wait=1m", []string{"running", "succeeded"}, exitDone, "status      succeeded"},
		"failed":        {"--wait=5s", []string{"failed"}, exitFailed, "postrider: the event is failed"},
		"cancelled":     {"--wait=5s", []string{"cancelled"}, exitFailed, "postrider: the event is cancelled"},
		"not finished":  {"--wait=0s", []string{"running"}, exitFailed, "postrider: the event is running still, after 0"},
		"no such event": {"--wait", []string{""}, exitFailed, "postrider: evt_1 was accepted, but: gone"},
		"no duration":   {"--wait=soon", nil, exitUsage, "--wait"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			looks := 0
			s := newStandIn(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					answerJSON(202, accepted)(w, r)
					return
				}
				status := c.statuses[min(looks, len(c.statuses)-1)]
				if looks++; status == "" {
					answerJSON(404, `{"title":"Not Found","status":404,"detail":"gone"}`)(w, r)
					return
				}
				answerJSON(200, event(status))(w, r)
			})
			got := cli(t.Context(), nil, "", s.args("events", "send", "--tenant", "acme", "--type", "a", "--data", "1", c.wait)...)
			if got.code != c.code || !strings.Contains(got.out+got.errout, c.says) || looks != len(c.statuses) {
				t.Errorf("exit %d after %d looks: %s%s", got.code, looks, got.out, got.errout)
			}
			for _, asked := range s.asked[min(1, len(s.asked)):] {
				if !strings.HasPrefix(asked.uri, "/v1/tenants/acme/events/evt_1?wait=") {
					t.Errorf("asked %s", asked.uri)
				}
			}
		})
	}
}
