package portal_test

import (
	"bytes"
	"context"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/portal"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/subscriptions"
)

// hostile is what somebody would put wherever they may write something.
const hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(2)>`

// guesses is how many links that open nothing an address may try at once.
const guesses = 20

// world is a portal on a database of its own, served as a browser wants it, with what stands behind it.
type world struct {
	t        *testing.T
	db       *pgxpool.Pool
	ids      *id.Generator
	clock    *pg.Clock
	ahead    atomic.Int64 // how far the clock of sessions is ahead
	subs     *subscriptions.Store
	intake   *intake.Intake
	desk     *dispatcher.Desk
	sessions *auth.Sessions
	jobs     *jobs.Jobs
	http     *httptest.Server
}

func newWorld(t *testing.T, settings ...func(*portal.Deps)) *world {
	t.Helper()
	w := &world{t: t, db: pgtest.Pool(t), clock: &pg.Clock{}}
	w.ids = id.NewGenerator(1, w.clock.Now)
	box, err := seal.New([][]byte{bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	w.subs = subscriptions.New(subscriptions.Deps{DB: w.db, IDs: w.ids, Now: w.clock.Now, Box: box, CheckURL: httpsOnly})
	keys := auth.NewKeys(w.db, w.ids, w.clock.Now)
	t.Cleanup(func() {
		if err := keys.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	w.intake = intake.New(intake.Deps{DB: w.db, IDs: w.ids, Now: w.clock.Now, MaxPayload: 1 << 20, SearchBudget: time.Minute})
	w.desk = dispatcher.NewDesk(dispatcher.DeskDeps{DB: w.db, IDs: w.ids, Now: w.clock.Now, Store: w.subs, SearchBudget: time.Minute, Wake: func(int16) {}})
	w.sessions = auth.NewSessions(w.db, w.ids, keys, func() time.Time {
		return w.clock.Now().Add(time.Duration(w.ahead.Load()))
	}, auth.SessionOptions{})
	w.jobs = jobs.New(jobs.Deps{
		DB: w.db, IDs: w.ids, Now: w.clock.Now, Desk: w.desk, Intake: w.intake, Log: zerolog.New(zerolog.NewTestWriter(t)),
	})
	d := portal.Deps{
		Subscriptions: w.subs, Intake: w.intake, Deliveries: w.desk, Sessions: w.sessions, Jobs: w.jobs, Stats: stats.NewReader(w.db, w.clock.Now), Wake: func(int16) {},
		Door:         auth.NewDoor(keys, auth.DoorOptions{Burst: guesses}),
		AddressClass: func(netip.Addr) string { return "a class" }, Now: w.clock.Now, Logger: zerolog.New(zerolog.NewTestWriter(t)),
		Schedule: dispatcher.DefaultSchedule, Look: portal.Look{Name: "Webhooks"},
	}
	for _, set := range settings {
		set(&d)
	}
	w.http = httptest.NewTLSServer(portal.New(d))
	t.Cleanup(w.http.Close)
	return w
}

// httpsOnly stands for the egress policy.
func httpsOnly(raw string) error {
	if u, err := url.Parse(raw); err != nil || u.Scheme != "https" || u.Host == "" {
		return errors.New("has to be an https URL")
	}
	return nil
}

// tenant makes one, with an endpoint that wants everything.
func (w *world) tenant(name string) (subscriptions.Tenant, subscriptions.Endpoint) {
	w.t.Helper()
	t, err := w.subs.CreateTenant(w.t.Context(), subscriptions.NewTenant{Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	return t, w.endpoint(t, subscriptions.NewEndpoint{URL: "https://hooks.example/in?token=canary"})
}

func (w *world) endpoint(t subscriptions.Tenant, n subscriptions.NewEndpoint) subscriptions.Endpoint {
	w.t.Helper()
	e, _, err := w.subs.CreateEndpoint(w.t.Context(), t, n)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// event accepts one of the type order.paid and gives its first delivery.
func (w *world) event(t subscriptions.Tenant, payload string) (evt, dlv id.ID) {
	w.t.Helper()
	receipts, _, err := w.intake.Accept(w.t.Context(), t.ID, "", []intake.Event{{Type: "order.paid", Payload: []byte(payload)}})
	if err != nil {
		w.t.Fatal(err)
	}
	found, err := w.desk.List(w.t.Context(), dispatcher.Filter{Event: &receipts[0].ID}, 1, id.ID{})
	if err != nil || len(found) != 1 {
		w.t.Fatalf("the event has %d deliveries, %v", len(found), err)
	}
	return receipts[0].ID, found[0].ID
}

func (w *world) count(query string, args ...any) (n int) {
	w.t.Helper()
	if err := w.db.QueryRow(w.t.Context(), query, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// link makes one into the tenant's portal and gives its token.
func (w *world) link(t subscriptions.Tenant, readOnly bool) string {
	w.t.Helper()
	token, _, err := w.sessions.CreatePortalLink(w.t.Context(), t.ID, auth.PortalLinkOptions{ReadOnly: readOnly})
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// browser is somebody with a browser: it keeps cookies and follows redirects.
type browser struct {
	t    *testing.T
	base string
	http *http.Client
}

// visitor is somebody who has not entered.
func (w *world) visitor() *browser {
	w.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	client := *w.http.Client()
	client.Jar = jar
	return &browser{t: w.t, base: w.http.URL, http: &client}
}

// owner is somebody of the tenant who has entered; reader somebody whose link was for reading only.
func (w *world) owner(t subscriptions.Tenant) *browser  { return w.entered(t, false) }
func (w *world) reader(t subscriptions.Tenant) *browser { return w.entered(t, true) }

func (w *world) entered(t subscriptions.Tenant, readOnly bool) *browser {
	w.t.Helper()
	b := w.visitor()
	if got := b.post("/portal/enter", "token", w.link(t, readOnly)); got.status != http.StatusOK || got.path != "/portal/" {
		w.t.Fatalf("entering ends at %s with %d: %s", got.path, got.status, got.body)
	}
	return b
}

// page is what a browser has ended up with.
type page struct {
	status int
	path   string // with the query
	header http.Header
	body   string
}

func (p page) has(text string) bool { return strings.Contains(p.body, text) }

// shows reports whether a reader of the page sees the text, however it is escaped.
func (p page) shows(text string) bool { return strings.Contains(html.UnescapeString(p.body), text) }

func (b *browser) get(path string) page {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.base+path, http.NoBody)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.do(req)
}

// post sends a form of name, value, name, value … as a page of this origin does.
func (b *browser) post(path string, pairs ...string) page {
	b.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.do(req)
}

func (b *browser) do(req *http.Request) page {
	b.t.Helper()
	res, err := b.http.Do(req)
	if err != nil {
		b.t.Fatalf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return page{status: res.StatusCode, path: res.Request.URL.RequestURI(), header: res.Header, body: string(body)}
}
