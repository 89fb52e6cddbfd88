package auth_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/pgtest"
)

func TestWhatIsNoKey(t *testing.T) {
	t.Parallel()
	// A closed pool shows that the database is not even asked.
	b := onPool(t, closedPool(t))
	for _, text := range []string{
		"", "short", strings.Repeat("k", 7), strings.Repeat("k", 256), "prk_with a blank inside it", "prk_with\na newline inside",
		"prk_with\x00nul_inside_of_it", "prk_wïth_more_than_ascii",
	} {
		_, err := b.Authenticate(t.Context(), text)
		wantCode(t, err, fault.Unauthenticated)
	}
	_, err := b.Authenticate(t.Context(), strings.Repeat("k", 8))
	wantCode(t, err, fault.Unavailable)
}

func TestAnotherProcessLearnsOfARevocationWithinASecond(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	here, there := onPool(t, pool), onPool(t, pool)
	key, text := here.create(t, auth.NewKey{Name: "n", Scopes: auth.Scopes()})
	authenticate := func(b *bench) error { _, err := b.Authenticate(t.Context(), text); return err }
	if err := authenticate(there); err != nil {
		t.Fatal(err)
	}
	if err := here.Revoke(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, authenticate(here), fault.Unauthenticated)
	there.pass(time.Second - time.Nanosecond)
	if err := authenticate(there); err != nil {
		t.Errorf("the answer is not remembered: %v", err)
	}
	there.pass(time.Nanosecond)
	wantCode(t, authenticate(there), fault.Unauthenticated)
}

func TestUnknownKeysAreRememberedToo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, text := b.create(t, auth.NewKey{Name: "n", Scopes: auth.Scopes()})
	hide := func(revoked string) {
		if _, err := b.db.Exec(t.Context(), `UPDATE api_keys SET revoked_at = `+revoked); err != nil {
			t.Fatal(err)
		}
	}
	hide("now()")
	_, err := b.Authenticate(t.Context(), text)
	wantCode(t, err, fault.Unauthenticated)
	hide("NULL")
	_, err = b.Authenticate(t.Context(), text)
	wantCode(t, err, fault.Unauthenticated)
	b.pass(time.Second)
	if _, err := b.Authenticate(t.Context(), text); err != nil {
		t.Error(err)
	}
}

func TestGuessesDoNotFillTheMemoryNorPushKeysOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, text := b.create(t, auth.NewKey{Name: "n", Scopes: auth.Scopes()})
	if _, err := b.Authenticate(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	var guessing sync.WaitGroup
	for part := range 4 {
		guessing.Go(func() {
			for n := range auth.CacheSize/4 + 10 {
				_, err := b.Authenticate(t.Context(), fmt.Sprintf("guess-%d-%016d", part, n))
				wantCode(t, err, fault.Unauthenticated)
			}
		})
	}
	guessing.Wait()
	if good, unknown := b.Cached(); good != 1 || unknown == 0 || unknown > auth.CacheSize {
		t.Errorf("%d good and %d unknown keys are remembered", good, unknown)
	}
}

func TestUseIsWrittenOnceAMinute(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	here, there := onPool(t, pool), onPool(t, pool)
	key, text := here.create(t, auth.NewKey{Name: "n", Scopes: auth.Scopes()})
	start := here.now()
	for _, step := range []struct {
		by   *bench
		pass time.Duration
		want time.Duration
	}{
		{here, 0, 0},
		{here, 59 * time.Second, 0},
		{there, 59500 * time.Millisecond, 0}, // another process reads when it was noted last
		{here, time.Second, time.Minute},
		{there, 900 * time.Millisecond, time.Minute}, // it has not asked again; the statement knows
		{there, time.Minute, 120400 * time.Millisecond},
	} {
		step.by.pass(step.pass)
		if _, err := step.by.Authenticate(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		step.by.AwaitUses()
		got, err := here.Get(t.Context(), key.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got.LastUsedAt == nil || got.LastUsedAt.Sub(start) != step.want {
			t.Errorf("after %v: last used %v after the start, want %v", step.pass, got.LastUsedAt, step.want)
		}
	}
}

// A row lock keeps the use from being written; nobody waits for that.
func TestUseIsNotInTheRequestsWay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, text := b.create(t, auth.NewKey{Name: "n", Scopes: auth.Scopes()})
	tx, err := b.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM api_keys FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Authenticate(t.Context(), text); err != nil {
		t.Error(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}
