package portal_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/portal"
)

func TestALinkOpensThePortalOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	token := w.link(acme, false)
	b := w.visitor()
	for range 3 { // whoever previews a link looks at it
		got := b.get("/portal/enter?token=" + token)
		if got.status != http.StatusOK || !got.has("Continue to Webhooks") || !got.has("data-auto") || got.has("Acme") {
			t.Fatalf("the link shows %d: %s", got.status, got.body)
		}
		if got.header.Get("Referrer-Policy") != "strict-origin" || len(got.header.Values("Set-Cookie")) != 0 {
			t.Errorf("the link is served with %v", got.header)
		}
	}
	if got := b.post("/portal/enter", "token", token); got.status != http.StatusOK || got.path != "/portal/" || !got.has("Acme") {
		t.Fatalf("entering ends at %s with %d", got.path, got.status)
	}
	for name, got := range map[string]page{
		"a look": w.visitor().get("/portal/enter?token=" + token), "a second use": w.visitor().post("/portal/enter", "token", token),
		"no token": w.visitor().get("/portal/enter"), "nonsense": w.visitor().post("/portal/enter", "token", hostile),
	} {
		if got.status != http.StatusUnauthorized || !got.has("does not open any more") || got.has("data-auto") || got.has("<script>alert") {
			t.Errorf("%s of a spent link: %d %s", name, got.status, got.body)
		}
	}
	if got := b.get("/portal/"); got.status != http.StatusOK {
		t.Errorf("the session ended with the others' tries: %d", got.status)
	}
}

func TestALinkAndASessionExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	token, b := w.link(acme, false), w.owner(acme)
	w.ahead.Store(int64(6 * time.Minute))
	if got := w.visitor().post("/portal/enter", "token", token); got.status != http.StatusUnauthorized || !got.has("does not open any more") {
		t.Errorf("an expired link: %d", got.status)
	}
	if got := b.get("/portal/"); got.status != http.StatusOK {
		t.Errorf("a session of six minutes: %d", got.status)
	}
	w.ahead.Store(int64(61 * time.Minute))
	if got := b.get("/portal/"); got.status != http.StatusUnauthorized || !got.has("Open it again from the place") {
		t.Errorf("an expired session: %d %s", got.status, got.body)
	}
}

func TestLeaving(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	b := w.owner(acme)
	if got := b.post("/portal/signout"); got.path != "/portal/left" || !got.has("You have left Webhooks") {
		t.Errorf("leaving ends at %s: %s", got.path, got.body)
	}
	for _, path := range []string{"/portal/", "/portal/nope"} {
		if got := b.get(path); got.status == http.StatusOK || got.has("Acme") {
			t.Errorf("%s is still to be had: %d", path, got.status)
		}
	}
}

// Only the configured origins may show the portal in a frame, and then it does with cookies that browsers keep there.
func TestWhoMayShowThePortalInAFrame(t *testing.T) {
	t.Parallel()
	for ancestors, embedders := range map[string][]string{
		"'none'": nil, "https://app.example https://other.example:8443": {"https://app.example", "https://other.example:8443"},
	} {
		w := newWorld(t, func(d *portal.Deps) { d.Embedders = embedders })
		acme, _ := w.tenant("Acme")
		b := w.owner(acme)
		for _, path := range []string{"/portal/", "/portal/left", "/portal/enter?token=x", "/portal/nope"} {
			got := b.get(path)
			_, policy, _ := strings.Cut(got.header.Get("Content-Security-Policy"), "frame-ancestors ")
			if policy != ancestors || (got.header.Get("X-Frame-Options") == "") != (embedders != nil) {
				t.Errorf("%s with %v: %v", path, embedders, got.header)
			}
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.base+"/portal/enter",
			strings.NewReader("token="+w.link(acme, false)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		res, err := w.http.Client().Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		cookie := res.Header.Get("Set-Cookie")
		if !strings.HasPrefix(cookie, "__Host-postrider_portal=") || !strings.Contains(cookie, "; HttpOnly; Secure") ||
			strings.Contains(cookie, "SameSite=None; Partitioned") != (embedders != nil) {
			t.Errorf("with %v: %s", embedders, cookie)
		}
	}
}

func TestTheLookIsTheOperators(t *testing.T) {
	t.Parallel()
	svg := []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`)
	w := newWorld(t, func(d *portal.Deps) {
		d.Look = portal.Look{Name: hostile, Logo: svg, LogoType: "image/svg+xml", Accent: "#ffdd00"}
	})
	got := w.visitor().get("/portal/left")
	if got.has("<script>alert(1)") || got.has("<img src=x") {
		t.Errorf("the name is not text: %s", got.body)
	}
	for kind, mark := range map[string]string{"image/svg+xml": `<img src="`, "text/css; charset=utf-8": `<link rel="stylesheet" href="/portal/theme`} {
		_, path, _ := strings.Cut(got.body, mark)
		path, _, _ = strings.Cut(path, `"`)
		if strings.HasPrefix(mark, "<link") {
			path = "/portal/theme" + path
		}
		file := w.visitor().get(path)
		if h := file.header; file.status != http.StatusOK || h.Get("Content-Type") != kind || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Content-Security-Policy") != "default-src 'none'; sandbox" {
			t.Errorf("%s: %d %v", path, file.status, h)
		}
	}
	if got := newWorld(t).visitor().get("/portal/logo"); got.status != http.StatusNotFound {
		t.Errorf("no logo: %d", got.status)
	}
}

