//go:build ops

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/pkitest"
	"github.com/postrider/postrider/internal/smtptest"
	"github.com/postrider/postrider/signer"
)

// messages are what a webhook of alerts.urls was sent, with the event that each is about.
func messages(t *testing.T, sink *receiver) (events []string, all []map[string]string) {
	t.Helper()
	for _, r := range sink.requests() {
		var m map[string]string
		if err := json.Unmarshal(r.body, &m); err != nil {
			t.Fatalf("%s: %v", r.body, err)
		}
		events = append(events, m["event"]+" "+m["kind"])
		all = append(all, m)
	}
	return events, all
}

// An endpoint that says 410 is told of to the operator by mail and by a webhook, to its owner by mail, and to the operator's programs by
// a signed event; and so is its end. No scheduler runs. One channel is down at first: it is told later, once, and holds up nothing.
func TestOpsAlertsReachEverybody(t *testing.T) {
	t.Parallel()
	ca := pkitest.NewAuthority(t, "the operator's authority")
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, []byte(ca.PEM()), 0o600); err != nil {
		t.Fatal(err)
	}
	post := smtptest.New(t, smtptest.Options{TLS: ca.Server(t, pkitest.Wanted{Hosts: []string{"localhost"}}), User: "hooks", Password: "hush-hush"})
	var status, shaky atomic.Int64
	status.Store(http.StatusGone)
	shaky.Store(http.StatusServiceUnavailable)
	sink := receive(t, func(int, request) string { return answer(http.StatusOK) })
	down := receive(t, func(int, request) string { return answer(int(shaky.Load())) })
	owners := receive(t, func(int, request) string { return answer(int(status.Load())) })
	ours := receive(t, func(int, request) string { return answer(http.StatusOK) })
	server := "smtp://hooks:hush-hush@localhost:" + post.Port() + "/?from=hooks@example.com"
	p := startAs(t, "api,dispatcher", settings{
		"SSL_CERT_FILE": roots, "HTTP_PUBLIC_URL": "https://hooks.example.com",
		"ALERTS_URLS":     server + "&to=ops@example.com generic+" + sink.url("/x") + "?template=json generic+" + down.url("/y") + "?template=json",
		"ALERTS_MAIL_URL": server, "ALERTS_TENANT": "our-own",
	})
	t.Cleanup(p.stop)
	eventually(t, func() string {
		if !strings.Contains(p.logged(), "alert.tenant_missing") {
			return "the log does not say that the operator's tenant is missing"
		}
		return ""
	})
	operator := p.want(http.StatusCreated, http.MethodPost, "/v1/tenants", object{"name": "Us", "uid": "our-own"}).text("id")
	secret := p.endpoint(operator, ours.url("/ops"), nil).object("signature").text("secret")
	acme := p.want(http.StatusCreated, http.MethodPost, "/v1/tenants", object{"name": "Acme", "uid": "acme", "contact_email": "it@acme.example"}).text("id")
	endpoint := p.endpoint(acme, owners.url("/hook?token=hush"), nil).text("id")
	event := p.send(acme, "order.paid", 1)
	p.await(event, "failed")

	mails := map[string][]string{} // by recipient
	seen := func(to, subject string) bool {
		for _, m := range post.Mails() {
			mails[m.To[0]] = append(mails[m.To[0]], m.Header("Subject"))
			if strings.Contains(m.Raw, "token=hush") || !m.TLS || m.User != "hooks" {
				t.Errorf("%+v", m)
			}
		}
		return slices.Contains(mails[to], subject)
	}
	told := func(channels, mail, owner, events string) {
		t.Helper()
		within(t, time.Minute, func() string {
			if got, _ := messages(t, sink); strings.Join(got, "; ") != channels {
				return fmt.Sprintf("the webhook got %v", got)
			}
			if !seen("ops@example.com", mail) || !seen("it@acme.example", owner) {
				return fmt.Sprintf("mails: %v\n%s", mails, p.logged())
			}
			var types []string
			for _, r := range ours.requests() {
				types = append(types, r.get("postrider-event-type"))
				if err := r.verify(signer.Standard, secret); err != nil {
					t.Error(err)
				}
			}
			if strings.Join(types, " ") != events {
				return fmt.Sprintf("the operator's programs got %v\n%s", types, p.logged())
			}
			return ""
		})
	}
	host := strings.TrimPrefix(strings.TrimSuffix(owners.url(""), "/"), "http://")
	told("opened endpoint.dead", "Postrider alert opened: endpoint.dead (Acme)", "Webhooks: your endpoint at "+host+" gets nothing more", "endpoint.dead")
	_, all := messages(t, sink)
	if m := all[0]; m["endpoint_id"] != endpoint || m["tenant_id"] != acme || m["url"] != "https://hooks.example.com/console/alerts/"+m["alert_id"] ||
		strings.Contains(m["endpoint_url"], "hush") {
		t.Errorf("%v", m)
	}
	var payload struct {
		Type string
		Data object
	}
	if err := json.Unmarshal(ours.requests()[0].body, &payload); err != nil || payload.Type != "endpoint.dead" || payload.Data.text("endpoint_id") != endpoint ||
		payload.Data.text("tenant_uid") != "acme" || payload.Data.text("alert_id") != all[0]["alert_id"] {
		t.Errorf("%s: %v", ours.requests()[0].body, err)
	}

	status.Store(http.StatusOK)
	p.want(http.StatusOK, http.MethodPatch, "/v1/tenants/"+acme+"/endpoints/"+endpoint, object{"status": "enabled"})
	p.await(p.send(acme, "order.paid", 2), "succeeded")
	told("opened endpoint.dead; resolved endpoint.dead", "Postrider alert resolved: endpoint.dead (Acme)", "Webhooks: your endpoint at "+host+" has recovered",
		"endpoint.dead endpoint.recovered")

	shaky.Store(http.StatusOK)
	tried := down.count()
	within(t, 2*time.Minute, func() string {
		if down.count() == tried {
			return "the channel that was down is not tried again"
		}
		return ""
	})
	events, _ := messages(t, down)
	if want := []string{"passed endpoint.dead"}; !slices.Equal(events[tried:], want) {
		t.Errorf("it is told %v", events[tried:])
	}
	if strings.Contains(p.logged(), "hush-hush") {
		t.Error("the password is in the log")
	}
}

