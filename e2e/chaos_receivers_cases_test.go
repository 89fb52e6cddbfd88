//go:build chaos

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/signer"
)

// fieldPayloads gives the payloads of a case in docs/cases/field-cases.json.
func fieldPayloads(t *testing.T, id string) (out [][]byte) {
	t.Helper()
	raw, err := os.ReadFile("../docs/cases/field-cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			ID       string
			Scenario struct {
				Payloads []struct {
					B64 string `json:"payload_b64"`
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	for _, c := range file.Cases {
		if c.ID != id {
			continue
		}
		for _, p := range c.Scenario.Payloads {
			b, err := base64.StdEncoding.DecodeString(p.B64)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b)
		}
	}
	if len(out) == 0 {
		t.Fatalf("there is no case %s", id)
	}
	return out
}

// raw enqueues bytes and gives the event.
func (p *process) raw(tenant, kind string, body []byte) string {
	p.t.Helper()
	r := p.do(http.MethodPost, "/v1/tenants/"+tenant+"/events/"+kind, "application/json", body)
	if r.status != http.StatusAccepted {
		p.t.Fatalf("%d: %s", r.status, r.body)
	}
	return r.object(p.t).text("id")
}

// FC-029: a receiver that answers each event with the status in its payload.
func TestChaosReceiversStatuses(t *testing.T) {
	t.Parallel()
	p := serve(t, settings{"DELIVERY_RETRY_SCHEDULE": "100ms"})
	tenant := p.tenant()
	type sent struct {
		status int
		event  string
		r      *receiver
	}
	var all []sent
	for _, payload := range fieldPayloads(t, "FC-029") {
		var said struct{ Status int }
		if err := json.Unmarshal(payload, &said); err != nil {
			t.Fatal(err)
		}
		r := receive(t, always(said.Status))
		kind := fmt.Sprint("status-", said.Status)
		p.endpoint(tenant, r.url("/"), object{"event_types": []string{kind}})
		all = append(all, sent{said.Status, p.raw(tenant, kind, payload), r})
	}
	for _, s := range all {
		state, requests := "failed", 2
		switch {
		case s.status < 300:
			state, requests = "succeeded", 1
		case s.status == http.StatusUnauthorized, s.status == http.StatusGone:
			requests = 1
		}
		d := p.await(s.event, state)
		if got := s.r.count(); got != requests || d.number("attempts") != requests || d.number("last_status") != s.status {
			t.Errorf("%d: %d requests, want %d: %s", s.status, got, requests, sprint(d))
		}
	}
}

// FC-014: each attempt's timestamp, and so its signature, is of the moment at which it is sent, however late a retry is.
func TestChaosReceiversWithAClock(t *testing.T) {
	t.Parallel()
	const exact = 2 * time.Second
	r := receive(t, func(n int, _ request) string {
		if n < 4 {
			return answer(http.StatusInternalServerError)
		}
		return answer(http.StatusOK)
	})
	p := serve(t, settings{"DELIVERY_RETRY_SCHEDULE": "100ms,3s,1s"})
	late := lagMeter(t)
	tenant := p.tenant()
	secret := p.endpoint(tenant, r.url("/"), nil).object("signature").text("secret")
	p.await(p.raw(tenant, "a", fieldPayloads(t, "FC-014")[0]), "succeeded")
	for i, req := range r.requests() {
		if err := signer.Verify(signer.Standard, "", secret, req.get, req.body, req.at, exact+late()); err != nil {
			t.Errorf("attempt %d: %v", i+1, err)
		}
	}
	if n := r.count(); n != 4 {
		t.Errorf("%d requests", n)
	}
}

// FC-021: no redirect is followed, whatever its status, and what it says is shown.
func TestChaosReceiversRedirect(t *testing.T) {
	t.Parallel()
	p := serve(t, settings{"DELIVERY_RETRY_SCHEDULE": "100ms"})
	tenant := p.tenant()
	c := receive(t, always(http.StatusOK))
	b := receive(t, always(http.StatusFound, "Location: "+c.url("/t")))
	for _, location := range []string{b.url("/t"), ""} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			var headers []string
			if location != "" {
				headers = []string{"Location: " + location}
			}
			a := receive(t, always(status, headers...))
			kind := fmt.Sprintf("redirect-%d-%d", status, len(location))
			p.endpoint(tenant, a.url("/"), object{"event_types": []string{kind}})
			d := p.await(p.raw(tenant, kind, fieldPayloads(t, "FC-021")[0]), "failed")
			for _, one := range p.attempts(d) {
				if one.text("outcome") != "redirected" || one.number("status") != status || !strings.Contains(one.text("error"), "redirects") || !strings.Contains(one.text("error"), location) {
					t.Errorf("%d to %q: %s", status, location, sprint(one))
				}
			}
		}
	}
	if b.count()+c.count() != 0 {
		t.Errorf("%d and %d requests came where the redirects lead", b.count(), c.count())
	}
}

