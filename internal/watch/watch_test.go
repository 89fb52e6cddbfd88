package watch

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/clienttls"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/pulse"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a database with what watches over it, and a clock that stands still until the test moves it.
type house struct {
	*testing.T
	db    *pgxpool.Pool
	ids   *id.Generator
	store *subscriptions.Store
	desk  *dispatcher.Desk
	seen  *figures

	mu sync.Mutex
	at time.Time
}

// figures are the metrics as they were told last.
type figures struct {
	mu        sync.Mutex
	processes map[string]int
	took      []time.Duration
	succeeded time.Time
}

func (f *figures) SetProcesses(role string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.processes[role] = n
}

func (f *figures) CanaryCame(took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.took = append(f.took, took)
}

func (f *figures) SetCanarySucceeded(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.succeeded = at
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{T: t, db: pgtest.Pool(t), at: noon, seen: &figures{processes: map[string]int{}}}
	h.ids = id.NewGenerator(1, h.now)
	box, err := seal.New([][]byte{bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	h.store = subscriptions.New(subscriptions.Deps{
		DB: h.db, IDs: h.ids, Now: h.now, Box: box, CheckURL: func(string) error { return nil },
	})
	h.desk = dispatcher.NewDesk(dispatcher.DeskDeps{DB: h.db, IDs: h.ids, Now: h.now, Wake: func(int16) {}})
	return h
}

func (h *house) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

func (h *house) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = h.at.Add(d)
}

// Now and Off make the house a clock.
func (h *house) Now() time.Time   { return h.now() }
func (*house) Off() time.Duration { return 0 }

// watch makes a process that watches, with these loops.
func (h *house) watch(canary time.Duration, loops map[string]func() pulse.Still) *Watch {
	h.Helper()
	node, err := pg.TakeNode(h.Context(), h.db, h)
	if err != nil {
		h.Fatal(err)
	}
	self := pg.About{Host: "a", PID: 1, Roles: []string{API}, StartedAt: h.now()}
	for role := range loops {
		self.Roles = append(self.Roles, role)
	}
	return New(Deps{
		DB: h.db, Now: h.now, Log: zerolog.Nop(), Node: node, Alerts: alert.NewDesk(h.db, h.ids.Next, h.now), Desk: h.desk, Metrics: h.seen,
		Self: self, Loops: loops,
		Bounds: Bounds{MaxDueAge: 2 * time.Minute, MinDispatchers: 1, DeadAfter: 30 * time.Second, CanaryEvery: canary},
	})
}

func (h *house) say(w *Watch) {
	h.Helper()
	if err := w.sayOnce(h.Context()); err != nil {
		h.Fatal(err)
	}
}

func (h *house) open() (kinds []string) {
	h.Helper()
	found, err := alert.NewDesk(h.db, h.ids.Next, h.now).List(h.Context(), alert.Filter{States: []alert.State{alert.Open}}, 10, id.ID{})
	if err != nil {
		h.Fatal(err)
	}
	for _, a := range found {
		kinds = append(kinds, a.Kind.String())
	}
	slices.Sort(kinds)
	return kinds
}

func at(still *pulse.Still) func() pulse.Still { return func() pulse.Still { return *still } }

// A dispatcher that hangs, then one that dies, then a new one: three processes watch, and there is one alert at a time.
func TestADeadDispatcherIsFoundByThoseWhoLive(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var still, none pulse.Still
	sends := h.watch(0, map[string]func() pulse.Still{Dispatcher: at(&still)})
	house := h.watch(0, map[string]func() pulse.Still{Scheduler: at(&none)})
	takes := h.watch(0, nil)
	alive := []*Watch{sends, house, takes}
	looks := func(n int) {
		t.Helper()
		for range n {
			var all sync.WaitGroup
			for _, w := range alive {
				h.say(w)
			}
			for _, w := range alive {
				all.Go(func() {
					if err := w.Look(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			h.pass(sends.every)
		}
	}
	wants := func(when string, want ...string) {
		t.Helper()
		if got := h.open(); !slices.Equal(got, want) {
			t.Errorf("%s: %v are open", when, got)
		}
	}
	looks(10)
	wants("all are well")
	if h.seen.processes[Dispatcher] != 1 || h.seen.processes[API] != 3 || h.seen.processes[Scheduler] != 1 {
		t.Errorf("counted %v", h.seen.processes)
	}
	still.Worked = 31 * time.Second
	looks(1)
	wants("once is not enough")
	looks(1)
	wants("the dispatcher hangs", "service.no_dispatcher")
	if got := sends.Standing(); got != "the dispatcher" {
		t.Errorf("%q does not get on", got)
	}
	still.Worked = 0
	looks(6)
	wants("it goes on")
	alive = alive[1:]
	looks(5)
	wants("it has just died")
	looks(2)
	wants("it is dead", "service.no_dispatcher")
	alive = append(alive, h.watch(0, map[string]func() pulse.Still{Dispatcher: at(&none)}))
	looks(6)
	wants("there is another")
	var n int
	if err := h.db.QueryRow(t.Context(), `SELECT count(*) FROM alert_notices`).Scan(&n); err != nil || n != 4 {
		t.Errorf("%d notices, %v", n, err)
	}
}

func TestHangingIsForItsOwnFault(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var still pulse.Still
	w := h.watch(0, map[string]func() pulse.Still{Dispatcher: at(&still)})
	still = pulse.Still{Turned: 6 * time.Minute, Worked: 6 * time.Minute}
	if got := w.Hanging(); got != "" {
		t.Errorf("%s hangs, and the database has not answered", got)
	}
	h.say(w)
	if got := w.Hanging(); got != "the dispatcher" {
		t.Errorf("%q hangs", got)
	}
	still.Turned = time.Second // it goes round, without success
	if got := w.Hanging(); got != "" || w.Standing() != "the dispatcher" {
		t.Errorf("%q hangs, %q does not get on", got, w.Standing())
	}
}

// road is the canary's way: a real intake and a real dispatcher, which posts to a real server.
type road struct {
	*house
	w    *Watch
	send *Sender
	in   *intake.Intake
	stop func()
}

type client struct{ *http.Client }

func (c client) DoAs(r *http.Request, _ *clienttls.Identity) (*http.Response, error) { return c.Do(r) }

// newRoad makes one. between stands before the receiver.
func newRoad(t *testing.T, between func(http.Handler) http.Handler) *road {
	t.Helper()
	clock := &pg.Clock{}
	h := newHouse(t)
	if err := clock.Sync(t.Context(), h.db); err != nil {
		t.Fatal(err)
	}
	h.at = clock.Now()
	r := &road{house: h}
	r.w = h.watch(time.Second, nil)
	server := httptest.NewServer(between(r.w.Receiver(h.store)))
	var d *dispatcher.Dispatcher
	r.in = intake.New(intake.Deps{
		DB: h.db, IDs: h.ids, Now: h.now, Types: h.store.Catalogue(),
		Wake: func(made []dispatcher.NewDelivery) { d.Accepted(made) },
	})
	d = dispatcher.New(dispatcher.Config{
		RetrySchedule: dispatcher.DefaultSchedule, Timeout: 5 * time.Second, Lease: time.Minute, MaxInFlight: 10, MaxInFlightPerEndpoint: 5,
		ResponseBodyLimit: 1024, AlertAfterFailures: 5, UserAgent: "Postrider/test", Grace: 5 * time.Second,
	}, dispatcher.Deps{
		DB: h.db, IDs: h.ids, Now: h.now, Doer: client{server.Client()}, Store: h.store, Desk: h.desk, Metrics: dispatcher.Unmeasured(), Log: zerolog.Nop(),
		WallTime: time.Now,
	})
	r.send = NewSender(r.w, r.in, h.store, server.URL)
	done := make(chan struct{})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { defer close(done); _ = d.Run(ctx) }()
	r.stop = sync.OnceFunc(func() { stop(); <-done })
	t.Cleanup(func() {
		r.stop()
		server.Close()
		if err := r.in.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return r
}

// turn sends a canary.
func (r *road) turn() (came bool) {
	r.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	came, err := r.send.RunOnce(r.Context(), tick.C)
	if err != nil {
		r.Fatal(err)
	}
	r.pass(time.Second)
	return came
}

func (r *road) where() Canary {
	r.Helper()
	row, err := r.w.readCanary(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	return row.canary()
}

func TestTheCanaryComesTheWholeWay(t *testing.T) {
	t.Parallel()
	r := newRoad(t, func(h http.Handler) http.Handler { return h })
	for range 2 {
		if !r.turn() {
			t.Fatalf("it did not come: %+v", r.where())
		}
	}
	if c := r.where(); c.Problem != "" || c.Succeeded.IsZero() || len(r.seen.took) != 2 {
		t.Errorf("%+v, %v", c, r.seen.took)
	}
	if _, mine, err := r.w.takeTurn(t.Context(), r.now()); !mine || err != nil {
		t.Fatal(mine, err)
	}
	if _, mine, err := r.w.takeTurn(t.Context(), r.now()); mine || err != nil { // another process
		t.Errorf("the same turn twice: %v, %v", mine, err)
	}
	tenant, err := r.store.Tenant(t.Context(), CanaryTenant)
	if err != nil {
		t.Fatal(err)
	}
	// Somebody switches its endpoint off, and leads it elsewhere.
	url, off := "https://elsewhere.example/", subscriptions.Disabled
	_, err = r.store.UpdateEndpoint(t.Context(), tenant, canaryEndpoint, "", subscriptions.EndpointPatch{
		URL: subscriptions.Optional[string]{Given: true, Value: &url}, Status: &off,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.pass(time.Second)
	if !r.turn() {
		t.Errorf("it is not mended: %+v", r.where())
	}
	none, sometimes := []string{"nothing.ever"}, "false"
	slow := subscriptions.RateLimit{Limit: 1, Per: 24 * time.Hour}
	scheme, secret := signer.GitHub, "It's a Secret to Everybody"
	envelope := subscriptions.FormatCloudEvents
	for name, p := range map[string]subscriptions.EndpointPatch{
		"other types":    {EventTypes: subscriptions.Optional[[]string]{Given: true, Value: &none}},
		"a filter":       {Filter: subscriptions.Optional[string]{Given: true, Value: &sometimes}},
		"a limit":        {RateLimit: subscriptions.Optional[subscriptions.RateLimit]{Given: true, Value: &slow}},
		"another scheme": {Scheme: subscriptions.Optional[signer.Scheme]{Given: true, Value: &scheme}, Secret: subscriptions.Optional[string]{Given: true, Value: &secret}},
		"another format": {Format: subscriptions.Optional[subscriptions.Format]{Given: true, Value: &envelope}},
	} {
		if _, err := r.store.UpdateEndpoint(t.Context(), tenant, canaryEndpoint, "", p); err != nil {
			t.Fatal(name, err)
		}
		r.pass(time.Second)
		r.turn()      // dispatchers may know the endpoint as it was for a moment
		for range 2 { // of a limit, the first one passes
			if !r.turn() {
				t.Errorf("%s: it is not mended: %+v", name, r.where())
			}
		}
	}
	// Somebody puts one in its place that nothing is posted to.
	if _, err := r.store.DeleteEndpoint(t.Context(), tenant, canaryEndpoint); err != nil {
		t.Fatal(err)
	}
	uid := canaryEndpoint
	if _, _, err := r.store.CreateEndpoint(t.Context(), tenant, subscriptions.NewEndpoint{UID: &uid, Kind: subscriptions.Pull}); err != nil {
		t.Fatal(err)
	}
	if !r.turn() {
		t.Errorf("its place is not its own again: %+v", r.where())
	}
	if _, _, err := r.store.DeleteTenant(t.Context(), CanaryTenant); err != nil {
		t.Fatal(err)
	}
	if !r.turn() {
		t.Errorf("it is not made again: %+v", r.where())
	}
}

func TestACanaryThatIsStuckSaysWhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		between func(http.Handler) http.Handler
		before  func(*road)
		says    string
	}{
		"refused": {
			between: func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) })
			},
			says: "sending it ended as retryable (502): no",
		},
		"changed on its way": {
			between: func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					r.Body = http.NoBody
					h.ServeHTTP(w, r)
				})
			},
			says: "sending it ended as rejected (400): the signature does not verify",
		},
		"somebody else answers": {
			between: func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
			},
			says: "not by its receiver",
		},
		"somebody else repeats what was asked for": {
			between: func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, r.URL.Path, http.StatusNotFound) })
			},
			says: "sending it ended as rejected (404): /canary/…",
		},
		"nobody sends": {
			between: func(h http.Handler) http.Handler { return h }, before: func(r *road) { r.stop() },
			says: "it was accepted and is not sent (its delivery is pending)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoad(t, c.between)
			if c.before != nil {
				c.before(r)
			}
			for range 2 { // what one has left behind does not hold up the next
				if r.turn() {
					t.Error("it came")
				}
				if got := r.where(); !strings.Contains(got.Problem, c.says) || !got.Succeeded.IsZero() {
					t.Errorf("stuck at: %+v", got)
				}
			}
			var waiting int
			if err := r.db.QueryRow(t.Context(), `SELECT count(*) FROM deliveries`).Scan(&waiting); err != nil || waiting != 0 {
				t.Errorf("%d are left, %v", waiting, err)
			}
		})
	}
}

