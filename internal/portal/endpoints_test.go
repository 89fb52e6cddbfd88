package portal_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

func TestTheListOfEndpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, one := w.tenant(hostile)
	_, other := w.tenant("Globex")
	w.endpoint(acme, subscriptions.NewEndpoint{
		URL: "https://x.example/" + hostile, Description: hostile, EventTypes: []string{"a.*", "b", "c", "d"}, Disabled: true,
	})
	for name, b := range map[string]*browser{"who may write": w.owner(acme), "who may read": w.reader(acme)} {
		got := b.get("/portal/")
		if got.status != http.StatusOK || !got.has(id.Endpoint.Format(one.ID)) || got.has(id.Endpoint.Format(other.ID)) || got.has("canary") ||
			got.has("<script>alert(1)") || !got.has("4 in all") || !got.has("paused") || !got.has("healthy") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		if got.has("Add an endpoint") != (name == "who may write") {
			t.Errorf("%s: a button to add one: %t", name, got.has("Add an endpoint"))
		}
	}
	if got := w.owner(acme).get("/portal/?cursor=nonsense"); got.status != http.StatusUnprocessableEntity {
		t.Errorf("nonsense for a cursor: %d", got.status)
	}
}

func TestTheListOfEndpointsGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	for range 50 {
		w.endpoint(acme, subscriptions.NewEndpoint{URL: "https://hooks.example/"})
	}
	b := w.owner(acme)
	first := b.get("/portal/")
	_, link, _ := strings.Cut(first.body, `rel="next" href="`)
	link, _, _ = strings.Cut(link, `"`)
	second := b.get(strings.ReplaceAll(link, "&amp;", "&"))
	if n, m := strings.Count(first.body, "data-row"), strings.Count(second.body, "data-row"); n != 50 || m != 1 || !second.has("Newest") {
		t.Errorf("the pages have %d and %d rows; the next is %q", n, m, link)
	}
}
