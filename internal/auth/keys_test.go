package auth_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pgtest"
)

// bench is a Keys with clocks that stand still until they are moved.
type bench struct {
	*auth.Keys
	db   *pgxpool.Pool
	ids  *id.Generator
	time atomic.Pointer[time.Time]
}

// nodes makes each bench a process of its own.
var nodes atomic.Int64

func newBench(t *testing.T) *bench {
	t.Helper()
	return onPool(t, pgtest.Pool(t))
}

func onPool(t *testing.T, db *pgxpool.Pool) *bench {
	t.Helper()
	b := &bench{db: db}
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	b.time.Store(&start)
	b.ids = id.NewGenerator(int(nodes.Add(1)%id.MaxNode), b.now)
	b.Keys = auth.NewKeys(db, b.ids, b.now)
	b.SetTick(b.now)
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) now() time.Time { return *b.time.Load() }

func (b *bench) pass(d time.Duration) {
	later := b.now().Add(d)
	b.time.Store(&later)
}

func (b *bench) tenant(t *testing.T) id.ID {
	t.Helper()
	ten := b.ids.NewTenant()
	_, err := b.db.Exec(t.Context(), `INSERT INTO tenants (shard, id, name, created_at, updated_at) VALUES ($1, $2, 'Acme', $3, $3)`,
		ten.Shard, ten.N, b.now())
	if err != nil {
		t.Fatal(err)
	}
	return ten
}

func (b *bench) create(t *testing.T, n auth.NewKey) (auth.Key, string) {
	t.Helper()
	key, text, err := b.Create(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return key, text
}

func wantCode(t *testing.T, err error, want fault.Code) {
	t.Helper()
	if fault.CodeOf(err) != want {
		t.Errorf("error %v (%s), want %s", err, fault.CodeOf(err), want)
	}
}

func TestAKeyFromItsMakingToItsEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ten := b.tenant(t)
	key, text := b.create(t, auth.NewKey{
		Name: "shop", Scopes: []auth.Scope{auth.EventsWrite, auth.EventsWrite, auth.Admin}, Tenant: &ten,
	})
	if !regexp.MustCompile(`^prk_[A-Za-z0-9_-]{43}$`).MatchString(text) {
		t.Errorf("text %q", text)
	}
	if key.Hint != text[:8]+"…" {
		t.Errorf("hint %q of %q", key.Hint, text)
	}
	p, err := b.Authenticate(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	want := auth.Principal{As: audit.ByKey, Key: key.ID, Name: "shop", Scopes: []auth.Scope{auth.EventsWrite, auth.Admin}, Tenant: &ten}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("principal %+v, want %+v", p, want)
	}

	b.AwaitUses()
	used := b.now()
	key.LastUsedAt = &used
	got, err := b.Get(t.Context(), key.ID)
	if err != nil || !equal(got, key) {
		t.Errorf("Get gives %+v, %v; want %+v", got, err, key)
	}

	if err := b.Revoke(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	_, err = b.Authenticate(t.Context(), text)
	wantCode(t, err, fault.Unauthenticated)
	_, err = b.Get(t.Context(), key.ID)
	wantCode(t, err, fault.NotFound)
	wantCode(t, b.Revoke(t.Context(), key.ID), fault.NotFound)
}

// equal compares without regard to the time zone that a time comes in.
func equal(a, b auth.Key) bool {
	same := a.CreatedAt.Equal(b.CreatedAt) && (a.LastUsedAt == nil) == (b.LastUsedAt == nil) &&
		(a.LastUsedAt == nil || a.LastUsedAt.Equal(*b.LastUsedAt))
	a.CreatedAt, b.CreatedAt, a.LastUsedAt, b.LastUsedAt = time.Time{}, time.Time{}, nil, nil
	return same && reflect.DeepEqual(a, b)
}

func TestListPagesNewestFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var made []id.ID
	for range 5 {
		key, _ := b.create(t, auth.NewKey{Name: "k", Scopes: []auth.Scope{auth.EventsWrite}})
		made = append([]id.ID{key.ID}, made...)
	}
	if err := b.Revoke(t.Context(), made[1]); err != nil {
		t.Fatal(err)
	}
	want := []id.ID{made[0], made[2], made[3], made[4]}
	var got []id.ID
	for before := (id.ID{}); ; {
		page, err := b.List(t.Context(), 3, before)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, key := range page {
			got = append(got, key.ID)
		}
		before = page[len(page)-1].ID
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
}

func TestCreateNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ok := []auth.Scope{auth.EventsWrite}
	for name, test := range map[string]struct {
		key  auth.NewKey
		want []string
	}{
		"empty":                    {auth.NewKey{}, []string{"/name", "/scopes"}},
		"a blank name":             {auth.NewKey{Name: " ", Scopes: ok}, []string{"/name"}},
		"a long name":              {auth.NewKey{Name: strings.Repeat("n", 129), Scopes: ok}, []string{"/name"}},
		"a NUL in the name":        {auth.NewKey{Name: "a\x00", Scopes: ok}, []string{"/name"}},
		"a name that is no UTF-8":  {auth.NewKey{Name: "a\xff", Scopes: ok}, []string{"/name"}},
		"the configured one's":     {auth.NewKey{Name: "bootstrap", Scopes: ok}, []string{"/name"}},
		"scopes that are not here": {auth.NewKey{Name: "n", Scopes: []auth.Scope{"x", auth.Admin, "*"}}, []string{"/scopes/0", "/scopes/2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := b.Create(t.Context(), test.key)
			wantCode(t, err, fault.Invalid)
			var f *fault.Error
			if !errors.As(err, &f) {
				t.Fatal(err)
			}
			var got []string
			for _, field := range f.Fields {
				got = append(got, field.Pointer)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("pointers %v, want %v", got, test.want)
			}
		})
	}
}