// The receiver takes what the canary's endpoint signed, at its own token, and nothing else.
func TestTheReceiverTakesNothingElse(t *testing.T) {
	t.Parallel()
	r := newRoad(t, func(h http.Handler) http.Handler { return h })
	if !r.turn() {
		t.Fatalf("it did not come: %+v", r.where())
	}
	row, err := r.w.readCanary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	post := func(path, body string) int {
		out := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
		r.w.Receiver(r.store).ServeHTTP(out, req)
		return out.Code
	}
	own := CanaryPath + tokenOf(*row.URL)
	for name, c := range map[string]struct {
		path, body string
		want       int
	}{
		"another token": {CanaryPath + strings.Repeat("0", 32), `{"turn":2}`, http.StatusNotFound},
		"none":          {CanaryPath, `{"turn":2}`, http.StatusNotFound},
		"unsigned":      {own, `{"turn":2}`, http.StatusBadRequest},
		"too long":      {own, strings.Repeat("x", canaryBody+1), http.StatusBadRequest},
	} {
		if got := post(c.path, c.body); got != c.want {
			t.Errorf("%s: %d", name, got)
		}
	}
	for url, want := range map[string]bool{*row.URL: true, *row.URL + "0": false, *row.URL + "?x": false, strings.Replace(*row.URL, "http:", "https:", 1): false, "": false} {
		if got := r.w.IsCanary(t.Context(), url); got != want {
			t.Errorf("%s is the canary's: %v", url, got)
		}
	}
}

