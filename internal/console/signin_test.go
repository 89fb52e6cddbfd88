package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/auth"
)

func TestSigningIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.visitor()
	if got := b.get("/console/deliveries?state=failed"); got.path != "/console/signin?to=%2Fconsole%2Fdeliveries%3Fstate%3Dfailed" {
		t.Errorf("a stranger ends up at %s", got.path)
	}
	got := b.post("/console/signin", "key", "not-a-key-of-ours", "to", "/console/deliveries")
	if got.status != http.StatusUnauthorized || !got.has("this is no key") || got.has("not-a-key-of-ours") {
		t.Errorf("a wrong key: %d, %s", got.status, got.body)
	}
	got = b.post("/console/signin", "key", adminKey, "to", "/console/deliveries?state=failed")
	if got.status != http.StatusOK || got.path != "/console/deliveries?state=failed" {
		t.Errorf("signing in ends at %s with %d", got.path, got.status)
	}
	if got := b.post("/console/signout"); got.path != "/console/signin" || !got.has("You are signed out.") {
		t.Errorf("signing out ends at %s", got.path)
	}
	if got := b.get("/console/"); !strings.HasPrefix(got.path, "/console/signin") {
		t.Errorf("after signing out, /console/ is still to be had: %s", got.path)
	}
}

// A page that looks again by itself after the session has ended is loaded anew, rather than left with nothing in it.
func TestALivePageWhoseSessionIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for method, refresh := range map[string]string{http.MethodGet: "true", http.MethodPost: ""} {
		req, err := http.NewRequestWithContext(t.Context(), method, w.http.URL+"/console/deliveries/dlv_x/retry", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if method == http.MethodGet {
			req.URL.Path = "/console/"
		}
		req.Header.Set("HX-Request", "true")
		if got := w.visitor().do(req); got.status != http.StatusUnauthorized || got.header.Get("HX-Refresh") != refresh || got.body != "" {
			t.Errorf("%s: %d %q %s", method, got.status, got.header.Get("HX-Refresh"), got.body)
		}
	}
}

// A page that was left open looks again by itself, which keeps no session from its idle end; what its visitor does there does.
func TestALivePageIsNoUseOfTheSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(auth.RoleAdmin)
	for _, c := range []struct {
		method string
		live   string
		used   bool
	}{{http.MethodGet, "true", false}, {http.MethodGet, "", true}, {http.MethodPost, "true", true}} {
		if _, err := w.db.Exec(t.Context(), `UPDATE sessions SET seen_at = now() - interval '1 hour'`); err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), c.method, w.http.URL+"/console/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("HX-Request", c.live)
		b.do(req)
		var used bool
		if err := w.db.QueryRow(t.Context(), `SELECT seen_at > now() - interval '30 minutes' FROM sessions`).Scan(&used); err != nil || used != c.used {
			t.Errorf("%s, live %q: used %t, %v", c.method, c.live, used, err)
		}
	}
}

func TestAFormThatIsTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := w.visitor().post("/console/signin", "key", strings.Repeat("k", 3<<20)); got.status != http.StatusRequestEntityTooLarge || !got.has("2 MiB") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestSigningInLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, to := range []string{
		"https://evil.example/", "//evil.example/", "/\\evil.example", "/v1/tenants", "/console", "javascript:alert(1)", "/console/signout",
		"/consolex/", "", "%", "/console/..//evil.example", "/console/%2e%2e/portal/", "/console/x/../../v1/tenants", "/console//evil.example",
	} {
		if got := w.visitor().post("/console/signin", "key", adminKey, "to", to); got.path != "/console/" {
			t.Errorf("%q leads to %s", to, got.path)
		}
	}
}

func TestKeysThatTheConsoleIsNotFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant, _ := w.tenant("Acme")
	for name, n := range map[string]auth.NewKey{
		"bound to a tenant": {Name: "a", Scopes: []auth.Scope{auth.Admin}, Tenant: &tenant.ID},
		"a producer's":      {Name: "b", Scopes: []auth.Scope{auth.EventsWrite}},
	} {
		_, key, err := w.keys.Create(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.visitor().post("/console/signin", "key", key); got.status != http.StatusForbidden || !got.has("field-fault") {
			t.Errorf("%s: %d, %s", name, got.status, got.body)
		}
	}
}

// What another site makes a browser send changes nothing, whatever the session may do.
func TestOtherOriginsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(auth.RoleAdmin)
	for name, header := range map[string][2]string{
		"a page of another site":    {"Sec-Fetch-Site", "cross-site"},
		"one of a neighbour":        {"Sec-Fetch-Site", "same-site"},
		"an origin in old browsers": {"Origin", "https://evil.example"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.base+"/console/signout", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(header[0], header[1])
		if got := b.do(req); got.status != http.StatusForbidden || !got.has("another origin") {
			t.Errorf("%s: %d", name, got.status)
		}
	}
	if got := b.get("/console/"); got.path != "/console/" {
		t.Error("the session was ended all the same")
	}
}

func TestWhatPagesAreServedWith(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, got := range []page{w.visitor().get("/console/signin"), w.as(auth.RoleViewer).get("/console/"), w.as(auth.RoleViewer).get("/console/nope")} {
		csp := got.header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "script-src 'self';") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: the policy is %q", got.path, csp)
		}
		if got.header.Get("Cache-Control") != "no-store" || got.header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %v", got.path, got.header)
		}
	}
}
