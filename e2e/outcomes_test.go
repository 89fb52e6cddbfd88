package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/signer"
)

// Every row of CONTRACT §2's table, from what a receiver does to what the delivery, its attempts, its endpoint and its
// alert show.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	p := serve(t, settings{"DELIVERY_RETRY_SCHEDULE": "50ms", "DELIVERY_TIMEOUT": "500ms", "DELIVERY_LEASE": "2s"})
	tenant := p.tenant()
	refused := receive(t, always(200))
	_ = refused.l.Close()
	plain := receive(t, always(200))

	for name, c := range map[string]struct {
		play     script
		url      string
		outcome  string
		state    string
		reason   string
		attempts int
		status   int    // 0: none
		says     string // in the attempt's error
		endpoint string // its status afterwards
		alert    string
	}{
		"200":                  {play: always(200), outcome: "succeeded", state: "succeeded", attempts: 1, status: 200},
		"204":                  {play: always(204), outcome: "succeeded", state: "succeeded", attempts: 1, status: 204},
		"299":                  {play: always(299), outcome: "succeeded", state: "succeeded", attempts: 1, status: 299},
		"401":                  {play: always(401), outcome: "unauthorized", state: "failed", reason: "unauthorized", attempts: 1, status: 401, says: "credentials", alert: "endpoint.unauthorized"},
		"403":                  {play: always(403), outcome: "unauthorized", state: "failed", reason: "unauthorized", attempts: 1, status: 403, says: "credentials", alert: "endpoint.unauthorized"},
		"410":                  {play: always(410), outcome: "gone", state: "failed", reason: "gone", attempts: 1, status: 410, endpoint: "dead", alert: "endpoint.dead"},
		"408":                  {play: always(408), outcome: "retryable", state: "failed", reason: "exhausted", attempts: 2, status: 408, alert: "delivery.failed"},
		"425":                  {play: always(425), outcome: "retryable", state: "failed", reason: "exhausted", attempts: 2, status: 425, alert: "delivery.failed"},
		"429":                  {play: always(429), outcome: "retryable", state: "failed", reason: "exhausted", attempts: 2, status: 429, alert: "delivery.failed"},
		"500":                  {play: always(500), outcome: "retryable", state: "failed", reason: "exhausted", attempts: 2, status: 500, alert: "delivery.failed"},
		"599":                  {play: always(599), outcome: "retryable", state: "failed", reason: "exhausted", attempts: 2, status: 599, alert: "delivery.failed"},
		"302":                  {play: always(302, "Location: https://elsewhere.test/new?token=x"), outcome: "redirected", state: "failed", reason: "exhausted", attempts: 2, status: 302, says: "https://elsewhere.test/new", alert: "delivery.failed"},
		"308 without Location": {play: always(308), outcome: "redirected", state: "failed", reason: "exhausted", attempts: 2, status: 308, says: "redirects", alert: "delivery.failed"},
		"304":                  {play: always(304), outcome: "redirected", state: "failed", reason: "exhausted", attempts: 2, status: 304, alert: "delivery.failed"},
		"400":                  {play: always(400), outcome: "rejected", state: "failed", reason: "exhausted", attempts: 2, status: 400, alert: "delivery.failed"},
		"404":                  {play: always(404), outcome: "rejected", state: "failed", reason: "exhausted", attempts: 2, status: 404, alert: "delivery.failed"},
		"101":                  {play: always(101), outcome: "protocol_error", state: "failed", reason: "exhausted", attempts: 2, status: 101, alert: "delivery.failed"},
		"600":                  {play: always(600), outcome: "protocol_error", state: "failed", reason: "exhausted", attempts: 2, status: 600, alert: "delivery.failed"},
		"not HTTP": {
			play:    func(int, request) string { return "hello\r\n\r\n" },
			outcome: "protocol_error", state: "failed", reason: "exhausted", attempts: 2, alert: "delivery.failed",
		},
		"oversized headers": {
			play: func(int, request) string {
				return "HTTP/1.1 200 OK\r\nX-Pad: " + strings.Repeat("x", 2<<20) + "\r\n\r\n"
			},
			outcome: "protocol_error", state: "failed", reason: "exhausted", attempts: 2, alert: "delivery.failed",
		},
		"closed without an answer": {
			play:    func(int, request) string { return "" },
			outcome: "connect_error", state: "failed", reason: "exhausted", attempts: 2, alert: "delivery.failed",
		},
		"connection refused": {url: refused.url("/"), outcome: "connect_error", state: "failed", reason: "exhausted", attempts: 2, says: "refused", alert: "delivery.failed"},
		"no such host":       {url: "http://no-such-host.invalid:8080/", outcome: "dns_error", state: "failed", reason: "exhausted", attempts: 2, alert: "delivery.failed"},
		"not TLS":            {url: strings.Replace(plain.url("/"), "http:", "https:", 1), outcome: "tls_error", state: "failed", reason: "exhausted", attempts: 2, says: "TLS", alert: "delivery.failed"},
		"no answer in time": {
			play: func(int, request) string {
				<-time.After(700 * time.Millisecond) // longer than the attempt has
				return answer(200)
			},
			outcome: "timeout", state: "failed", reason: "exhausted", attempts: 2, alert: "delivery.failed",
		},
		"a body that never ends": {
			play:    func(int, request) string { return "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nhello" },
			outcome: "succeeded", state: "succeeded", attempts: 1, status: 200,
		},
		"a body that is cut off": {
			play: func(int, request) string {
				return "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 100\r\n\r\nhello"
			},
			outcome: "succeeded", state: "succeeded", attempts: 1, status: 200,
		},
		"abort-message in a 200": {
			play: always(200, "webhook-delivery: abort-message"), outcome: "succeeded", state: "failed", reason: "aborted",
			attempts: 1, status: 200, alert: "delivery.failed",
		},
		"abort-message in a 404": {
			play: always(404, "webhook-delivery: abort-message"), outcome: "rejected", state: "failed", reason: "aborted",
			attempts: 1, status: 404, alert: "delivery.failed",
		},
		"disable in a 200": {
			play: always(200, "webhook-delivery: disable"), outcome: "succeeded", state: "succeeded", attempts: 1, status: 200,
			endpoint: "disabled", alert: "endpoint.disabled",
		},
		"disable in a 400": {
			play: always(400, "webhook-delivery: disable"), outcome: "rejected", state: "held", reason: "receiver_asked",
			attempts: 1, status: 400, endpoint: "disabled", alert: "endpoint.disabled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := c.url
			var r *receiver
			if url == "" {
				r = receive(t, c.play)
				url = r.url("/hook")
			}
			e := p.endpoint(tenant, url, object{"event_types": []string{"t." + strings.Map(letters, name)}})
			event := p.send(tenant, "t."+strings.Map(letters, name), object{"n": 1})
			d := p.await(event, c.state)
			if d.text("reason") != c.reason || d.number("attempts") != c.attempts || d.text("last_outcome") != c.outcome || d.number("last_status") != c.status {
				t.Errorf("delivery: %s", sprint(d))
			}
			attempts := p.attempts(d)
			if len(attempts) != c.attempts {
				t.Fatalf("%d attempts are shown: %s", len(attempts), sprint(attempts))
			}
			for i, a := range attempts { // newest first
				if a.number("attempt") != c.attempts-i || a.text("outcome") != c.outcome || a.number("status") != c.status || !strings.Contains(a.text("error"), c.says) {
					t.Errorf("attempt: %s", sprint(a))
				}
			}
			if r != nil && r.count() != c.attempts {
				t.Errorf("%d requests on the wire for %d attempts", r.count(), c.attempts)
			}
			want := c.endpoint
			if want == "" {
				want = "enabled"
			}
			if got := p.get("/v1/tenants/" + tenant + "/endpoints/" + e.text("id")).text("status"); got != want {
				t.Errorf("the endpoint is %s, want %s", got, want)
			}
			if c.alert != "" {
				if a := p.alert(e.text("id"), "open"); a.text("kind") != c.alert {
					t.Errorf("alert: %s", sprint(a))
				}
			}
		})
	}
}

