package portal_test

import (
	"net/http"
	"testing"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// An organizer who fetches sees his endpoint like any other, without what is about sending, and changes what there is to change.
func TestPagesOfWhatIsFetched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, err := w.subs.CreateTenant(t.Context(), subscriptions.NewTenant{Name: "Acme"})
	if err != nil {
		t.Fatal(err)
	}
	e := w.endpoint(acme, subscriptions.NewEndpoint{Kind: subscriptions.Pull})
	_, dlv := w.event(acme, `{}`)
	if _, err := w.db.Exec(t.Context(), `UPDATE deliveries SET attempts = 1, failures = 1, last_outcome = 'timeout'`); err != nil {
		t.Fatal(err)
	}
	b := w.owner(acme)
	page := "/portal/endpoints/" + id.Endpoint.Format(e.ID)
	for path, says := range map[string]string{
		"/portal/": "fetched by its owner", page: "fetched by its owner", page + "/settings": "you fetch what waits for it",
		page + "/signing": "fetched by its owner", page + "/test": "fetched by its owner", page + "/replay": "fetched by its owner",
		"/portal/deliveries": "fetched by its owner", "/portal/deliveries/" + id.Delivery.Format(dlv): "ask for a longer lease",
	} {
		if got := b.get(path); got.status != http.StatusOK || !got.shows(says) {
			t.Errorf("%s: %d, does not say %q: %s", path, got.status, says, got.body)
		}
	}
	form := b.get(page + "/settings")
	for _, field := range []string{`name="url"`, `name="rate_limit"`, `name="timeout"`} {
		if form.has(field) {
			t.Errorf("the form has %s", field)
		}
	}
	if b.get("/portal/deliveries/" + id.Delivery.Format(dlv)).has("Retry schedule") {
		t.Error("the delivery's page has a schedule")
	}
	got := b.post(page+"/settings", "version", e.ETag(), "description", "the inbox", "signature", "standard")
	if after := w.newest(acme); got.status != http.StatusOK || after.Description != "the inbox" || after.Kind != subscriptions.Pull {
		t.Errorf("saving ends with %d and %+v: %s", got.status, after, got.body)
	}
}