func TestKeysOfATenant(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ten, nobody := b.tenant(t), b.ids.NewTenant()
	_, _, err := b.Create(t.Context(), auth.NewKey{Name: "n", Scopes: auth.Scopes(), Tenant: &nobody})
	wantCode(t, err, fault.NotFound)

	_, text := b.create(t, auth.NewKey{Name: "n", Scopes: auth.Scopes(), Tenant: &ten})
	if _, err := b.db.Exec(t.Context(), `UPDATE tenants SET deleted_at = now()`); err != nil {
		t.Fatal(err)
	}
	_, err = b.Authenticate(t.Context(), text)
	wantCode(t, err, fault.Unauthenticated)
	_, _, err = b.Create(t.Context(), auth.NewKey{Name: "n", Scopes: auth.Scopes(), Tenant: &ten})
	wantCode(t, err, fault.NotFound)
}

func TestOfTenantGivesItsOwnKeysNewestFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ten, other := b.tenant(t), b.tenant(t)
	var want []id.ID
	for _, tenant := range []*id.ID{&ten, &other, nil, &ten, &ten} {
		k, _ := b.create(t, auth.NewKey{Name: "n", Scopes: auth.Scopes(), Tenant: tenant})
		if tenant == &ten {
			want = append([]id.ID{k.ID}, want...)
		}
	}
	if err := b.Revoke(t.Context(), want[2]); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int][]id.ID{10: want[:2], 1: want[:1]} {
		keys, err := b.OfTenant(t.Context(), ten, limit)
		var got []id.ID
		for _, k := range keys {
			got = append(got, k.ID)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d of them: %v, %v; want %v", limit, got, err, want)
		}
	}
}

func TestAnIDThatNamesABucketIsNoKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key, _ := b.create(t, auth.NewKey{Name: "n", Scopes: auth.Scopes()})
	key.ID.Shard = 5
	_, err := b.Get(t.Context(), key.ID)
	wantCode(t, err, fault.NotFound)
	wantCode(t, b.Revoke(t.Context(), key.ID), fault.NotFound)
}

// The texts of keys are canaries here: the database must hold neither them nor a spelling of them, and errors neither.
func TestTextsStayWithTheirOwners(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, made := b.create(t, auth.NewKey{Name: "n", Scopes: auth.Scopes()})
	const configured = "CANARY-configured-0123456789"
	if err := b.EnsureBootstrap(t.Context(), configured); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{made, configured} {
		if _, err := b.Authenticate(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	b.AwaitUses()
	rows, err := b.db.Query(t.Context(), `SELECT k::text FROM api_keys k`)
	if err != nil {
		t.Fatal(err)
	}
	dump, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(dump) != 2 {
		t.Fatalf("%d rows, %v", len(dump), err)
	}
	stored := strings.ToLower(strings.Join(dump, "\n"))
	closed := closedPool(t)
	for _, text := range []string{made, configured} {
		for _, spelling := range []string{
			text[9:], text[9:17], hex.EncodeToString([]byte(text)), base64.StdEncoding.EncodeToString([]byte(text)),
		} {
			if strings.Contains(stored, strings.ToLower(spelling)) {
				t.Errorf("the database holds %q of %q", spelling, text)
			}
		}
		_, unknown := b.Authenticate(t.Context(), text+"x")
		_, away := onPool(t, closed).Authenticate(t.Context(), text)
		for _, err := range []error{unknown, away, b.EnsureBootstrap(t.Context(), text+" "), onPool(t, closed).EnsureBootstrap(t.Context(), text)} {
			if err == nil || strings.Contains(err.Error(), text[9:17]) {
				t.Errorf("error %v, which should be one and hold no key", err)
			}
		}
	}
	if strings.Contains(stored, "can") {
		t.Error("the hint of a configured key shows some of it")
	}
}

func closedPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	pool.Close()
	return pool
}