// Strangers may ask for any token at any time. While the database does not answer them, the canary goes on its way.
func TestStrangersDoNotHoldUpTheCanary(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.watch(time.Minute, nil)
	const url = "http://10.0.0.5:8080" + CanaryPath + "token"
	set := func(url string) {
		t.Helper()
		if _, err := h.db.Exec(t.Context(), `UPDATE canary SET url = $1`, url); err != nil {
			t.Fatal(err)
		}
	}
	stranger := func(ctx context.Context) {
		w.Receiver(h.store).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, CanaryPath+"x", http.NoBody))
	}
	stranger(t.Context())
	set(url)
	if !w.IsCanary(t.Context(), url) {
		t.Error("a stranger who asked a moment ago keeps the new URL from being known")
	}
	tx, err := h.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `LOCK TABLE canary`); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.canary.askedAt = time.Time{}
	w.mu.Unlock()
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() { defer close(left); stranger(ctx) }()
	for waits := false; !waits; {
		if err := tx.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'canary'::regclass AND NOT granted)`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	came := make(chan bool, 1)
	go func() { came <- w.IsCanary(t.Context(), url) }()
	select {
	case is := <-came:
		if !is {
			t.Error("it is not known any more")
		}
	case <-left:
		t.Error("it waited for a stranger")
	case <-time.After(time.Second):
		t.Error("it waits for a stranger")
	}
	leave()
	<-left
}
