package auth_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

// A key ends at its moment, in a process that remembers it and in one that does not, and stays to be seen.
func TestAKeyExpires(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	there := onPool(t, b.db)
	end := b.now().Add(10*time.Minute + 300*time.Millisecond)
	key, text := b.create(t, auth.NewKey{Name: "n", Scopes: auth.Scopes(), ExpiresAt: &end})
	valid := func(b *bench, want bool) {
		t.Helper()
		_, err := b.Authenticate(t.Context(), text)
		if !want {
			wantCode(t, err, fault.Unauthenticated)
			return
		}
		if err != nil {
			t.Error(err)
		}
	}
	b.pass(10 * time.Minute)
	valid(b, true)
	b.pass(300*time.Millisecond - time.Nanosecond)
	valid(b, true) // remembered, and good still
	b.pass(time.Nanosecond)
	valid(b, false) // remembered, and over
	there.pass(10*time.Minute + 300*time.Millisecond)
	valid(there, false)

	got, err := b.Get(t.Context(), key.ID)
	if err != nil || got.ExpiresAt == nil || !got.ExpiresAt.Equal(end) {
		t.Errorf("it shows %+v, %v", got, err)
	}
	list, err := b.List(t.Context(), 10, id.ID{})
	if err != nil || len(list) != 1 {
		t.Errorf("the list has %+v, %v", list, err)
	}
	if err := b.Revoke(t.Context(), key.ID); err != nil {
		t.Error(err)
	}
}

func TestWhenAKeyMayEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for ahead, ok := range map[time.Duration]bool{
		-time.Hour: false, 0: false, time.Millisecond: true, 10 * 365 * 24 * time.Hour: true, 11 * 365 * 24 * time.Hour: false,
	} {
		end := b.now().Add(ahead)
		_, _, err := b.Create(t.Context(), auth.NewKey{Name: "n", Scopes: auth.Scopes(), ExpiresAt: &end})
		if ok != (err == nil) || !ok && !fault.Is(err, fault.Invalid) {
			t.Errorf("%v ahead: %v", ahead, err)
		}
	}
}

// A key that expires cannot be configured as the one that always works.
func TestBootstrapIsNoKeyThatExpires(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	end := b.now().Add(time.Hour)
	_, text := b.create(t, auth.NewKey{Name: "n", Scopes: auth.Scopes(), ExpiresAt: &end})
	wantCode(t, b.EnsureBootstrap(t.Context(), text), fault.Conflict)
}
