package subscriptions_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a store on a database of its own, with a clock that only the test moves.
type world struct {
	*subscriptions.Store
	t     testing.TB
	pool  *pgxpool.Pool
	clock *clock
	ids   *id.Generator
	told  []audit.Entry // of endpoints that a booking closed
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	return c.at
}

var (
	sealKey      = bytes.Repeat([]byte{1}, seal.KeySize)
	otherSealKey = bytes.Repeat([]byte{2}, seal.KeySize)
)

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, pool: pgtest.Pool(t), clock: &clock{at: time.Date(2026, 11, 30, 9, 0, 0, 123456000, time.UTC)}}
	w.ids = id.NewGenerator(1, w.clock.now)
	w.Store = w.under(sealKey)
	return w
}

// under gives a store over the same database that seals and opens with other keys.
func (w *world) under(keys ...[]byte) *subscriptions.Store {
	w.t.Helper()
	return w.store(nil, keys...)
}

// hearing gives a store whose changes are told to changed.
func (w *world) hearing(changed func(id.ID)) *subscriptions.Store {
	w.t.Helper()
	return w.store(changed, sealKey)
}

func (w *world) store(changed func(id.ID), keys ...[]byte) *subscriptions.Store {
	w.t.Helper()
	box, err := seal.New(keys)
	if err != nil {
		w.t.Fatal(err)
	}
	return subscriptions.New(subscriptions.Deps{
		DB: w.pool, IDs: w.ids, Now: w.clock.now, Box: box,
		CheckURL: checkURL, MaxTimeout: 30 * time.Second, Changed: changed,
	})
}

// checkURL stands for what the address check makes of a URL's text.
func checkURL(url string) error {
	if !strings.HasPrefix(url, "https://") {
		return fault.New(fault.Blocked, "only https is allowed")
	}
	return nil
}

func (w *world) tenant() subscriptions.Tenant {
	w.t.Helper()
	w.clock.advance(time.Millisecond)
	return must(w.CreateTenant(w.t.Context(), subscriptions.NewTenant{Name: "Acme"}))(w.t)
}

// tenantIn makes a tenant in a bucket.
func (w *world) tenantIn(shard int16) subscriptions.Tenant {
	w.t.Helper()
	n := int64(1)
	for id.Bucket(n) != shard {
		n++
	}
	w.exec(`INSERT INTO tenants (shard, id, name, created_at, updated_at) VALUES ($1, $2, 'Neighbour', $3, $3)`, shard, n, w.clock.now())
	return must(w.Tenant(w.t.Context(), id.Tenant.Format(id.ID{Shard: shard, N: n})))(w.t)
}

// endpoint makes an endpoint with the defaults, but for what change does.
func (w *world) endpoint(tenant subscriptions.Tenant, change func(*subscriptions.NewEndpoint)) (subscriptions.Endpoint, signer.Secret) {
	w.t.Helper()
	w.clock.advance(time.Millisecond)
	n := subscriptions.NewEndpoint{URL: "https://example.com/hook"}
	if change != nil {
		change(&n)
	}
	e, secret, err := w.CreateEndpoint(w.t.Context(), tenant, n)
	if err != nil {
		w.t.Fatal(err)
	}
	return e, secret
}

func ref(e subscriptions.Endpoint) string { return id.Endpoint.Format(e.ID) }

// count gives how many rows a statement's result has.
func (w *world) count(query string, args ...any) int {
	w.t.Helper()
	var n int
	if err := w.pool.QueryRow(w.t.Context(), `SELECT count(*) FROM (`+query+`) x`, args...).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.pool.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

// waitForLock returns when a statement in the test's database waits for a lock. done is where that act reports its end,
// which may not come first.
func (w *world) waitForLock(done <-chan error) {
	w.t.Helper()
	for w.count(`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 0 {
		select {
		case err := <-done:
			w.t.Fatalf("it did not wait, and ended with %v", err)
		default:
		}
	}
}

// must unwraps what cannot fail in this test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// wantCode fails unless err is a fault with this code.
func wantCode(t testing.TB, what string, err error, code fault.Code) {
	t.Helper()
	if got := fault.CodeOf(err); got != code {
		t.Errorf("%s: %q (%v), want %q", what, got, err, code)
	}
}

// pointers gives the places that an Invalid fault names.
func pointers(t testing.TB, err error) []string {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.Invalid {
		t.Fatalf("not an invalid fault: %v", err)
	}
	out := make([]string, 0, len(f.Fields))
	for _, field := range f.Fields {
		if strings.TrimSpace(field.Detail) == "" {
			t.Errorf("%s is at fault without a word", field.Pointer)
		}
		out = append(out, field.Pointer)
	}
	return out
}

func put[T any](v T) subscriptions.Optional[T] {
	return subscriptions.Optional[T]{Given: true, Value: &v}
}
func null[T any]() subscriptions.Optional[T] { return subscriptions.Optional[T]{Given: true} }
func ptr[T any](v T) *T                      { return &v }

// whsec gives a valid secret of the scheme standard, another one for each n.
func whsec(n int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%032d", n))
}

// texts gives secrets as their owner sees them.
func texts[S ~[]E, E any](secrets S, reveal func(E) string) []string {
	out := make([]string, 0, len(secrets))
	for _, s := range secrets {
		out = append(out, reveal(s))
	}
	return out
}

// signing gives the texts of what the secret call shows, and those of what an attempt would sign with: they have to be
// the same.
func (w *world) signing(tenant subscriptions.Tenant, e subscriptions.Endpoint) []string {
	w.t.Helper()
	infos := must(w.Secret(w.t.Context(), tenant, ref(e)))(w.t)
	shown := texts(infos, func(i subscriptions.SecretInfo) string { return i.Secret.Reveal() })
	target := w.target(e)
	signs := texts(target.Secrets, func(s subscriptions.TimedSecret) string { return s.Reveal() })
	if fmt.Sprint(shown) != fmt.Sprint(signs) || target.Err != nil {
		w.t.Errorf("shown are %v, but %v sign (%v)", shown, signs, target.Err)
	}
	return signs
}

// candidates asks for tenants, and sees to it that each is told of once.
func (w *world) candidates(tenants ...id.ID) map[id.ID][]subscriptions.Candidate {
	w.t.Helper()
	out := map[id.ID][]subscriptions.Candidate{}
	b := &pgx.Batch{}
	subscriptions.QueueCandidates(b, tenants, func(tenant id.ID, c []subscriptions.Candidate) {
		if _, twice := out[tenant]; twice {
			w.t.Errorf("tenant %v is told of twice", tenant)
		}
		out[tenant] = c
	})
	if err := w.pool.SendBatch(w.t.Context(), b).Close(); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) target(e subscriptions.Endpoint) subscriptions.Target {
	w.t.Helper()
	targets := must(w.Targets(w.t.Context(), []id.ID{e.ID}))(w.t)
	target, ok := targets[e.ID]
	if !ok || len(targets) != 1 {
		w.t.Fatalf("no target, or others: %v", targets)
	}
	return target
}
