package subscriptions_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

const day = 24 * time.Hour

// FC-015: two rotations inside one overlap. All that have not ended sign, newest first, each to its own end; what has
// ended is neither shown nor signs, and upkeep deletes it.
func TestRotationsOverlap(t *testing.T) {
	t.Parallel()
	for _, scheme := range []signer.Scheme{signer.Standard, signer.StandardEd25519, signer.Stripe} {
		t.Run(string(scheme), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tenant := w.tenant()
			e, a := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Scheme = scheme })
			rotate := func(overlap time.Duration) signer.Secret {
				t.Helper()
				got, secret, err := w.RotateSecret(t.Context(), tenant, ref(e), "", overlap)
				if err != nil {
					t.Fatal(err)
				}
				if got.PublicKey != secret.PublicKey() || !got.UpdatedAt.Equal(w.clock.now()) {
					t.Errorf("rotated is %+v", got)
				}
				return secret
			}
			signs := func(when string, want ...signer.Secret) {
				t.Helper()
				if got := w.signing(tenant, e); !slices.Equal(got, texts(want, signer.Secret.Reveal)) {
					t.Errorf("%s: %d secrets sign, or others", when, len(got))
				}
			}
			b := rotate(10 * time.Second) // a until 10
			w.clock.advance(4 * time.Second)
			c := rotate(2 * time.Second) // b until 6: sooner than a
			signs("at 4", c, b, a)
			ends := w.target(e).Secrets
			if ends[0].ExpiresAt != nil || !ends[1].ExpiresAt.Equal(w.clock.now().Add(2*time.Second)) ||
				!ends[2].ExpiresAt.Equal(w.clock.now().Add(6*time.Second)) {
				t.Errorf("they end at %v, %v, %v", ends[0].ExpiresAt, ends[1].ExpiresAt, ends[2].ExpiresAt)
			}
			w.clock.advance(2*time.Second - time.Microsecond)
			signs("just before 6", c, b, a)
			w.clock.advance(time.Microsecond)
			signs("at 6", c, a)
			w.clock.advance(4 * time.Second)
			signs("at 10", c)
			if n := must(w.DropExpiredSecrets(t.Context(), e.ID.Shard))(t); n != 2 {
				t.Errorf("%d were deleted", n)
			}
			if n := w.count(`SELECT FROM endpoint_secrets`); n != 1 {
				t.Errorf("%d are left", n)
			}
			signs("after upkeep", c)
		})
	}
}

func TestDropExpiredSecretsKeepsToItsBucketAndToTheExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, nil)
	if _, _, err := w.RotateSecret(t.Context(), tenant, ref(e), "", time.Hour); err != nil {
		t.Fatal(err)
	}
	drop := func(shard int16, want int64) {
		t.Helper()
		if n := must(w.DropExpiredSecrets(t.Context(), shard))(t); n != want {
			t.Errorf("%d were deleted, want %d", n, want)
		}
	}
	drop(e.ID.Shard, 0)
	w.clock.advance(time.Hour)
	drop((e.ID.Shard+1)%256, 0)
	drop(e.ID.Shard, 1)
	drop(e.ID.Shard, 0)
}

func TestRotationWithoutOverlapLeavesTheNewOneAlone(t *testing.T) {
	t.Parallel()
	for _, scheme := range signer.Schemes() {
		t.Run(string(scheme), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tenant := w.tenant()
			e, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Scheme = scheme })
			if scheme.SupportsOverlap() { // one that still signs goes too: it may be the one that got out
				if _, _, err := w.RotateSecret(t.Context(), tenant, ref(e), "", 7*day); err != nil {
					t.Fatal(err)
				}
			} else {
				_, _, err := w.RotateSecret(t.Context(), tenant, ref(e), "", time.Second)
				if got := pointers(t, err); !slices.Equal(got, []string{"/overlap"}) {
					t.Errorf("an overlap: %v", err)
				}
			}
			_, secret, err := w.RotateSecret(t.Context(), tenant, ref(e), "", 0)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.signing(tenant, e); !slices.Equal(got, []string{secret.Reveal()}) {
				t.Errorf("%d sign", len(got))
			}
			if n := w.count(`SELECT FROM endpoint_secrets`); n != 1 {
				t.Errorf("%d are in the database", n)
			}
		})
	}
}

func TestRotationBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, first := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Secret = whsec(1) })
	for _, test := range []struct {
		given   string
		overlap time.Duration
		at      []string
	}{
		{"", -time.Nanosecond, []string{"/overlap"}},
		{"", 7*day + time.Nanosecond, []string{"/overlap"}},
		{"short", 8 * day, []string{"/overlap", "/secret"}},
		{whsec(1), time.Hour, []string{"/secret"}}, // what signs already: nothing would be rotated
		{whsec(1), 0, []string{"/secret"}},
	} {
		_, _, err := w.RotateSecret(t.Context(), tenant, ref(e), test.given, test.overlap)
		if got := pointers(t, err); !slices.Equal(got, test.at) {
			t.Errorf("%q, %v: at fault are %v", test.given, test.overlap, got)
		}
	}
	if got := w.signing(tenant, e); !slices.Equal(got, []string{first.Reveal()}) {
		t.Error("a refused rotation changed something")
	}
	rotated, secret, err := w.RotateSecret(t.Context(), tenant, ref(e), whsec(2), 7*day)
	if err != nil || secret.Reveal() != whsec(2) || rotated.Version != 2 {
		t.Errorf("%+v, %v", rotated, err)
	}
	// Back to the old one while it still signs: it signs once.
	if _, _, err := w.RotateSecret(t.Context(), tenant, ref(e), whsec(1), day); err != nil {
		t.Fatal(err)
	}
	if got := w.signing(tenant, e); !slices.Equal(got, []string{whsec(1), whsec(2)}) {
		t.Errorf("%q sign", got)
	}
}

func TestRotationsDoNotPileUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, nil)
	for i := range 9 {
		if _, _, err := w.RotateSecret(t.Context(), tenant, ref(e), "", time.Hour); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	_, _, err := w.RotateSecret(t.Context(), tenant, ref(e), "", time.Hour)
	if got := pointers(t, err); !slices.Equal(got, []string{"/overlap"}) {
		t.Errorf("an eleventh: %v", got)
	}
	if got := w.signing(tenant, e); len(got) != 10 {
		t.Errorf("%d sign", len(got))
	}
	if _, _, err := w.RotateSecret(t.Context(), tenant, ref(e), "", 0); err != nil {
		t.Errorf("one without an overlap is always possible: %v", err)
	}
}

// Rotations at the same moment come one after the other: each of their secrets signs, and one is current.
func TestConcurrentRotations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, first := w.endpoint(tenant, nil)
	type result struct {
		secret signer.Secret
		err    error
	}
	results := make(chan result, 6)
	for range cap(results) {
		go func() {
			_, secret, err := w.RotateSecret(t.Context(), tenant, ref(e), "", time.Hour)
			results <- result{secret, err}
		}()
	}
	want := []string{first.Reveal()}
	for range cap(results) {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
		}
		want = append(want, r.secret.Reveal())
	}
	got := w.signing(tenant, e)
	if got[len(got)-1] != first.Reveal() {
		t.Error("the oldest is not the last")
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d sign, want %d", len(got), len(want))
	}
	if n := w.count(`SELECT FROM endpoint_secrets WHERE expires_at IS NULL`); n != 1 {
		t.Errorf("%d are current", n)
	}
	if now := must(w.Endpoint(t.Context(), tenant, ref(e)))(t); now.Version != 7 {
		t.Errorf("it is at version %d", now.Version)
	}
}