func letters(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}

// An address that only shows itself at the dial is refused there, once and for all.
func TestBlockedAddress(t *testing.T) {
	t.Parallel()
	canary := receive(t, always(200))
	p := serve(t, nil)
	tenant := p.tenant()
	e := p.endpoint(tenant, canary.url("/hook"), nil)
	p.stop()

	strict := serve(t, settings{"DELIVERY_ALLOW_NETWORKS": ""})
	event := strict.send(tenant, "x", object{})
	d := strict.await(event, "failed")
	if d.text("reason") != "blocked" || d.text("last_outcome") != "blocked" || d.number("attempts") != 1 {
		t.Errorf("delivery: %s", sprint(d))
	}
	if a := strict.alert(e.text("id"), "open"); a.text("kind") != "endpoint.blocked" {
		t.Errorf("alert: %s", sprint(a))
	}
	if n := canary.count(); n != 0 {
		t.Errorf("%d requests reached the canary", n)
	}
}

// 500 five times and then 200: six attempts with the same ids and fresh signatures, an alert after the fifth that the
// success resolves.
func TestRecoversAtTheLastRetry(t *testing.T) {
	t.Parallel()
	r := receive(t, func(n int, _ request) string {
		if n <= 5 {
			return answer(500)
		}
		return answer(200)
	})
	p := serve(t, nil)
	tenant := p.tenant()
	e := p.endpoint(tenant, r.url("/hook"), nil)
	event := p.send(tenant, "order.paid", object{"id": 1})
	d := p.await(event, "succeeded")
	if d.number("attempts") != 6 {
		t.Errorf("delivery: %s", sprint(d))
	}
	secret := e.object("signature").text("secret")
	ids, signatures := map[string]bool{}, map[string]bool{}
	for i, req := range r.requests() {
		if req.get("postrider-attempt") != string(rune('1'+i)) {
			t.Errorf("request %d says it is attempt %s", i+1, req.get("postrider-attempt"))
		}
		if err := req.verify(signer.Standard, secret); err != nil {
			t.Errorf("request %d: %v", i+1, err)
		}
		ids[req.get("webhook-id")+" "+req.get("postrider-delivery-id")] = true
		signatures[req.get("webhook-timestamp")+req.get("webhook-signature")] = true
	}
	if len(ids) != 1 || !ids[event+" "+d.text("id")] {
		t.Errorf("ids: %v, want %s %s", ids, event, d.text("id"))
	}
	a := p.alert(e.text("id"), "resolved")
	if a.text("kind") != "delivery.failing" || a.number("count") != 1 {
		t.Errorf("alert: %s", sprint(a))
	}
}

