package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/console"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/oidc"
	"github.com/postrider/postrider/internal/oidctest"
)

// withProvider is a console that people sign in to through an OpenID provider.
func withProvider(t *testing.T) (*world, *oidctest.Provider) {
	t.Helper()
	var p *oidctest.Provider
	w := newWorld(t, func(d *console.Deps, base string) {
		p = oidctest.New(t, base+oidc.CallbackPath)
		door, err := oidc.New(oidc.Config{
			Issuer: p.URL, ClientID: oidctest.ClientID, ClientSecret: oidctest.ClientSecret, RedirectURL: p.RedirectURL,
			Scopes: []string{"openid", "email"}, RoleClaim: "groups",
			Viewers: []string{oidctest.Group}, Support: []string{"support"}, Admins: []string{"root"},
		})
		if err != nil {
			t.Fatal(err)
		}
		d.OIDC = door
	})
	return w, p
}

// stops keeps the browser where it is, so that a test sees where it is sent.
func (b *browser) stops() *browser {
	still := *b.http
	still.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{t: b.t, base: b.base, http: &still}
}

// sent follows a link that leads to the provider, and gives the query that the provider sends the browser back with.
func (b *browser) sent(p *oidctest.Provider, path string) (back url.Values) {
	b.t.Helper()
	got := b.stops().get(path)
	back, _ = p.Allow(b.t, got.header.Get("Location"))
	return back
}

// isOut wants the browser to be nobody's.
func (b *browser) isOut() {
	b.t.Helper()
	if got := b.get("/console/deliveries"); !strings.HasPrefix(got.path, "/console/signin") {
		b.t.Errorf("it sees %s", got.path)
	}
}

func (w *world) sessionsStarted() int {
	w.t.Helper()
	found, err := audit.NewLog(w.db).List(w.t.Context(), audit.Filter{Action: audit.SessionStarted}, 10, id.ID{})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(found)
}

func TestSigningInThroughAProvider(t *testing.T) {
	t.Parallel()
	w, _ := withProvider(t)
	b := w.visitor()
	asked := b.get("/console/deliveries?state=failed") // it is sent to sign in
	link := asked.link("Sign in with single sign-on")
	if link == "" {
		t.Fatalf("there is no link: %s", asked.body)
	}
	if got := b.get(link); got.status != http.StatusOK || got.path != "/console/deliveries?state=failed" || !got.has(oidctest.Email) {
		t.Errorf("it ends at %s with %d: %s", got.path, got.status, got.body)
	}
	found, err := audit.NewLog(w.db).List(t.Context(), audit.Filter{Action: audit.SessionStarted}, 10, id.ID{})
	if err != nil || len(found) != 1 || found[0].Actor.Kind != audit.ByUser || found[0].Actor.Name != oidctest.Email {
		t.Errorf("the audit log has %+v, %v", found, err)
	}
	b.post("/console/signout")
	b.isOut()
}

// A callback is good once, with the cookie of the browser that began, and no session comes of any other.
func TestCallbacksThatSignNobodyIn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(back url.Values, p *oidctest.Provider)
		says   string
	}{
		"wrong state":     {func(back url.Values, _ *oidctest.Provider) { back.Set("state", strings.Repeat("A", 43)) }, "was begun in another browser"},
		"no state":        {func(back url.Values, _ *oidctest.Provider) { back.Del("state") }, "was begun in another browser"},
		"wrong code":      {func(back url.Values, _ *oidctest.Provider) { back.Set("code", "guessed") }, "cannot be trusted"},
		"they refused":    {func(back url.Values, _ *oidctest.Provider) { back.Set("error", "access_denied") }, "did not let you in: access_denied"},
		"markup":          {func(back url.Values, _ *oidctest.Provider) { back.Set("error", "<script>alert(1)</script>") }, "did not let you in"},
		"another's token": {func(_ url.Values, p *oidctest.Provider) { p.Claims = map[string]any{"aud": "somebody"} }, "cannot be trusted"},
		"no role here":    {func(_ url.Values, p *oidctest.Provider) { p.Claims = map[string]any{"groups": []string{"visitors"}} }, "have no role here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, p := withProvider(t)
			b := w.visitor()
			back := b.sent(p, "/console/oidc?to=/console/alerts")
			c.change(back, p)
			got := b.get(oidc.CallbackPath + "?" + back.Encode())
			if !strings.HasPrefix(got.path, "/console/signin") || got.status != http.StatusOK || !got.has(c.says) || got.has("<script>alert") {
				t.Errorf("it ends at %s with %d: %s", got.path, got.status, got.body)
			}
			b.isOut()
			if n := w.sessionsStarted(); n != 0 {
				t.Errorf("%d sessions were started", n)
			}
		})
	}
}