// Who guesses at links has to wait as who guesses at keys has; good links count for nothing.
func TestGuessingAtLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	for range guesses {
		w.owner(acme)
	}
	link := w.link(acme, false)
	for i := range guesses / 2 {
		look, use := w.visitor().get("/portal/enter?token=prl_guess"), w.visitor().post("/portal/enter", "token", "prl_guess")
		if look.status != http.StatusUnauthorized || use.status != http.StatusUnauthorized {
			t.Fatalf("guess %d: %d, %d", i, look.status, use.status)
		}
	}
	look, use := w.visitor().get("/portal/enter?token="+link), w.visitor().post("/portal/enter", "token", link)
	for _, got := range []page{look, use} {
		if got.status != http.StatusTooManyRequests || !got.has("it has to wait") || got.has("data-auto") {
			t.Errorf("after them: %d %s", got.status, got.body)
		}
	}
	if n := w.count(`SELECT count(*) FROM portal_links`); n != 1 {
		t.Errorf("the link was spent: %d are left", n)
	}
}

// A browser that does not say Sec-Fetch-Site is told from another origin's by the Origin of its form, which the page's policy lets it
// say.
func TestEnteringWithAnOlderBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	token := w.link(acme, false)
	for _, c := range []struct {
		origin string
		status int
	}{{"null", http.StatusForbidden}, {w.http.URL, http.StatusOK}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.http.URL+"/portal/enter", strings.NewReader("token="+token))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", c.origin)
		if got := w.visitor().do(req); got.status != c.status {
			t.Errorf("from %s: %d", c.origin, got.status)
		}
	}
}

// Each page loads them, so they cost the database nothing.
func TestFilesAskForNoSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(d *portal.Deps) { d.Look.Logo, d.Look.LogoType = []byte("a picture"), "image/png" })
	acme, _ := w.tenant("Acme")
	b := w.owner(acme)
	for path, asks := range map[string]bool{"/portal/theme.css": false, "/portal/logo": false, "/portal/left": true} {
		before := w.db.Stat().AcquireCount()
		if got := b.get(path); got.status != http.StatusOK {
			t.Errorf("%s: %d", path, got.status)
		}
		if asked := w.db.Stat().AcquireCount() > before; asked != asks {
			t.Errorf("%s asks the database: %t", path, asked)
		}
	}
}

// Who may show the portal may not act in it: what another origin's page makes a browser send is refused, whoever it is.
func TestWhoShowsThePortalDoesNotActInIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(d *portal.Deps) { d.Embedders = []string{"https://app.example"} })
	acme, e := w.tenant("Acme")
	b := w.owner(acme)
	path := "/portal/endpoints/" + id.Endpoint.Format(e.ID) + "/delete"
	for _, header := range [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://app.example"}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.base+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(header[0], header[1])
		if got := b.do(req); got.status != http.StatusForbidden || !got.has("another origin") {
			t.Errorf("%v: %d", header, got.status)
		}
	}
	if got := w.newest(acme); got.ID != e.ID {
		t.Error("it was deleted all the same")
	}
}
