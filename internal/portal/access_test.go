package portal_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/internal/portal"
	"github.com/postrider/postrider/subscriptions"
)

// things are ids that stand in paths.
type things struct{ ep, dlv, job string }

// replay makes a job that replays to an endpoint of the tenant, as somebody of it does.
func (w *world) replay(t subscriptions.Tenant, e subscriptions.Endpoint) string {
	w.t.Helper()
	return w.job(audit.ByPortal, t, jobs.Request{Kind: jobs.Replay, Window: w.lastHour(e)})
}

// job makes one of the tenant's.
func (w *world) job(by audit.ActorKind, t subscriptions.Tenant, r jobs.Request) string {
	w.t.Helper()
	r.Tenant = &t.ID
	actor := audit.Actor{Kind: by, Name: t.Name}
	if by == audit.ByKey {
		actor.Key = id.ID{N: 1}
	}
	job, err := w.jobs.Create(audit.With(w.t.Context(), actor), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return id.Job.Format(job.ID)
}

func (w *world) lastHour(e subscriptions.Endpoint) *jobs.Window {
	return &jobs.Window{Endpoint: &e.ID, Since: w.clock.Now().Add(-time.Hour)}
}

// ask goes to a route, with these ids in its path.
func (b *browser) ask(pattern string, ids things, pairs ...string) page {
	b.t.Helper()
	method, path, _ := strings.Cut(pattern, " ")
	path = strings.NewReplacer("{ep}", ids.ep, "{dlv}", ids.dlv, "{job}", ids.job, "{type}", "order.paid", "{$}", "").Replace(path)
	if method == http.MethodPost {
		return b.post(path, pairs...)
	}
	return b.get(path)
}

// good is a form that every route finds in it what it wants.
var good = []string{
	"url", "https://hooks.example/stolen", "status", "disabled", "overlap", "0s", "type", "order.paid", "payload", "{}",
	"since", "2026-01-01T00:00", "signature", "standard", "rate_per", "1s",
}

// Whatever is done with another tenant's ids, by whoever may do all with their own: there is no such thing.
func TestOtherTenantsAreNotThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	globex, theirs := w.tenant("Globex")
	_, dlv := w.event(globex, `{"canary":"payload"}`)
	job := w.replay(globex, theirs)
	everybodys, err := w.jobs.Create(t.Context(), jobs.Request{Kind: jobs.Retry})
	if err != nil {
		t.Fatal(err)
	}
	operators := id.Job.Format(everybodys.ID)
	b := w.owner(acme)
	state := func() [5]int {
		return [5]int{
			w.count(`SELECT count(*) FROM jobs WHERE state = 'queued'`),
			w.count(`SELECT sum(version)::int FROM endpoints WHERE tenant_id = $1 AND shard = $2`, globex.ID.N, globex.ID.Shard),
			w.count(`SELECT count(*) FROM audit_log WHERE tenant_id = $1 AND shard = $2`, globex.ID.N, globex.ID.Shard),
			w.count(`SELECT count(*) FROM events WHERE tenant_id = $1 AND shard = $2`, globex.ID.N, globex.ID.Shard),
			w.count(`SELECT count(*) FROM endpoint_secrets WHERE endpoint_id = $1 AND shard = $2`, theirs.ID.N, theirs.ID.Shard),
		}
	}
	before := state()
	routes, _ := portal.Patterns()
	tried := 0
	for _, pattern := range routes {
		if !strings.Contains(strings.NewReplacer("{$}", "", "{type}", "").Replace(pattern), "{") {
			if strings.HasPrefix(pattern, http.MethodGet) {
				got := b.ask(pattern, things{})
				for _, word := range []string{"Globex", "canary", id.Endpoint.Format(theirs.ID), id.Delivery.Format(dlv)} {
					if got.has(word) {
						t.Errorf("%s shows %s", pattern, word)
					}
				}
			}
			continue
		}
		for _, ids := range []things{
			{id.Endpoint.Format(theirs.ID), id.Delivery.Format(dlv), job},
			{id.Endpoint.Format(w.ids.In(theirs.ID.Shard)), id.Delivery.Format(w.ids.In(dlv.Shard)), id.Job.Format(w.ids.In(dlv.Shard))}, // nobody's
			{"nonsense", "nonsense", operators},
			{"nonsense", "nonsense", "nonsense"},
		} {
			tried++
			got := b.ask(pattern, ids, good...)
			if got.status != http.StatusNotFound || got.has("canary") || got.has("hooks.example") {
				t.Errorf("%s of %s: %d", pattern, ids, got.status)
			}
		}
	}
	if tried < 30 {
		t.Errorf("only %d requests were tried", tried)
	}
	for _, query := range []string{"?endpoint=" + id.Endpoint.Format(theirs.ID), "?q=" + id.Delivery.Format(dlv), "?q=" + id.Tenant.Format(globex.ID), "?q=canary"} {
		if got := b.get("/portal/deliveries" + query); got.has("data-row") {
			t.Errorf("%s leads to deliveries of another tenant", query)
		}
	}
	if after := state(); after != before {
		t.Errorf("something was done to the other tenant: %v, then %v", before, after)
	}
}

