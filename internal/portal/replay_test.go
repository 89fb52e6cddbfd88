package portal_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/subscriptions"
)

// An endpoint that comes later asks for what it missed: first it is told how much that is, then it gets it.
func TestReplayingWhatWasMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant("Acme")
	for range 3 {
		w.event(acme, `{}`)
	}
	late := w.endpoint(acme, subscriptions.NewEndpoint{URL: "https://hooks.example/late"})
	path := "/portal/endpoints/" + id.Endpoint.Format(late.ID) + "/replay"
	b := w.owner(acme)
	if got := b.get(path); got.has("will be sent again") || !got.has(`value="missing" selected`) {
		t.Errorf("the form: %s", got.body)
	}
	since := w.clock.Now().Add(-time.Hour).UTC().Format("2006-01-02T15:04")
	window := url.Values{"since": {since}, "state": {"missing"}, "types": {"order.*"}}
	got := b.get(path + "?" + window.Encode())
	if got.status != http.StatusOK || !got.has("<strong>3 events</strong> will be sent again") {
		t.Fatalf("the preview: %d %s", got.status, got.body)
	}
	if n := w.count(`SELECT count(*) FROM jobs`); n != 0 {
		t.Errorf("the preview has made %d jobs", n)
	}
	_, until, _ := strings.Cut(got.body, `name="until" value="`)
	until, _, _ = strings.Cut(until, `"`)
	got = b.post(path, "since", since, "until", until, "state", "missing", "types", "order.*")
	if !strings.HasPrefix(got.path, "/portal/jobs/job_") || !got.has("queued") || !got.has("Cancel the rest") {
		t.Fatalf("it ends at %s: %s", got.path, got.body)
	}
	for {
		did, err := w.jobs.RunOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !did {
			break
		}
	}
	if got := b.get(got.path); !got.has("succeeded") || got.has("Cancel the rest") {
		t.Errorf("when it is done: %s", got.body)
	}
	if got := b.get("/portal/deliveries?endpoint=" + id.Endpoint.Format(late.ID)); strings.Count(got.body, "data-row") != 3 {
		t.Errorf("the endpoint got %d", strings.Count(got.body, "data-row"))
	}
	if got := b.post("/portal/jobs/" + strings.TrimPrefix(got.path, "/portal/jobs/") + "/cancel"); !got.has("notice-bad") {
		t.Errorf("cancelling what is done: %s", got.body)
	}
}

func TestAWindowThatCannotBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, e := w.tenant("Acme")
	path := "/portal/endpoints/" + id.Endpoint.Format(e.ID) + "/replay"
	b := w.owner(acme)
	for _, query := range []url.Values{
		{"since": {"yesterday"}, "state": {"missing"}},
		{"since": {"2026-01-01"}, "state": {hostile}},
		{"since": {""}, "state": {"all"}},
		{"since": {"2026-01-02"}, "until": {"2026-01-01"}, "state": {"all"}},
		{"since": {"2026-01-01"}, "types": {hostile}, "state": {"all"}},
	} {
		got := b.get(path + "?" + query.Encode())
		if got.status != http.StatusUnprocessableEntity || got.has("will be sent again") || got.has("<script>alert(1)") ||
			!got.has("field-fault") && !got.has("notice-bad") {
			t.Errorf("%v: %d %s", query, got.status, got.body)
		}
		if got := b.post(path, "since", query.Get("since"), "until", query.Get("until"), "state", query.Get("state"), "types", query.Get("types")); got.path == path {
			t.Errorf("%v: it was made, or nothing says why not: %s", query, got.path)
		}
	}
	if n := w.count(`SELECT count(*) FROM jobs`); n != 0 {
		t.Errorf("%d jobs were made", n)
	}
}

func TestCancellingAReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, e := w.tenant("Acme")
	w.event(acme, `{}`)
	path := "/portal/jobs/" + w.replay(acme, e)
	b := w.owner(acme)
	if got := b.get(path); !got.has("queued") {
		t.Fatalf("the job: %s", got.body)
	}
	if got := b.post(path + "/cancel"); got.path != path || !got.has("It is cancelled.") || !got.has("cancelled") {
		t.Errorf("cancelling: %s", got.body)
	}
}

// What the producer does with a tenant's deliveries is not the tenant's to see or to stop, by whatever name it does it.
func TestJobsOfTheProducerAreNotThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, e := w.tenant("Acme")
	w.event(acme, `{}`)
	b := w.owner(acme)
	for name, job := range map[string]string{
		"a replay by the API":         w.job(audit.ByKey, acme, jobs.Request{Kind: jobs.Replay, Window: w.lastHour(e)}),
		"a replay by staff":           w.job(audit.ByUser, acme, jobs.Request{Kind: jobs.Replay, Window: w.lastHour(e)}),
		"a cancellation by the API":   w.job(audit.ByKey, acme, jobs.Request{Kind: jobs.Cancel}),
		"a retry as if by the tenant": w.job(audit.ByPortal, acme, jobs.Request{Kind: jobs.Retry}),
	} {
		path := "/portal/jobs/" + job
		if look, cancel := b.get(path), b.post(path+"/cancel"); look.status != http.StatusNotFound || cancel.status != http.StatusNotFound {
			t.Errorf("%s: %d, cancelling it %d", name, look.status, cancel.status)
		}
	}
	if n := w.count(`SELECT count(*) FROM jobs WHERE state = 'queued'`); n != 4 {
		t.Errorf("%d of 4 jobs go on", n)
	}
}

// Counting searches for seconds, so a tenant with several pages open has one of them counted, and the others say so on the form.
func TestATenantCountsOneWindowAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, e := w.tenant("Acme")
	w.event(acme, `{}`)
	b := w.owner(acme)
	path := "/portal/endpoints/" + id.Endpoint.Format(e.ID) + "/replay"
	since := w.clock.Now().Add(-time.Hour).UTC().Format("2006-01-02T15:04")
	query := path + "?" + url.Values{"since": {since}, "state": {"all"}}.Encode()
	tx, err := w.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `LOCK TABLE events`); err != nil {
		t.Fatal(err)
	}
	first := make(chan page, 1)
	go func() { first <- b.get(query) }()
	for w.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 0 {
		select {
		case got := <-first:
			t.Fatalf("it did not wait: %d %s", got.status, got.body)
		default:
		}
	}
	for name, got := range map[string]page{"counting": b.get(query), "replaying": b.post(path, "since", since, "state", "all")} {
		if got.status != http.StatusTooManyRequests || !got.has("try again in a moment") || !got.has(`value="`+since) || got.has("nothing to replay") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]page{"the first": <-first, "afterwards": b.get(query)} {
		if got.status != http.StatusOK || !got.has("nothing to replay") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
}
