package console_test

import (
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/subscriptions"
)

// Pages about an endpoint that has no URL say how it gets its deliveries, and nothing of what is about sending.
func TestPagesOfWhatIsFetched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant, err := w.subs.CreateTenant(t.Context(), subscriptions.NewTenant{Name: "Acme"})
	if err != nil {
		t.Fatal(err)
	}
	e, _, err := w.subs.CreateEndpoint(t.Context(), tenant, subscriptions.NewEndpoint{Kind: subscriptions.Pull})
	if err != nil {
		t.Fatal(err)
	}
	evt, dlv := w.event(tenant, `{}`)
	_, err = w.db.Exec(t.Context(), `
INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, outcome, error)
VALUES (@shard, @id, @delivery, @endpoint, 1, 1, 1, 'timeout', 'it was fetched, and not acknowledged before its lease ended')`,
		pgx.StrictNamedArgs{"shard": dlv.Shard, "id": w.ids.Next(), "delivery": dlv.N, "endpoint": e.ID.N})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.db.Exec(t.Context(), `UPDATE deliveries SET attempts = 1, failures = 1, last_outcome = 'timeout'`); err != nil {
		t.Fatal(err)
	}
	alr := w.alert(e, alert.DeliveryFailing, "it fails", dlv)
	b := w.as(auth.RoleSupport)
	for path, wants := range map[string][]string{
		"/console/":          nil,
		"/console/endpoints": {"fetched by its owner"},
		"/console/endpoints/" + id.Endpoint.Format(e.ID):             {"fetched by its owner", "pull: its owner fetches what waits"},
		"/console/endpoints/" + id.Endpoint.Format(e.ID) + "/replay": {"fetched by its owner"},
		"/console/tenants/" + id.Tenant.Format(tenant.ID):            {"fetched by its owner"},
		"/console/events/" + id.Event.Format(evt):                    {"fetched by its owner"},
		"/console/deliveries":                                        {"fetched by its owner"},
		"/console/deliveries/" + id.Delivery.Format(dlv):             {"fetched by its owner", "not acknowledged", "has to acknowledge it", "To be fetched since"},
		"/console/alerts":                         {"fetched by its owner"},
		"/console/alerts/" + id.Alert.Format(alr): {"fetched by its owner"},
	} {
		got := b.get(path)
		if got.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
		for _, text := range wants {
			if !got.has(text) {
				t.Errorf("%s does not say %q", path, text)
			}
		}
	}
	page := b.get("/console/deliveries/" + id.Delivery.Format(dlv))
	endpoint := b.get("/console/endpoints/" + id.Endpoint.Format(e.ID))
	for _, text := range []string{"Retry schedule", "As curl", "Copy as curl"} {
		if page.has(text) {
			t.Errorf("the delivery's page has %q", text)
		}
	}
	for _, text := range []string{"Circuit breaker", "Retries after", "Ordering"} {
		if endpoint.has(text) {
			t.Errorf("the endpoint's page has %q", text)
		}
	}
	if got := b.get("/console/deliveries/" + id.Delivery.Format(dlv) + "?curl"); got.has("curl -g") {
		t.Errorf("a request is shown that nobody makes: %s", got.body)
	}
}
