package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/schedules"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/subscriptions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	adminKey   = "prk_test_the_admin_of_all_tenants_0001"
	maxPayload = 64 << 10
)

// world is an API on a database of its own, with what stands behind it.
type world struct {
	t        *testing.T
	db       *pgxpool.Pool
	ids      *id.Generator
	clock    *pg.Clock
	subs     *subscriptions.Store
	keys     *auth.Keys
	sessions *auth.Sessions
	jobs     *jobs.Jobs
	log      *logBook
	http     *httptest.Server
	stopping chan struct{} // closed, whoever waits is answered
	acme     string        // the id of the tenant acme, where a test has set it
}

// newWorld makes one. Its door holds up nobody, unless more has it otherwise: tests of refusals come from one address.
func newWorld(t *testing.T, more ...func(*api.Deps)) *world {
	t.Helper()
	w := &world{t: t, db: pgtest.Pool(t), clock: &pg.Clock{}, log: &logBook{}, stopping: make(chan struct{})}
	w.ids = id.NewGenerator(1, w.clock.Now)
	box, err := seal.New([][]byte{bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	w.subs = subscriptions.New(subscriptions.Deps{
		DB: w.db, IDs: w.ids, Now: w.clock.Now, Box: box, CheckURL: httpsOnly,
	})
	w.keys = auth.NewKeys(w.db, w.ids, w.clock.Now)
	w.sessions = auth.NewSessions(w.db, w.ids, w.keys, w.clock.Now, auth.SessionOptions{})
	if err := w.keys.EnsureBootstrap(t.Context(), adminKey); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.keys.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	wake := func(int16) {}
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "postrider_in_flight", Help: "For the test."}))
	accepts := intake.New(intake.Deps{DB: w.db, IDs: w.ids, Now: w.clock.Now, MaxPayload: maxPayload, Types: w.subs.Catalogue(), SearchBudget: time.Minute})
	desk := dispatcher.NewDesk(dispatcher.DeskDeps{DB: w.db, IDs: w.ids, Now: w.clock.Now, SearchBudget: time.Minute, Wake: wake})
	w.jobs = jobs.New(jobs.Deps{DB: w.db, IDs: w.ids, Now: w.clock.Now, Desk: desk, Intake: accepts, Wake: wake, Log: zerolog.New(w.log)})
	deps := api.Deps{
		Stopping: w.stopping, Subscriptions: w.subs, Intake: accepts, Deliveries: desk, Jobs: w.jobs,
		Schedules: schedules.New(schedules.Deps{DB: w.db, IDs: w.ids, Now: w.clock.Now, Intake: accepts, Log: zerolog.New(w.log)}),
		Alerts:    alert.NewDesk(w.db, w.ids.Next, w.clock.Now),
		Sessions:  w.sessions, PublicURL: "https://hooks.example.com",
		Stats: stats.NewReader(w.db, w.clock.Now),
		Pull: dispatcher.NewPull(dispatcher.Config{Lease: time.Minute, AlertAfterFailures: 5}, dispatcher.PullDeps{
			Deps: dispatcher.Deps{
				DB: w.db, IDs: w.ids, Now: w.clock.Now, Store: w.subs, Metrics: dispatcher.Unmeasured(), Log: zerolog.New(w.log), WallTime: time.Now,
			},
			Marks: dispatcher.Marks{Marker: box}, Stopping: w.stopping,
		}),
		Keys: w.keys, Audit: audit.NewLog(w.db), Door: auth.NewDoor(w.keys, auth.DoorOptions{Burst: 1 << 30}), Ping: w.db.Ping, Metrics: registry, Logger: zerolog.New(w.log),
		AddressClass: egress.Class, MaxPayload: maxPayload, Version: "test",
	}
	for _, change := range more {
		change(&deps)
	}
	w.http = httptest.NewServer(api.New(deps))
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

// logBook keeps what is logged.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// request is one call. The zero value of a field is what is most usual.
type request struct {
	method, path string
	key          string // "": the admin's; "none": no Authorization at all
	body         string
	contentType  string // "": application/json if there is a body; "none": no such header
	header       map[string]string
	chunked      bool // the body's length is not announced
}

// response is its answer, read.
type response struct {
	status int
	header http.Header
	body   []byte
}

