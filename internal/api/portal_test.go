package api_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
)

// The link leads into the portal of the path's tenant, as it was asked for.
func TestPortalSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant("acme")
	for body, want := range map[string]struct {
		in       time.Duration
		readOnly bool
	}{
		"":                                       {5 * time.Minute, false},
		`{}`:                                     {5 * time.Minute, false},
		`{"expires_in":"1h","read_only":true}`:   {time.Hour, true},
		`{"expires_in":null,"read_only":null}`:   {5 * time.Minute, false},
		`{"expires_in":"60s","read_only":false}`: {time.Minute, false},
	} {
		before := w.clock.Now()
		made := w.must(http.StatusCreated, request{method: "POST", path: "/v1/tenants/acme/portal-sessions", body: body})
		token, found := strings.CutPrefix(made.text("url"), "https://hooks.example.com/portal/enter?token=")
		until, err := time.Parse(time.RFC3339, made.text("expires_at"))
		if off := until.Sub(before.Add(want.in)); !found || err != nil || off < -time.Millisecond || off > time.Minute {
			t.Errorf("%s: %v, %v", body, made, err)
		}
		_, in, err := w.sessions.EnterPortal(t.Context(), token)
		if err != nil || in.ReadOnly != want.readOnly || in.Principal.Tenant == nil || id.Tenant.Format(*in.Principal.Tenant) != tenant {
			t.Errorf("%s: %+v, %v", body, in, err)
		}
	}
	for _, bad := range []string{"0s", "59s", "61m", "1", "-5m", "", "x"} {
		p := w.refused(http.StatusUnprocessableEntity, request{
			method: "POST", path: "/v1/tenants/acme/portal-sessions", body: `{"expires_in":"` + bad + `"}`,
		})
		if !p.pointsTo("/expires_in") {
			t.Errorf("%q: %+v", bad, p)
		}
	}
}

// A link is in no log, and what it opened closes with the key that made it.
func TestAPortalLinkStaysASecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant("acme")
	made := w.must(http.StatusCreated, request{
		method: "POST", path: "/v1/api-keys", body: `{"name":"shop","scopes":["endpoints:write"],"tenant":"` + tenant + `"}`,
	})
	link := w.must(http.StatusCreated, request{method: "POST", path: "/v1/tenants/acme/portal-sessions", key: made.text("key")}).text("url")
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	token := u.Query().Get("token")
	w.do(request{method: "GET", path: u.RequestURI(), key: "none"}) // nothing is there in this world
	if len(token) < 40 || strings.Contains(w.log.String(), token) {
		t.Errorf("the log has %s:\n%s", token, w.log.String())
	}
	session, _, err := w.sessions.EnterPortal(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	w.do(request{method: "DELETE", path: "/v1/api-keys/" + made.text("id")})
	if _, err := w.sessions.Resume(t.Context(), auth.PortalSession, session); err == nil {
		t.Error("the key is gone, and the session it led to is not")
	}
}

// What people do in browsers is in the log as theirs. A tenant's own admin is not told which of the staff it was.
func TestWhoInABrowserDidIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant("acme")
	own := w.apiKey(tenant, "admin")
	ctx := auth.WithClient(t.Context(), netip.MustParseAddr("10.0.0.7"))
	_, staff, err := w.sessions.SignInUser(ctx, "https://id.example", "u-1", "Ada", auth.RoleSupport)
	if err != nil {
		t.Fatal(err)
	}
	link, _, err := w.sessions.CreatePortalLink(audit.With(ctx, auth.ActorOf(ctx, staff.Principal)), mustParse(t, id.Tenant, tenant),
		auth.PortalLinkOptions{By: staff.Principal})
	if err != nil {
		t.Fatal(err)
	}
	_, in, err := w.sessions.EnterPortal(ctx, link)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"": "user Ada 10.0.0.7", own: "user operator private"} {
		made := w.auditLog(key, "&action=portal.link_created&actor=user")
		if len(made) != 1 {
			t.Fatalf("%d entries", len(made))
		}
		by := made[0].object("actor")
		if got := by.text("kind") + " " + by.text("name") + " " + made[0].text("from"); got != want || by["key_id"] != nil {
			t.Errorf("it was %s, want %s", got, want)
		}
		entered := w.auditLog(key, "&actor=portal&object="+id.Session.Format(in.ID))
		if len(entered) != 1 || entered[0].text("action") != "portal.entered" || entered[0].text("tenant_id") != tenant {
			t.Errorf("entered: %v", entered)
		}
	}
	if n := len(w.auditLog(own, "&action=session.started")); n != 0 {
		t.Errorf("a tenant's admin sees %d sign-ins of the staff", n)
	}
}