// The secret call and a change of the scheme at the same moment: what is shown is the whole of the one or the other.
func TestSecretsAreReadByTheirOwnScheme(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, nil)
	change := must(w.pool.Begin(t.Context()))(t)
	// Locks the endpoint as UpdateEndpoint does.
	if _, err := change.Exec(t.Context(), `UPDATE endpoints SET scheme = 'github' WHERE id = $1`, e.ID.N); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := w.Secret(t.Context(), tenant, ref(e))
		done <- err
	}()
	w.waitForLock(done)
	if err := errors.Join(change.Commit(t.Context()), <-done); err != nil {
		t.Error(err)
	}
}

// What another process made with a clock that ran ahead is still older than what is made after it.
func TestTheNewestSecretIsTheLastOneMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, first := w.endpoint(tenant, nil)
	w.exec(`UPDATE endpoint_secrets SET id = id + (3600000::bigint << 22)`) // an hour ahead
	_, second, err := w.RotateSecret(t.Context(), tenant, ref(e), "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.signing(tenant, e); !slices.Equal(got, []string{second.Reveal(), first.Reveal()}) {
		t.Error("the order is wrong")
	}
}

// A master key that is gone: its secrets cannot be shown and do not sign, and rotating is the way out.
func TestRotatingMendsASecretThatDoesNotOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	for _, scheme := range []signer.Scheme{signer.Standard, signer.StandardEd25519} {
		e, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Scheme = scheme })
		moved := w.under(otherSealKey)
		_, err := moved.Secret(t.Context(), tenant, ref(e))
		wantCode(t, "the secret call", err, fault.Conflict)
		got, secret, err := moved.RotateSecret(t.Context(), tenant, ref(e), "", time.Hour)
		if err != nil || got.Unreadable != "" || got.PublicKey != secret.PublicKey() {
			t.Fatalf("%+v, %v", got, err)
		}
		infos, err := moved.Secret(t.Context(), tenant, ref(e))
		if err != nil || len(infos) != 1 || infos[0].Secret.Reveal() != secret.Reveal() {
			t.Errorf("the secret call has %+v, %v, and not the new one alone", infos, err)
		}
		targets := must(moved.Targets(t.Context(), []id.ID{e.ID}))(t)
		target := targets[e.ID]
		if target.Err != nil || len(target.Secrets) != 1 || target.Secrets[0].Reveal() != secret.Reveal() {
			t.Errorf("the target is %v, %d secrets", target.Err, len(target.Secrets))
		}
	}
}

// The operator puts a new key in front: what is there opens, what is written is under the new one.
func TestANewMasterKeyTakesOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, first := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Headers = headers("X-A", "1") })
	both := w.under(otherSealKey, sealKey)
	_, second, err := both.RotateSecret(t.Context(), tenant, ref(e), "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	infos := must(both.Secret(t.Context(), tenant, ref(e)))(t)
	if len(infos) != 2 || infos[0].Secret.Reveal() != second.Reveal() || infos[1].Secret.Reveal() != first.Reveal() ||
		infos[0].ExpiresAt != nil || !infos[1].ExpiresAt.Equal(w.clock.now().Add(time.Hour)) {
		t.Errorf("the secrets are %+v", infos)
	}
	if n := w.count(`SELECT DISTINCT key_id FROM endpoint_secrets`); n != 2 {
		t.Errorf("they are under %d keys", n)
	}
	if got := fmt.Sprint(infos); got != "[{[redacted] "+fmt.Sprint(infos[0].CreatedAt)+" <nil>} {[redacted] "+
		fmt.Sprint(infos[1].CreatedAt)+" "+fmt.Sprint(infos[1].ExpiresAt)+"}]" {
		t.Errorf("printed they are %s", got)
	}
}

// A secret whose key is gone is not ours to show, which is no fault of the program: the owner is told what to do.
func TestASecretWhoseKeyIsGoneSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, nil)
	_, err := w.under(otherSealKey).Secret(t.Context(), tenant, ref(e))
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "is not among secrets.keys; rotating makes a new one") {
		t.Errorf("%v", err)
	}
	if n := w.count(`SELECT FROM audit_log WHERE action = 'endpoint.secret_revealed'`); n != 0 {
		t.Error("what was not shown is told of as shown")
	}
}
