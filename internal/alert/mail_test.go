package alert_test

import (
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/pkitest"
	"github.com/postrider/postrider/internal/smtptest"
)

// post is a mail server that tenants get mail through, and what sends it.
func (w *world) post(t *testing.T, log io.Writer) (*smtptest.Server, *alert.Sender) {
	t.Helper()
	server := smtptest.New(t, smtptest.Options{
		TLS: authority(t).Server(t, pkitest.Wanted{Hosts: []string{"localhost"}}), User: "hooks", Password: "p/w",
	})
	w.exec(`UPDATE tenants SET contact_email = 'it@acme.example'`)
	return server, w.senderWith(log, alert.SenderConfig{
		MailURL: "smtp://hooks:" + url.QueryEscape("p/w") + "@localhost:" + server.Port() + "/?from=" + url.QueryEscape("Hooks <hooks@example.com>"),
	}, nil)
}

// body is a mail's text, without its line breaks.
func body(m smtptest.Mail) string {
	_, text, _ := strings.Cut(m.Raw, "\r\n\r\n")
	return strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(text, "=\r\n", ""), "\r\n", "\n"), "=3D", "=")
}

func (w *world) after(d time.Duration, s *alert.Sender) {
	w.Helper()
	w.now = w.now.Add(d)
	w.send(s)
}

func TestTheOwnerGetsOneMailAboutAllEndpoints(t *testing.T) {
	t.Parallel()
	w, log := newWorld(t, 30), &logged{}
	server, s := w.post(t, log)
	w.raise(w.finding(0, alert.EndpointDead, "It answered 410 Gone."), w.finding(1, alert.DeliveryFailing, "It failed five times."))
	w.send(s) // it waits a moment for what else there is
	w.outageBut(2)
	w.after(10*time.Second, s)
	mails := server.Mails()
	if len(mails) != 1 {
		t.Fatalf("%d mails; the log: %s", len(mails), log.String())
	}
	m := mails[0]
	if !m.TLS || m.User != "hooks" || m.From != "hooks@example.com" || strings.Join(m.To, ",") != "it@acme.example" ||
		m.Header("Subject") != "Webhooks: 30 of your endpoints need attention" || m.Header("From") != `"Hooks" <hooks@example.com>` ||
		m.Header("Auto-Submitted") != "auto-generated" || !strings.HasSuffix(m.Header("Message-ID"), "@example.com>") {
		t.Errorf("%+v", m)
	}
	text := body(m)
	for _, want := range []string{
		"this is about the webhooks of acme.", "* https://example.com/hook?[redacted]\n", " gets nothing more.\n  Since: 2026-11-30 09:00:00 UTC\n  Why: It answered 410 Gone.",
		"What to do: your receiver said", "and 10 more",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	for _, not := range []string{"hush", "hooks.example.com", "console", "alr_", "127.0.0.1", "X-Mailer", "User-Agent"} {
		if strings.Contains(m.Raw, not) {
			t.Errorf("%q is in %s", not, m.Raw)
		}
	}
}

// outageBut has deliveries to all endpoints but the first few fail.
func (w *world) outageBut(few int) {
	w.Helper()
	var fs []alert.Finding
	for i := few; i < len(w.endpoints); i++ {
		fs = append(fs, w.finding(i, alert.DeliveryFailing, "It fails."))
	}
	w.raise(fs...)
}

func TestMailComesOnceAnHourUnlessAnEndpointIsOff(t *testing.T) {
	t.Parallel()
	w, log := newWorld(t, 3), &logged{}
	server, s := w.post(t, log)
	subjects := func() string {
		var all []string
		for _, m := range server.Mails() {
			all = append(all, strings.TrimPrefix(m.Header("Subject"), "Webhooks: "))
		}
		return strings.Join(all, "; ")
	}
	w.raise(w.finding(0, alert.DeliveryFailing, "a"))
	w.after(10*time.Second, s)
	expect(t, "at first", subjects(), "your endpoint at example.com is failing")
	w.raise(w.finding(1, alert.DeliveryFailing, "b"))
	w.after(10*time.Minute, s)
	w.resolve(w.endpoints[0])
	w.after(10*time.Minute, s)
	expect(t, "within the hour", subjects(), "")
	w.raise(w.finding(2, alert.EndpointDisabled, "c"))
	w.after(time.Minute, s)
	expect(t, "what is switched off", subjects(), "your endpoint at example.com is switched off")
	w.after(time.Hour, s)
	expect(t, "after an hour", subjects(), "one of your endpoints needs attention")
	w.resolve(w.endpoints[1])
	w.exec(`UPDATE endpoints SET status = 'enabled'`)
	w.after(time.Hour, s)
	expect(t, "the end", subjects(), "your endpoint at example.com has recovered")
}

func TestWhoGetsNoMail(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"a tenant without an address": `UPDATE tenants SET contact_email = NULL`,
		"a deleted one":               `UPDATE tenants SET deleted_at = updated_at`,
		"of what passed at once":      `UPDATE alerts SET state = 'resolved', resolved_at = opened_at`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, log := newWorld(t, 1), &logged{}
			server, s := w.post(t, log)
			w.raise(w.finding(0, alert.DeliveryFailing, "a"))
			if strings.Contains(change, "alerts") {
				w.resolve(w.endpoints[0])
			} else {
				w.exec(change)
			}
			w.after(time.Minute, s)
			if mails := server.Mails(); len(mails) > 0 {
				t.Errorf("%v", mails)
			}
			if left := w.one(`SELECT count(*)::text FROM alert_notices WHERE sent_at IS NULL`); left != "0" {
				t.Errorf("%s wait for ever", left)
			}
		})
	}
}

