//go:build chaos

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// judge waits for the verdict on an event, and holds what the API tells of it against what the receiver saw.
func (p *process) judge(t *testing.T, s *stand, late func() time.Duration) {
	t.Helper()
	var d object
	eventually(t, func() string {
		all := p.deliveries(s.event)
		if len(all) != 1 {
			return fmt.Sprintf("%d deliveries", len(all))
		}
		if d = all[0]; d.text("state") != "succeeded" && d.text("state") != "failed" {
			return "not finished: " + sprint(d)
		}
		return ""
	})
	raw := p.do(http.MethodGet, "/v1/deliveries/"+d.text("id")+"/attempts", "", nil).body
	if !utf8.Valid(raw) || !json.Valid(raw) {
		t.Fatalf("the attempts are no JSON in UTF-8: %q", raw)
	}
	attempts := reply{body: raw}.object(t).list("data")
	if len(attempts) == 0 || len(attempts) != d.number("attempts") {
		t.Fatalf("%d attempts are shown of %s", len(attempts), sprint(d))
	}
	state, reason, tries := "failed", "exhausted", 2
	if attempts[0].text("outcome") == "succeeded" {
		state, reason, tries = "succeeded", "", len(attempts)
		if !strings.Contains(s.outcome, "|") {
			tries = 1
		}
	}
	if d.text("state") != state || d.text("reason") != reason || len(attempts) != tries {
		t.Errorf("delivery: %s", sprint(d))
	}
	for _, a := range attempts {
		s.attempt(t, a, late)
	}
	if s.r != nil {
		s.wire(t, len(attempts), late)
	}
}

// attempt holds one against what is expected.
func (s *stand) attempt(t *testing.T, a object, late func() time.Duration) {
	t.Helper()
	outcome, why := a.text("outcome"), a.text("error")
	if !slices.Contains(strings.Split(s.outcome, "|"), outcome) || !strings.Contains(s.outcome, "|") && a.number("status") != s.status {
		t.Errorf("want %s %d: %s", s.outcome, s.status, sprint(a))
	}
	if (why == "") != (outcome == "succeeded") || strings.Contains(why, "CANARY") || strings.Contains(why, "127.0.0.1") ||
		!strings.Contains(why, s.says) {
		t.Errorf("it says %q", why)
	}
	body := []byte(a.text("response_body"))
	if a.text("response_body_encoding") == "base64" {
		var err error
		if body, err = base64.StdEncoding.DecodeString(string(body)); err != nil {
			t.Error(err)
		}
	}
	if s.body != "" && string(body) != s.body || s.size != 0 && len(body) != s.size || len(body) > kept {
		t.Errorf("%d bytes of the answer are kept: %s", len(body), sprint(a))
	}
	for name, value := range s.headers {
		if got := a.object("response_headers").text(name); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	total, _ := a.object("timings")["total_ms"].(float64)
	took := time.Duration(total * float64(time.Millisecond))
	least, most := time.Duration(1), allowed+late()
	if s.hangs {
		least, most = allowed, most+grace
	}
	if took < least && !strings.Contains(s.outcome, "|") || took > most {
		t.Errorf("it took %v, of %v", took, allowed)
	}
}

// wire holds what the receiver saw in all rounds against the attempts.
func (s *stand) wire(t *testing.T, attempts int, late func() time.Duration) {
	t.Helper()
	s.tried += attempts
	attempts = s.tried
	conns, requests := s.r.counted()
	if s.unread {
		requests = conns
	}
	if requests != attempts || conns > attempts {
		t.Errorf("%d requests on %d connections for %d attempts", requests, conns, attempts)
	}
	if s.hangs && !s.unread && !s.big {
		eventually(t, func() string {
			for _, one := range s.r.seen() {
				if one.ended.IsZero() {
					return "a request that is over is not given up"
				}
			}
			return ""
		})
	}
	for _, one := range s.r.seen() {
		if took := one.ended.Sub(one.begun); took > allowed+grace+late() {
			t.Errorf("by the receiver's clock it took %v, of %v", took, allowed)
		}
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.r.cookies > 0 {
		t.Errorf("%d requests brought a cookie", s.r.cookies)
	}
}

// onlyJSON checks that nothing but log lines of ours came out of the process: no library may print what a receiver said, nor
// that it said something, for it could say it without end.
func (p *process) onlyJSON(t *testing.T) {
	t.Helper()
	for l := range strings.Lines(p.logged()) {
		if !json.Valid([]byte(l)) || strings.Contains(l, "CANARY") || strings.Contains(l, `"http.transport"`) {
			t.Errorf("in the log: %q", l)
		}
	}
}