// A receiver that always fails: an alert after five failures, failed (exhausted) after six, kept, and delivered by a
// manual retry once it is mended.
func TestExhaustedIsKeptAndDeliveredByHand(t *testing.T) {
	t.Parallel()
	mended := make(chan struct{})
	r := receive(t, func(int, request) string {
		select {
		case <-mended:
			return answer(200)
		default:
			return answer(500)
		}
	})
	p := serve(t, nil)
	tenant := p.tenant()
	e := p.endpoint(tenant, r.url("/hook"), nil)
	event := p.send(tenant, "order.paid", object{"id": 1})
	d := p.await(event, "failed")
	if d.text("reason") != "exhausted" || d.number("attempts") != 6 || d["next_attempt_at"] != nil || r.count() != 6 {
		t.Errorf("delivery: %s after %d requests", sprint(d), r.count())
	}
	a := p.alert(e.text("id"), "open")
	if a.text("kind") != "delivery.failed" || a.number("count") != 2 {
		t.Errorf("alert: %s; want the failing and the failed gathered in one", sprint(a))
	}
	if got := p.get("/v1/tenants/" + tenant + "/events/" + event).text("status"); got != "failed" {
		t.Errorf("the event is %s", got)
	}

	close(mended)
	p.want(http.StatusOK, http.MethodPost, "/v1/deliveries/"+d.text("id")+"/retry", nil)
	again := p.await(event, "succeeded")
	if again.text("id") != d.text("id") || again.number("attempts") != 7 {
		t.Errorf("after the retry: %s", sprint(again))
	}
	p.alert(e.text("id"), "resolved")
}