// A link that lets somebody read shows no button that changes something, no secret and no value of a header, and all that
// changes something is refused.
func TestReadersOnlyRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	own := w.endpoint(acme, subscriptions.NewEndpoint{
		URL: "https://hooks.example/own", Headers: headers("X-Own", "canary-value"), EventTypes: []string{"order.paid"},
	})
	_, dlv := w.event(acme, `{}`)
	if _, _, err := w.subs.PutEventType(t.Context(), "order.paid", subscriptions.EventTypeSettings{}); err != nil {
		t.Fatal(err)
	}
	secrets, err := w.subs.Secret(t.Context(), acme, id.Endpoint.Format(own.ID))
	if err != nil {
		t.Fatal(err)
	}
	job := w.replay(acme, own)
	b := w.reader(acme)
	forms := []string{"GET /portal/endpoints/{ep}/replay", "GET /portal/endpoints/new", "GET /portal/endpoints/{ep}/settings", "GET /portal/endpoints/{ep}/test"}
	entries := func() int { return w.count(`SELECT count(*) FROM audit_log`) }
	before := entries()
	routes, _ := portal.Patterns()
	for _, pattern := range routes {
		got := b.ask(pattern, things{id.Endpoint.Format(own.ID), id.Delivery.Format(dlv), job}, good...)
		want := http.StatusOK
		if strings.HasPrefix(pattern, http.MethodPost) || slices.Contains(forms, pattern) {
			want = http.StatusForbidden
		}
		if got.status != want {
			t.Errorf("%s: %d, not %d", pattern, got.status, want)
		}
		if posts := strings.Count(got.body, `method="post"`) - strings.Count(got.body, `action="/portal/signout"`); posts != 0 {
			t.Errorf("%s has %d forms that change something", pattern, posts)
		}
		if got.shows(secrets[0].Secret.Reveal()) || got.shows("canary-value") || got.has("endpoints/new") {
			t.Errorf("%s shows what is not for readers", pattern)
		}
	}
	if after := entries(); after != before {
		t.Errorf("the audit log has %d more entries", after-before)
	}
}

func TestStrangersSeeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, own := w.tenant("Acme")
	_, dlv := w.event(acme, `{}`)
	job := w.replay(acme, own)
	routes, anyone := portal.Patterns()
	for _, pattern := range routes {
		got := w.visitor().ask(pattern, things{id.Endpoint.Format(own.ID), id.Delivery.Format(dlv), job}, good...)
		if got.status != http.StatusUnauthorized || !got.has("Open it again from the place") || got.has("hooks.example") {
			t.Errorf("%s: %d", pattern, got.status)
		}
	}
	if want := []string{"GET /portal/theme.css", "GET /portal/logo", "GET /portal/enter", "POST /portal/enter", "POST /portal/signout", "GET /portal/left"}; !slices.Equal(anyone, want) {
		t.Errorf("open to anyone: %v", anyone)
	}
}