func TestACallbackInAnotherBrowserSignsNobodyIn(t *testing.T) {
	t.Parallel()
	w, p := withProvider(t)
	one, two, none := w.visitor(), w.visitor(), w.visitor()
	two.sent(p, "/console/oidc?to=/console/alerts")
	back := oidc.CallbackPath + "?" + one.sent(p, "/console/oidc?to=/console/alerts").Encode()
	for name, b := range map[string]*browser{"one that began another": two, "one that began none": none} {
		if got := b.get(back); !strings.HasPrefix(got.path, "/console/signin") || !got.has("in another browser") {
			t.Errorf("%s ends at %s: %s", name, got.path, got.body)
		}
		b.isOut()
	}
	if got := one.get(back); got.path != "/console/alerts" {
		t.Errorf("the one that began it ends at %s: %s", got.path, got.body)
	}
	one.post("/console/signout")
	if got := one.get(back); !strings.HasPrefix(got.path, "/console/signin") || !got.has("in another browser") {
		t.Errorf("the second time it ends at %s: %s", got.path, got.body)
	}
	one.isOut()
	if n := w.sessionsStarted(); n != 1 {
		t.Errorf("%d sessions were started", n)
	}
}

// What somebody's groups say is what they may do, and what they do has their name.
func TestRolesThatAProviderGives(t *testing.T) {
	t.Parallel()
	w, p := withProvider(t)
	tenant, e := w.tenant("Acme")
	path := "/console/endpoints/" + id.Endpoint.Format(e.ID)
	for group, may := range map[string]struct{ pause, keys bool }{
		oidctest.Group: {false, false}, "support": {true, false}, "root": {true, true},
	} {
		p.Change(func() {
			p.Claims = map[string]any{"groups": []string{group, "visitors"}, "email": group + "@example.com"}
		})
		b := w.visitor()
		if got := b.get("/console/oidc?to=" + path); got.path != path || got.has(path+"/test") != may.pause {
			t.Errorf("%s sees at %s: %s", group, got.path, got.body)
		}
		if got := b.post(path+"/test", "type", "order.paid", "payload", "{}"); (got.status != http.StatusForbidden) != may.pause {
			t.Errorf("%s sends a test: %d", group, got.status)
		}
		if got := b.get("/console/api-keys"); (got.status == http.StatusOK) != may.keys {
			t.Errorf("%s sees the API keys: %d", group, got.status)
		}
	}
	found, err := audit.NewLog(w.db).List(t.Context(), audit.Filter{Action: audit.EndpointTested, Tenant: &tenant.ID}, 10, id.ID{})
	if err != nil || len(found) != 2 {
		t.Fatalf("the audit log has %+v, %v", found, err)
	}
	for _, entry := range found {
		if entry.Actor.Kind != audit.ByUser || !strings.HasSuffix(entry.Actor.Name, "t@example.com") {
			t.Errorf("it was %+v", entry.Actor)
		}
	}
}

func TestAProviderThatIsDown(t *testing.T) {
	t.Parallel()
	w, p := withProvider(t)
	p.Change(func() { p.Down = true })
	b := w.visitor()
	if got := b.get("/console/oidc?to=/console/"); got.status != http.StatusServiceUnavailable || !got.has("sign in with an API key") {
		t.Errorf("%d: %s", got.status, got.body)
	}
	if got := b.post("/console/signin", "key", adminKey); got.path != "/console/" || got.status != http.StatusOK {
		t.Errorf("by key it ends at %s with %d", got.path, got.status)
	}
}

func TestThereIsNoProvider(t *testing.T) {
	t.Parallel()
	b := newWorld(t).visitor()
	if got := b.get("/console/signin"); got.has("single sign-on") {
		t.Error("it is offered")
	}
	for _, path := range []string{"/console/oidc", oidc.CallbackPath + "?code=x&state=y"} {
		if got := b.get(path); got.status != http.StatusNotFound || !got.has("not configured") {
			t.Errorf("%s: %d", path, got.status)
		}
	}
}