// A burst of 500 endpoints that say 410 is some messages, which tell of all of them, and deliveries to others go on.
func TestOpsABurstOfAlertsIsFewMessages(t *testing.T) {
	t.Parallel()
	const endpoints = 500
	sink := receive(t, func(int, request) string { return answer(http.StatusOK) })
	gone := receive(t, func(int, request) string { return answer(http.StatusGone) })
	well := receive(t, func(int, request) string { return answer(http.StatusOK) })
	p := serve(t, settings{"ALERTS_URLS": "generic+" + sink.url("/x") + "?template=json"})
	tenant, other := p.tenant(), p.tenant()
	for i := range endpoints {
		p.endpoint(tenant, gone.url("/"+strconv.Itoa(i)), nil)
	}
	p.endpoint(other, well.url("/"), nil)
	p.send(tenant, "order.paid", 1)
	p.await(p.send(other, "order.paid", 1), "succeeded")
	within(t, 3*time.Minute, func() string {
		_, all := messages(t, sink)
		told := 0
		for _, m := range all {
			n, err := strconv.Atoi(m["alerts"])
			if err != nil {
				return err.Error()
			}
			told += n
		}
		if told < endpoints {
			return fmt.Sprintf("%d messages tell of %d alerts", len(all), told)
		}
		return ""
	})
	if n := sink.count(); n > 15 {
		t.Errorf("%d messages", n)
	} else {
		t.Logf("%d messages", n)
	}
}
