package console_test

import (
	"bytes"
	"context"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/console"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/schedules"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/internal/watch"
	"github.com/postrider/postrider/subscriptions"
)

const adminKey = "the-admin-key-of-tests"

// world is a console on a database of its own, served as a browser wants it, with what stands behind it.
type world struct {
	t         *testing.T
	db        *pgxpool.Pool
	ids       *id.Generator
	clock     *pg.Clock
	subs      *subscriptions.Store
	intake    *intake.Intake
	desk      *dispatcher.Desk
	keys      *auth.Keys
	sessions  *auth.Sessions
	jobs      *jobs.Jobs
	schedules *schedules.Schedules
	fleet     watch.Fleet
	http      *httptest.Server
}

// newWorld makes one. change may change the console before it is made, whose address is base.
func newWorld(t *testing.T, change ...func(d *console.Deps, base string)) *world {
	t.Helper()
	w := &world{t: t, db: pgtest.Pool(t), clock: &pg.Clock{}}
	w.ids = id.NewGenerator(1, w.clock.Now)
	box, err := seal.New([][]byte{bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	w.subs = subscriptions.New(subscriptions.Deps{DB: w.db, IDs: w.ids, Now: w.clock.Now, Box: box, CheckURL: httpsOnly})
	w.keys = auth.NewKeys(w.db, w.ids, w.clock.Now)
	if err := w.keys.EnsureBootstrap(t.Context(), adminKey); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.keys.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	w.intake = intake.New(intake.Deps{DB: w.db, IDs: w.ids, Now: w.clock.Now, MaxPayload: 1 << 20, SearchBudget: time.Minute})
	w.desk = dispatcher.NewDesk(dispatcher.DeskDeps{DB: w.db, IDs: w.ids, Now: w.clock.Now, Store: w.subs, SearchBudget: time.Minute, Wake: func(int16) {}})
	w.jobs = jobs.New(jobs.Deps{
		DB: w.db, IDs: w.ids, Now: w.clock.Now, Desk: w.desk, Intake: w.intake, Log: zerolog.New(zerolog.NewTestWriter(t)),
	})
	w.schedules = schedules.New(schedules.Deps{
		DB: w.db, IDs: w.ids, Now: w.clock.Now, Intake: w.intake, Log: zerolog.New(zerolog.NewTestWriter(t)),
	})
	w.sessions = auth.NewSessions(w.db, w.ids, w.keys, w.clock.Now, auth.SessionOptions{})
	deps := console.Deps{
		Subscriptions: w.subs, Intake: w.intake, Deliveries: w.desk, Alerts: alert.NewDesk(w.db, w.ids.Next, w.clock.Now),
		Keys: w.keys, Door: auth.NewDoor(w.keys, auth.DoorOptions{Burst: 1 << 30}), Audit: audit.NewLog(w.db),
		Sessions: w.sessions, Jobs: w.jobs, Schedules: w.schedules, Stats: stats.NewReader(w.db, w.clock.Now),
		Processes: func(context.Context) (watch.Fleet, error) { return w.fleet, nil },
		Wake:      func(int16) {}, Now: w.clock.Now, Logger: zerolog.New(zerolog.NewTestWriter(t)),
		PortalURL: func(token string) string { return "https://hooks.example.com/portal/enter?token=" + token },
		Schedule:  dispatcher.DefaultSchedule, UserAgent: "Postrider/test", Version: "test",
	}
	w.http = httptest.NewUnstartedServer(nil)
	for _, c := range change {
		c(&deps, "https://"+w.http.Listener.Addr().String())
	}
	w.http.Config.Handler = console.New(deps)
	w.http.StartTLS()
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

// browser is somebody with a browser: it keeps cookies and follows redirects.
type browser struct {
	t    *testing.T
	base string
	http *http.Client
}

// visitor is somebody who is not signed in.
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

// as gives somebody signed in with this role.
func (w *world) as(role auth.Role) *browser {
	w.t.Helper()
	key := adminKey
	if role != auth.RoleAdmin {
		_, text, err := w.keys.Create(w.t.Context(), auth.NewKey{Name: string(role), Scopes: role.Scopes()})
		if err != nil {
			w.t.Fatal(err)
		}
		key = text
	}
	b := w.visitor()
	if got := b.post("/console/signin", "key", key); got.status != http.StatusOK || got.path != "/console/" {
		w.t.Fatalf("signing in as %s ends at %s with %d: %s", role, got.path, got.status, got.body)
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

// link gives where the link with this text, which begins the link's, leads; "" if there is none.
func (p page) link(text string) string {
	before, _, found := strings.Cut(p.body, ">"+text)
	_, href, has := strings.Cut(before[strings.LastIndex(before, "<a ")+1:], `href="`)
	href, _, _ = strings.Cut(href, `"`)
	if !found || !has {
		return ""
	}
	return html.UnescapeString(href)
}

// version is that of the thing of which the page has a form; "" if it has none.
func (p page) version() string {
	_, value, _ := strings.Cut(p.body, `type="hidden" name="version" value="`)
	value, _, _ = strings.Cut(value, `"`)
	return html.UnescapeString(value)
}

// next gives where a list goes on; "" if it does not.
func (p page) next() string { return p.link("Older") }

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

// tenant makes one, with an endpoint that wants everything.
func (w *world) tenant(name string) (subscriptions.Tenant, subscriptions.Endpoint) {
	w.t.Helper()
	tenant, err := w.subs.CreateTenant(w.t.Context(), subscriptions.NewTenant{Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	e, _, err := w.subs.CreateEndpoint(w.t.Context(), tenant, subscriptions.NewEndpoint{URL: "https://hooks.example/in"})
	if err != nil {
		w.t.Fatal(err)
	}
	return tenant, e
}

// event accepts one of the type order.paid and gives its first delivery.
func (w *world) event(tenant subscriptions.Tenant, payload string) (evt, dlv id.ID) {
	w.t.Helper()
	receipts, _, err := w.intake.Accept(w.t.Context(), tenant.ID, "", []intake.Event{{Type: "order.paid", Payload: []byte(payload)}})
	if err != nil {
		w.t.Fatal(err)
	}
	found, err := w.desk.List(w.t.Context(), dispatcher.Filter{Event: &receipts[0].ID}, 1, id.ID{})
	if err != nil || len(found) != 1 {
		w.t.Fatalf("the event has %d deliveries, %v", len(found), err)
	}
	return receipts[0].ID, found[0].ID
}

// audited wants an entry of this act upon a thing, by somebody of this name, in the audit log.
func (w *world) audited(action audit.Action, kind id.Kind, thing id.ID, by string) {
	w.t.Helper()
	found, err := audit.NewLog(w.db).List(w.t.Context(), audit.Filter{Action: action, Object: &audit.Thing{Kind: kind, ID: thing}}, 10, id.ID{})
	if err != nil {
		w.t.Fatal(err)
	}
	if len(found) != 1 || found[0].Actor.Name != by || found[0].Actor.Kind != audit.ByKey {
		w.t.Errorf("the entries of %s upon %s: %+v", action, kind.Format(thing), found)
	}
}
