package console_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
)

var keyText = regexp.MustCompile(`prk_[A-Za-z0-9_-]{20,}`)

func TestAnAPIKeyFromItsMakingToItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant(hostile)
	ten := id.Tenant.Format(acme.ID)
	admin := w.as(auth.RoleAdmin)
	if got := admin.get("/console/api-keys/new?tenant=" + ten); !got.has(`value="`+ten+`"`) || strings.Count(got.body, `name="scopes"`) != len(auth.Scopes()) {
		t.Errorf("the form: %s", got.body)
	}
	made := admin.post("/console/api-keys", "name", hostile, "scopes", "events:write", "scopes", "deliveries:read", "tenant", ten, "expires_in", "30d")
	text := keyText.FindString(made.body)
	principal, err := w.keys.Authenticate(t.Context(), text)
	if err != nil || made.status != http.StatusOK || made.path != "/console/api-keys" || made.has("<script>alert(1)") {
		t.Fatalf("making one: %d at %s, %v: %s", made.status, made.path, err, made.body)
	}
	if *principal.Tenant != acme.ID || !principal.Has(auth.EventsWrite) || !principal.Has(auth.DeliveriesRead) || principal.Has(auth.EndpointsWrite) {
		t.Errorf("it is %+v", principal)
	}
	for _, c := range made.header.Values("Set-Cookie") {
		if strings.Contains(c, text) {
			t.Errorf("it is in a cookie: %s", c)
		}
	}
	path := "/console/api-keys/" + id.Key.Format(principal.Key)
	list, one := admin.get("/console/api-keys"), admin.get(path)
	for _, got := range []page{list, one} {
		if got.has(text) || got.has("<script>alert(1)") || !got.has(ten) || !got.has("in 29 days") {
			t.Errorf("%s: %s", got.path, got.body)
		}
	}
	if !list.has(path) || !list.has("bootstrap") {
		t.Errorf("the list: %s", list.body)
	}
	if got := admin.post(path + "/revoke"); got.path != "/console/api-keys" || !got.has("The key is revoked.") || got.has(path) {
		t.Errorf("revoking ends at %s: %s", got.path, got.body)
	}
	if _, err := w.keys.Authenticate(t.Context(), text); err == nil {
		t.Error("it is still good")
	}
	w.audited(audit.KeyCreated, id.Key, principal.Key, "bootstrap")
	w.audited(audit.KeyRevoked, id.Key, principal.Key, "bootstrap")
	for _, nobody := range []string{path, "/console/api-keys/key_x", "/console/api-keys/" + id.Key.Format(id.ID{N: 1})} {
		if got := admin.get(nobody); got.status != http.StatusNotFound {
			t.Errorf("%s: %d", nobody, got.status)
		}
		if got := admin.post(nobody + "/revoke"); got.status != http.StatusNotFound {
			t.Errorf("revoking %s: %d", nobody, got.status)
		}
	}
}

func TestAFormForAKeyIsShownAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.as(auth.RoleAdmin)
	for says, fields := range map[string][]string{
		"is needed":                      {"name", "mine"},
		"is none of":                     {"name", "mine", "scopes", "everything"},
		"characters":                     {"name", "", "scopes", "admin"},
		"no such tenant":                 {"name", "mine", "scopes", "admin", "tenant", "nobody"},
		"is no span":                     {"name", "mine", "scopes", "admin", "expires_in", "soon"},
		"lies more than ten years ahead": {"name", "mine", "scopes", "admin", "expires_in", "9999d"},
	} {
		got := admin.post("/console/api-keys", fields...)
		if got.status != http.StatusUnprocessableEntity || !got.has(says) || !got.has(`class="field-fault"`) || keyText.MatchString(got.body) {
			t.Errorf("%v: %d %s", fields, got.status, got.body)
		}
	}
	if got := admin.post("/console/api-keys", "name", "", "scopes", "admin"); !got.has(`value="admin" checked`) || got.has(`value="events:write" checked`) {
		t.Errorf("what was chosen is not chosen any more: %s", got.body)
	}
	if keys, err := w.keys.List(t.Context(), 10, id.ID{}); err != nil || len(keys) != 1 {
		t.Errorf("%d keys are made of it, %v", len(keys)-1, err)
	}
}

func TestKeysAreForAdmins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	end := w.clock.Now().Add(time.Hour)
	key, text, err := w.keys.Create(t.Context(), auth.NewKey{Name: "other", Scopes: auth.Scopes(), ExpiresAt: &end})
	if err != nil {
		t.Fatal(err)
	}
	path := "/console/api-keys/" + id.Key.Format(key.ID)
	supporter := w.as(auth.RoleSupport)
	for _, page := range []string{"/console/api-keys", "/console/api-keys/new", path} {
		if got := supporter.get(page); got.status != http.StatusForbidden || got.has(key.Hint) {
			t.Errorf("support, %s: %d", page, got.status)
		}
	}
	for _, page := range []string{"/console/api-keys", path + "/revoke"} {
		if got := supporter.post(page, "name", "x", "scopes", "admin"); got.status != http.StatusForbidden {
			t.Errorf("support posts %s: %d", page, got.status)
		}
	}
	// Whoever revokes the key that they came in with is out.
	b := w.visitor()
	b.post("/console/signin", "key", text)
	if got := b.get(path); !got.has("You are signed in with it") {
		t.Errorf("one's own key: %s", got.body)
	}
	if got := b.post(path + "/revoke"); !strings.HasPrefix(got.path, "/console/signin") {
		t.Errorf("after revoking it one is at %s", got.path)
	}
}

func TestTheListOfKeysGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 50 {
		if _, _, err := w.keys.Create(t.Context(), auth.NewKey{Name: "k", Scopes: auth.Scopes()}); err != nil {
			t.Fatal(err)
		}
	}
	admin := w.as(auth.RoleAdmin)
	first := admin.get("/console/api-keys")
	if second := admin.get(first.next()); strings.Count(first.body, "data-row") != 50 || strings.Count(second.body, "data-row") != 1 || !second.has("bootstrap") {
		t.Errorf("the second page: %s", second.body)
	}
	if got := admin.get("/console/api-keys?cursor=x"); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a bad cursor: %d", got.status)
	}
}
