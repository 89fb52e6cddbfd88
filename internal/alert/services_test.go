package alert_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/pkitest"
	"github.com/postrider/postrider/internal/smtptest"
)

// posted is a request that a service got.
type posted struct {
	path, auth string
	body       map[string]any
}

// service plays one, under its own name and with a certificate.
func service(t *testing.T, host string) func() []posted {
	t.Helper()
	var mu sync.Mutex
	var got []posted
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		p := posted{path: r.URL.Path, auth: r.Header.Get("Authorization")}
		if jerr := json.Unmarshal(raw, &p.body); jerr != nil || err != nil {
			t.Errorf("%s got %s: %v, %v", host, raw, jerr, err)
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, p)
		_, _ = io.WriteString(w, map[bool]string{true: "1", false: "ok"}[strings.Contains(host, "office")])
	}))
	s.TLS = authority(t).Server(t, pkitest.Wanted{Hosts: []string{host}})
	s.StartTLS()
	t.Cleanup(s.Close)
	services.Store(host+":443", s.Listener.Addr().String())
	return func() []posted {
		mu.Lock()
		defer mu.Unlock()
		out := got
		got = nil
		return out
	}
}

// text finds a text in JSON by its path; a number in it is a place in a list.
func text(v any, path ...string) string {
	for _, p := range path {
		switch of := v.(type) {
		case map[string]any:
			v = of[p]
		case []any:
			if len(of) == 0 {
				return ""
			}
			v = of[0]
		}
	}
	s, _ := v.(string)
	return s
}

// Each of these services is told of an alert and its end in the form that it wants.
func TestServicesGetWhatTheyWant(t *testing.T) {
	t.Parallel()
	const hex32, uuid = "0123456789abcdef0123456789abcdef", "01234567-89ab-cdef-0123-456789abcdef"
	for _, c := range []struct {
		name, host, url string
		path, auth      string
		title, body     []string // where they are in what it gets
		event, dedup    []string
		ends            string // what event says at the end; "": it says nothing
	}{
		{
			name: "Slack", host: "hooks.slack.com", url: "slack://hook:T00000001-B00000001-abcdefghijklmnopqrstuvwx@webhook",
			path: "/services/T00000001/B00000001/abcdefghijklmnopqrstuvwx", body: []string{"attachments", "0", "text"},
		},
		{
			name: "PagerDuty", host: "events.pagerduty.com", url: "pagerduty:///" + hex32, path: "/v2/enqueue",
			body: []string{"payload", "summary"}, event: []string{"event_action"}, dedup: []string{"dedup_key"}, ends: "resolve",
		},
		{
			name: "Opsgenie", host: "api.opsgenie.com", url: "opsgenie://api.opsgenie.com/key", path: "/v2/alerts", auth: "GenieKey key",
			body: []string{"message"}, dedup: []string{"alias"},
		},
		{
			name: "Teams", host: "acme.webhook.office.com", path: "/webhookb2/" + uuid + "@" + uuid + "/IncomingWebhook/" + hex32 + "/" + uuid + "/V2extra",
			url: "teams://" + uuid + "@" + uuid + "/" + hex32 + "/" + uuid + "/V2extra?host=acme.webhook.office.com", body: []string{"sections", "0", "text"},
		},
		{
			name: "a webhook", host: "hooks.example.com", url: "generic://hooks.example.com/x?template=json&@Authorization=Bearer+token", path: "/x",
			auth: "Bearer token", title: []string{"title"}, body: []string{"message"}, event: []string{"event"}, dedup: []string{"alert_id"}, ends: "resolved",
		},
		{
			name: "a webhook by https", host: "more.example.com", url: "generic+https://more.example.com/y?template=json", path: "/y",
			title: []string{"title"}, body: []string{"message"}, event: []string{"event"}, dedup: []string{"alert_id"}, ends: "resolved",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, log, got := newWorld(t, 1), &logged{}, service(t, c.host)
			if err := alert.CheckURLs([]string{c.url}); err != nil {
				t.Fatal(err)
			}
			s := w.sender(log, c.url)
			w.raise(w.finding(0, alert.EndpointDead, "It is gone"))
			w.sendDue(s, 1)
			first := got()
			w.exec(`UPDATE endpoints SET status = 'enabled', status_reason = NULL`)
			w.resolve(w.endpoints[0])
			w.sendDue(s, 1)
			second := got()
			if len(first) != 1 || len(second) != 1 {
				t.Fatalf("got %v and %v; the log: %s", first, second, log.String())
			}
			if first[0].path != c.path || first[0].auth != c.auth {
				t.Errorf("posted to %s with %q", first[0].path, first[0].auth)
			}
			if told := text(first[0].body, c.body...); !strings.Contains(told, "endpoint.dead (acme)") {
				t.Errorf("the message is %q in %v", told, first[0].body)
			}
			if c.title != nil && !strings.HasPrefix(text(first[0].body, c.title...), "Postrider alert opened") {
				t.Errorf("the title: %v", first[0].body)
			}
			if c.dedup != nil && (!strings.HasPrefix(text(first[0].body, c.dedup...), "alr_") ||
				text(first[0].body, c.dedup...) != text(second[0].body, c.dedup...)) {
				t.Errorf("the keys: %v, %v", first[0].body, second[0].body)
			}
			if c.event != nil && text(second[0].body, c.event...) != c.ends {
				t.Errorf("the end: %v", second[0].body)
			}
		})
	}
}