// do makes the call, and holds the answer against the API's own description.
func (w *world) do(r request) response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), r.method, w.http.URL+r.path, strings.NewReader(r.body))
	if err != nil {
		w.t.Fatal(err)
	}
	switch r.key {
	case "none":
	case "":
		req.Header.Set("Authorization", "Bearer "+adminKey)
	default:
		req.Header.Set("Authorization", "Bearer "+r.key)
	}
	switch {
	case r.contentType == "" && r.body != "":
		req.Header.Set("Content-Type", "application/json")
	case r.contentType != "" && r.contentType != "none":
		req.Header.Set("Content-Type", r.contentType)
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	if r.chunked {
		req.ContentLength = -1
	}
	res, err := w.http.Client().Do(req)
	if err != nil {
		w.t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.checkAgainstDescription(req, res, body)
	return response{status: res.StatusCode, header: res.Header, body: body}
}

// must makes a call that has to be answered with this status, and reads the answer into a tree.
func (w *world) must(status int, r request) tree {
	w.t.Helper()
	res := w.do(r)
	if res.status != status {
		w.t.Fatalf("%s %s: %d, not %d: %s", r.method, r.path, res.status, status, res.body)
	}
	return res.tree(w.t)
}

// tree is a JSON answer that tests look into.
type tree map[string]any

func (r response) tree(t *testing.T) tree {
	t.Helper()
	out := tree{}
	if !strings.Contains(r.header.Get("Content-Type"), "json") {
		return out
	}
	if err := json.Unmarshal(r.body, &out); err != nil {
		t.Fatalf("the answer is no JSON object: %v: %s", err, r.body)
	}
	return out
}

// text gives the string under a name, or "".
func (tr tree) text(name string) string {
	s, _ := tr[name].(string)
	return s
}

// list gives the objects under a name.
func (tr tree) list(name string) []tree {
	items, _ := tr[name].([]any)
	out := make([]tree, 0, len(items))
	for _, item := range items {
		if object, ok := item.(map[string]any); ok {
			out = append(out, object)
		}
	}
	return out
}

// problem is the body of an error.
type problem struct {
	Type, Title, Detail string
	Status              int
	Errors              []struct{ Pointer, Detail string }
}

// refused makes a call that has to be refused with this status, and gives the problem.
func (w *world) refused(status int, r request) problem {
	w.t.Helper()
	res := w.do(r)
	var p problem
	if err := json.Unmarshal(res.body, &p); err != nil {
		w.t.Fatalf("%s %s: %d: no problem: %s", r.method, r.path, res.status, res.body)
	}
	if res.status != status || p.Status != status || res.header.Get("Content-Type") != "application/problem+json" ||
		p.Type == "" || p.Title == "" || p.Detail == "" {
		w.t.Errorf("%s %s %.200s: %d %s, not %d: %s", r.method, r.path, r.body, res.status,
			res.header.Get("Content-Type"), status, res.body)
	}
	return p
}

// pointsTo reports whether one of the problem's places is this one.
func (p problem) pointsTo(pointer string) bool {
	for _, e := range p.Errors {
		if e.Pointer == pointer {
			return true
		}
	}
	return false
}

// tenant makes a tenant and gives its id.
func (w *world) tenant(name string) string {
	w.t.Helper()
	body := `{"name":"` + name + `","uid":"` + name + `"}`
	return w.must(http.StatusCreated, request{method: "POST", path: "/v1/tenants", body: body}).text("id")
}

// endpoint makes an endpoint with further members of its body and gives its id.
func (w *world) endpoint(tenant, more string) string {
	w.t.Helper()
	return w.must(http.StatusCreated, request{
		method: "POST", path: "/v1/tenants/" + tenant + "/endpoints", body: `{"url":"https://example.com/hook"` + more + `}`,
	}).text("id")
}

// event enqueues an event and gives its id.
func (w *world) event(tenant, eventType string) string {
	w.t.Helper()
	return w.must(http.StatusAccepted, request{
		method: "POST", path: "/v1/tenants/" + tenant + "/events", body: `{"type":"` + eventType + `","payload":{}}`,
	}).text("id")
}

// apiKey makes a key and gives its text. tenant may be "".
func (w *world) apiKey(tenant string, scopes ...string) string {
	w.t.Helper()
	body := map[string]any{"name": "test", "scopes": scopes}
	if tenant != "" {
		body["tenant"] = tenant
	}
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.must(http.StatusCreated, request{method: "POST", path: "/v1/api-keys", body: string(text)}).text("key")
}
