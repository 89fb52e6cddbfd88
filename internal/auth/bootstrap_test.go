package auth_test

import (
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pgtest"
)

const first, second = "the-first-configured-key", "the-second-configured-key"

func (b *bench) ensure(t *testing.T, text string) {
	t.Helper()
	if err := b.EnsureBootstrap(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

func TestBootstrapOfManyProcessesAndRestarts(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	var starting sync.WaitGroup
	for range 8 {
		b := onPool(t, pool)
		starting.Go(func() {
			if err := b.EnsureBootstrap(t.Context(), first); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	b := onPool(t, pool)
	b.ensure(t, first)
	keys, err := b.List(t.Context(), 10, id.ID{})
	if err != nil || len(keys) != 1 || keys[0].Name != "bootstrap" || keys[0].Hint != "bootstrap.admin_key" {
		t.Errorf("keys %+v, %v", keys, err)
	}
	p, err := b.Authenticate(t.Context(), first)
	if err != nil || !p.Has(auth.Admin) || !p.SeesAll() {
		t.Errorf("principal %+v, %v", p, err)
	}
}

func TestAnotherBootstrapKeyTakesThePlaceOfTheFormer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, other := b.create(t, auth.NewKey{Name: "n", Scopes: auth.Scopes()})
	valid := func(text string, want bool) {
		t.Helper()
		b.pass(time.Second)
		if _, err := b.Authenticate(t.Context(), text); (err == nil) != want {
			t.Errorf("%q: %v, want it valid: %v", text, err, want)
		}
	}
	b.ensure(t, first)
	b.ensure(t, second)
	valid(first, false)
	valid(second, true)
	b.ensure(t, "") // no longer configured: nobody is locked out
	valid(second, true)
	b.ensure(t, first) // and back again
	valid(first, true)
	valid(second, false)
	valid(other, true)
}

func TestARevokedBootstrapKeyStaysRevoked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ensure(t, first)
	p, err := b.Authenticate(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Revoke(t.Context(), p.Key); err != nil {
		t.Fatal(err)
	}
	wantCode(t, b.EnsureBootstrap(t.Context(), first), fault.Conflict)
	_, err = b.Authenticate(t.Context(), first)
	wantCode(t, err, fault.Unauthenticated)
	b.ensure(t, second)
}

func TestBootstrapRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, text := range []string{"seven-7", "has a blank in it", "has\x00nul_in_it_too", "kürzel-mit-umlaut"} {
		wantCode(t, b.EnsureBootstrap(t.Context(), text), fault.Invalid)
	}
	ten := b.tenant(t)
	_, narrow := b.create(t, auth.NewKey{Name: "n", Scopes: []auth.Scope{auth.EventsWrite}})
	_, bound := b.create(t, auth.NewKey{Name: "n", Scopes: auth.Scopes(), Tenant: &ten})
	_, wide := b.create(t, auth.NewKey{Name: "n", Scopes: auth.Scopes()})
	wantCode(t, b.EnsureBootstrap(t.Context(), narrow), fault.Conflict)
	wantCode(t, b.EnsureBootstrap(t.Context(), bound), fault.Conflict)
	b.ensure(t, wide)
}