// A tenant's name, an address or a detail makes no header and no second recipient.
func TestNothingOfATenantMakesAHeader(t *testing.T) {
	t.Parallel()
	w, log := newWorld(t, 1), &logged{}
	server, s := w.post(t, log)
	w.exec(`UPDATE tenants SET name = E'a\r\nBcc: evil@example.com\r\n\r\n.\r\nMAIL FROM:<x@y>'`)
	w.exec(`UPDATE endpoints SET url = E'https://ex.example\r\nBcc: evil@example.com/'`)
	w.raise(w.finding(0, alert.EndpointDead, "x\r\n.\r\nRCPT TO:<evil@example.com>"))
	w.after(time.Minute, s)
	mails := server.Mails()
	if len(mails) != 1 || len(mails[0].To) != 1 || mails[0].Header("Bcc") != "" {
		t.Errorf("%+v; the log: %s", mails, log.String())
	}
}

// What goes wrong with one tenant's mail is not the others' affair, and no line of the log has the password.
func TestMailThatIsRefusedIsTriedAgain(t *testing.T) {
	t.Parallel()
	w, log := newWorld(t, 1), &logged{}
	other := w.addTenant("other")
	endpoint := w.addEndpoint(other)
	server, s := w.post(t, log)
	w.exec(`UPDATE tenants SET contact_email = 'it@other.example' WHERE name = 'other'`)
	server.Refuse("it@acme.example")
	w.raise(w.finding(0, alert.DeliveryFailing, "a"))
	w.exec(`INSERT INTO alerts (shard, id, tenant_id, endpoint_id, kind, detail, last_notice_id, opened_at, last_at)
		VALUES ($1, $2, $3, $4, 'endpoint.dead', 'x', $2, $5, $5)`, other.Shard, w.ids.Next(), other.N, endpoint, w.now)
	w.exec(`INSERT INTO alert_notices (shard, id, alert_id, kind, detail, next_try_at)
		SELECT shard, id, id, 'opened', detail, opened_at FROM alerts WHERE endpoint_id = $1`, endpoint)
	w.after(10*time.Second, s)
	if mails := server.Mails(); len(mails) != 1 || mails[0].To[0] != "it@other.example" {
		t.Errorf("%v", mails)
	}
	if text := log.String(); !strings.Contains(text, "no such user here") || strings.Contains(text, "p/w") || strings.Contains(text, "p%2Fw") {
		t.Errorf("the log: %s", text)
	}
	server.Accept("it@acme.example")
	w.after(30*time.Second, s)
	if mails := server.Mails(); len(mails) != 1 || mails[0].To[0] != "it@acme.example" {
		t.Errorf("%v", mails)
	}
}

func TestMailServersThatWillNotDo(t *testing.T) {
	t.Parallel()
	plain := smtptest.New(t, smtptest.Options{})
	secure := smtptest.New(t, smtptest.Options{TLS: pkitest.NewAuthority(t, "unknown").Server(t, pkitest.Wanted{Hosts: []string{"localhost"}})})
	for _, c := range []struct{ name, url, want string }{
		{"no STARTTLS", "smtp://localhost:" + plain.Port() + "/?from=a@b.example", "STARTTLS"},
		{"no STARTTLS, which is as well", "smtp://localhost:" + plain.Port() + "/?from=a@b.example&tls=none", ""},
		{"no STARTTLS, which it may have", "smtp://localhost:" + plain.Port() + "/?from=a@b.example&tls=optional", ""},
		{"a certificate of nobody", "smtp://localhost:" + secure.Port() + "/?from=a@b.example", "certificate"},
		{"nothing listens", "smtp://localhost:1/?from=a@b.example", "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			authority(t)
			w, log := newWorld(t, 1), &logged{}
			w.exec(`UPDATE tenants SET contact_email = 'it@acme.example'`)
			w.raise(w.finding(0, alert.EndpointDead, "gone"))
			w.after(10*time.Second, w.senderWith(log, alert.SenderConfig{MailURL: c.url}, nil))
			failed := w.one(`SELECT coalesce(max(last_error), '') FROM alert_notices`)
			if (c.want == "") != (failed == "") || !strings.Contains(failed, c.want) {
				t.Errorf("it says %q", failed)
			}
		})
	}
}