// What a webhook gets is for programs: every field by itself.
func TestAWebhookGetsFields(t *testing.T) {
	t.Parallel()
	w, to := newWorld(t, 1), newSink(t)
	w.raise(w.finding(0, alert.EndpointDead, "It is gone"))
	w.sendDue(w.sender(io.Discard, to.machine()), 1)
	m := to.messages()[0]
	for key, want := range map[string]string{
		"event": "opened", "kind": "endpoint.dead", "detail": "It is gone", "count": "1", "alerts": "1", "opened_at": "2026-11-30T09:00:00Z",
		"tenant_name": "acme", "endpoint_url": "https://example.com/hook?[redacted]", "alert_ids": m["alert_id"],
		"url": "https://hooks.example.com/console/alerts/" + m["alert_id"], "title": "Postrider alert opened: endpoint.dead (acme)",
	} {
		if m[key] != want {
			t.Errorf("%s is %q, want %q", key, m[key], want)
		}
	}
	if !strings.HasPrefix(m["tenant_id"], "ten_") || !strings.HasPrefix(m["endpoint_id"], "ep_") || !strings.Contains(m["message"], "What to do") {
		t.Errorf("%v", m)
	}
}

// PagerDuty gets one incident for an outage, and what is over closes incidents one by one, at the pace that it takes.
func TestIncidentsOfAnOutage(t *testing.T) {
	t.Parallel()
	w, got := newWorld(t, 30), service(t, "outage.pagerduty.com")
	s := w.sender(io.Discard, "pagerduty://outage.pagerduty.com/0123456789abcdef0123456789abcdef")
	w.outage()
	w.sendDue(s, 30)
	if p := got(); len(p) != 1 || text(p[0].body, "dedup_key") != "postrider-many" || !strings.Contains(text(p[0].body, "payload", "summary"), "30 endpoints") {
		t.Errorf("%v", p)
	}
	w.resolve(w.endpoints...)
	w.sendDue(s, 20)
	w.now = w.now.Add(10 * 1e9)
	w.sendDue(s, 10)
	closed := map[string]bool{}
	for _, p := range got() {
		if text(p.body, "event_action") != "resolve" {
			t.Errorf("%v", p.body)
		}
		closed[text(p.body, "dedup_key")] = true
	}
	if len(closed) != 30 {
		t.Errorf("%d are closed", len(closed))
	}
}

// Mail by a service URL: with STARTTLS and a password, and with a header that a tenant's name can make no second one of.
func TestMailByAServiceURL(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	server := smtptest.New(t, smtptest.Options{
		TLS: authority(t).Server(t, pkitest.Wanted{Hosts: []string{"localhost"}}), User: "hooks", Password: "hush",
	})
	w.exec(`UPDATE tenants SET name = E'Söhne\r\nBcc: c@example.com'`)
	w.raise(w.finding(0, alert.EndpointDead, "It is gone"))
	log := &logged{}
	s := w.sender(log, "smtp://hooks:hush@localhost:"+server.Port()+"/?from=hooks@example.com&to=ops@example.com,more@example.com")
	w.sendDue(s, 1)
	mails := server.Mails()
	if len(mails) != 2 || !mails[0].TLS || mails[0].User != "hooks" || mails[0].From != "hooks@example.com" || mails[1].To[0] != "more@example.com" {
		t.Fatalf("%+v; the log: %s", mails, log.String())
	}
	if subject := mails[0].Header("Subject"); mails[0].Header("Bcc") != "" || !strings.HasPrefix(subject, "=?utf-8?q?Postrider_alert_opened:_endpoint.dead_") {
		t.Errorf("the headers: %s", mails[0].Raw)
	}
}