// FC-032: an address that is not allowed is refused on a change as on registration, and for a test event and a resend at the
// dial. None of it says what is inside.
func TestChaosReceiversInside(t *testing.T) {
	t.Parallel()
	env := settings{"DATABASE_URL": pgtest.URL(t), "DELIVERY_RETRY_SCHEDULE": "100ms"}
	p := serve(t, env)
	canary := receive(t, always(http.StatusNotFound))
	tenant := p.tenant()
	e := "/v1/tenants/" + tenant + "/endpoints/" + p.endpoint(tenant, canary.url("/"), nil).text("id")
	old := p.await(p.send(tenant, "a", 1), "failed").text("id")
	came := canary.count()
	p.stop()

	env["DELIVERY_ALLOW_NETWORKS"] = ""
	strict := serve(t, env)
	if said := sprint(strict.want(http.StatusUnprocessableEntity, http.MethodPatch, e, object{"url": "http://169.254.169.254/latest/"})); !strings.Contains(said, "/url") {
		t.Errorf("the refusal says %s", said)
	}
	strict.want(http.StatusAccepted, http.MethodPost, e+"/test", object{})
	strict.want(http.StatusOK, http.MethodPost, "/v1/deliveries/"+old+"/retry", nil)
	eventually(t, func() string {
		all := strict.get("/v1/deliveries?tenant=" + tenant).list("data")
		for _, d := range all {
			if d.text("reason") != "blocked" {
				return sprint(d)
			}
		}
		if len(all) != 2 {
			return fmt.Sprintf("%d deliveries", len(all))
		}
		return ""
	})
	for _, d := range strict.get("/v1/deliveries?tenant=" + tenant).list("data") {
		if a := strict.attempts(d)[0]; a.text("outcome") != "blocked" || strings.Contains(a.text("error"), "127.0.0.1") {
			t.Errorf("attempt: %s", sprint(a))
		}
	}
	if n := canary.count(); n != came {
		t.Errorf("%d requests reached the canary", n-came)
	}
}

// FC-028, the receiver's half of it: what it says is told as it was, in JSON that no browser takes for a page.
func TestChaosReceiversScript(t *testing.T) {
	t.Parallel()
	p := serve(t, settings{"DELIVERY_RETRY_SCHEDULE": "100ms"})
	tenant := p.tenant()
	for i, body := range []string{`<script>alert(1)</script>`, `=HYPERLINK("http://e/","x")`} {
		r := receive(t, func(int, request) string {
			return fmt.Sprintf("HTTP/1.1 404 <script>alert(1)</script>\r\nX-T: <img src=x onerror=alert(1)>\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		})
		kind := fmt.Sprint("script-", i)
		p.endpoint(tenant, r.url("/"), object{"event_types": []string{kind}})
		d := p.await(p.raw(tenant, kind, fieldPayloads(t, "FC-028")[0]), "failed")
		got := p.do(http.MethodGet, "/v1/deliveries/"+d.text("id")+"/attempts", "", nil)
		if got.header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(got.header.Get("Content-Type"), "application/json") {
			t.Errorf("headers: %v", got.header)
		}
		for _, a := range got.object(t).list("data") {
			if a.text("response_body") != body || a.object("response_headers").text("X-T") != "<img src=x onerror=alert(1)>" || strings.Contains(a.text("error"), "<") {
				t.Errorf("attempt: %s", sprint(a))
			}
		}
	}
}