// 410: the endpoint is dead, its other deliveries are cancelled, new events pass it by; enabling it revives it.
func TestGone(t *testing.T) {
	t.Parallel()
	r := receive(t, func(_ int, req request) string {
		if strings.Contains(string(req.body), "die") {
			return answer(410)
		}
		return answer(500)
	})
	p := serve(t, settings{"DELIVERY_RETRY_SCHEDULE": "1h"})
	tenant := p.tenant()
	e := p.endpoint(tenant, r.url("/hook"), nil)
	waiting := p.send(tenant, "a", "one that waits for its retry")
	p.await(waiting, "pending")
	eventually(t, func() string {
		if p.deliveries(waiting)[0].number("attempts") == 1 {
			return ""
		}
		return "the first attempt does not come"
	})
	dying := p.send(tenant, "a", "die")
	if d := p.await(dying, "failed"); d.text("reason") != "gone" {
		t.Errorf("delivery: %s", sprint(d))
	}
	if d := p.await(waiting, "cancelled"); d.text("reason") != "endpoint_dead" {
		t.Errorf("the other: %s", sprint(d))
	}
	if a := p.alert(e.text("id"), "open"); a.text("kind") != "endpoint.dead" {
		t.Errorf("alert: %s", sprint(a))
	}
	after := p.get("/v1/tenants/" + tenant + "/events/" + p.send(tenant, "a", "nobody's"))
	if skipped := after.list("skipped"); len(skipped) != 1 || skipped[0].text("reason") != "endpoint_dead" {
		t.Errorf("an event after its death: %s", sprint(after))
	}
	path := "/v1/tenants/" + tenant + "/endpoints/" + e.text("id")
	if got := p.want(http.StatusOK, http.MethodPatch, path, object{"status": "enabled"}).text("status"); got != "enabled" {
		t.Errorf("revived, it is %s", got)
	}
}

// Retry-After moves the next attempt back, and not forward.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	r := receive(t, func(n int, _ request) string {
		if n == 1 {
			return answer(429, "Retry-After: 2")
		}
		return answer(200)
	})
	p := serve(t, nil)
	tenant := p.tenant()
	p.endpoint(tenant, r.url("/hook"), nil)
	p.await(p.send(tenant, "a", object{}), "succeeded")
	got := r.requests()
	if wait := got[1].at.Sub(got[0].at); wait < 2*time.Second {
		t.Errorf("the second attempt came after %v", wait)
	}
}

// deliver_at: scheduled until then, and not sent before; cancelled, never.
func TestScheduledEvent(t *testing.T) {
	t.Parallel()
	r := receive(t, always(200))
	p := serve(t, nil)
	tenant := p.tenant()
	p.endpoint(tenant, r.url("/hook"), nil)
	at := time.Now().Add(2 * time.Second).UTC()
	schedule := func(when time.Time) string {
		return p.want(http.StatusAccepted, http.MethodPost, "/v1/tenants/"+tenant+"/events",
			object{"type": "a", "payload": 1, "deliver_at": when.Format(time.RFC3339Nano)}).text("id")
	}
	soon, never := schedule(at), schedule(at.Add(time.Hour))
	p.await(soon, "scheduled")
	p.want(http.StatusOK, http.MethodPost, "/v1/tenants/"+tenant+"/events/"+never+"/cancel", nil)
	p.await(never, "cancelled")
	p.await(soon, "succeeded")
	if got := r.requests(); len(got) != 1 || got[0].at.Before(at) {
		t.Errorf("%d requests, the first at %v, due at %v", len(got), got[0].at, at)
	}
}

// A change of an endpoint holds for what is sent after its answer: a secret rotated without overlap signs at once, a URL
// is where the next delivery goes, a disabled endpoint gets nothing.
func TestChangesHoldAtOnce(t *testing.T) {
	t.Parallel()
	old, moved := receive(t, always(200)), receive(t, always(200))
	p := serve(t, nil)
	tenant := p.tenant()
	e := p.endpoint(tenant, old.url("/hook"), nil)
	path := "/v1/tenants/" + tenant + "/endpoints/" + e.text("id")
	p.await(p.send(tenant, "a", 1), "succeeded") // the dispatcher knows the endpoint now

	secret := p.want(http.StatusOK, http.MethodPost, path+"/secret/rotate", object{"overlap": "0s"}).text("secret")
	p.await(p.send(tenant, "a", 2), "succeeded")
	if err := old.requests()[1].verify(signer.Standard, secret); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
	p.want(http.StatusOK, http.MethodPatch, path, object{"url": moved.url("/new")})
	p.await(p.send(tenant, "a", 3), "succeeded")
	if old.count() != 2 || moved.count() != 1 {
		t.Errorf("%d requests at the old URL, %d at the new one", old.count(), moved.count())
	}
	p.want(http.StatusOK, http.MethodPatch, path, object{"status": "disabled"})
	held := p.send(tenant, "a", 4)
	p.await(held, "held")
	p.want(http.StatusOK, http.MethodPatch, path, object{"status": "enabled"})
	p.await(held, "succeeded")
	if moved.count() != 2 {
		t.Errorf("%d requests at the new URL", moved.count())
	}
}
