package subscriptions_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// Every column that holds something sealed is one that re-encrypting goes through, and has a column that names its key.
// What the catalogue calls sealed is found here by its name.
func TestEverySealedColumnIsReencrypted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const query = `
SELECT s.table_name || ' ' || coalesce(k.column_name, 'no key') || ' ' || s.column_name
  FROM information_schema.columns s
  LEFT JOIN information_schema.columns k ON k.table_schema = s.table_schema AND k.table_name = s.table_name
        AND k.column_name IN (regexp_replace(s.column_name, 'sealed$', 'key_id'), regexp_replace(s.column_name, 'key_sealed$', 'key_id'))
        AND k.column_name <> s.column_name
 WHERE s.table_schema = current_schema() AND s.column_name ~ '(^|_)sealed$'
 ORDER BY 1`
	found := func() []string {
		rows, err := w.pool.Query(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		return must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	}
	if got, want := found(), slices.Sorted(slices.Values(subscriptions.SealedColumns())); len(want) < 2 || !slices.Equal(got, want) {
		t.Errorf("the database has %q, and re-encrypted are %q", got, want)
	}
	w.exec(`ALTER TABLE tenants ADD COLUMN note_sealed bytea, ADD COLUMN card_key_sealed bytea, ADD COLUMN card_key_id text`)
	for _, column := range []string{"tenants no key note_sealed", "tenants card_key_id card_key_sealed"} {
		if !slices.Contains(found(), column) {
			t.Errorf("%q goes unseen", column)
		}
	}
}

// keysInUse gives the ids of the keys that something is sealed under, and those of the register.
func keysInUse(t *testing.T, s *subscriptions.Store) (used, registered []string) {
	t.Helper()
	for _, k := range must(s.KeyUses(t.Context()))(t) {
		if k.Values > 0 {
			used = append(used, k.ID)
		}
		if k.FirstUsedAt != nil {
			registered = append(registered, k.ID)
		}
	}
	return used, registered
}

func keyIDs(t *testing.T, keys ...[]byte) []string {
	t.Helper()
	box, err := seal.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	return box.KeyIDs()
}

// The procedure of a rotation: the new key behind the old one, then in front, then everything under it, then without the
// old one. At each step all processes open everything, and none starts that could not.
func TestKeysAreRotated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := keyIDs(t, sealKey, otherSealKey)
	oldID, newID := ids[0], ids[1]
	if err := w.under(otherSealKey).CheckKeys(t.Context()); err != nil {
		t.Errorf("nothing is sealed, and it says %v", err)
	}
	tenant := w.tenant()
	const header = "Bearer of-something"
	e, first := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Headers = headers("Authorization", header) })
	_, second, err := w.RotateSecret(t.Context(), tenant, ref(e), "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	check := func(s *subscriptions.Store) {
		t.Helper()
		if err := s.CheckKeys(t.Context()); err != nil {
			t.Error(err)
		}
		got := must(s.Secret(t.Context(), tenant, ref(e)))(t)
		if len(got) != 2 || got[0].Secret.Reveal() != second.Reveal() || got[1].Secret.Reveal() != first.Reveal() {
			t.Errorf("the secrets are %v", got)
		}
		shown := must(s.Endpoint(t.Context(), tenant, ref(e)))(t)
		if len(shown.Headers) != 1 || shown.Headers[0].Value != header || shown.Unreadable != "" {
			t.Errorf("the headers are %v, %s", shown.Headers, shown.Unreadable)
		}
	}
	behind, front, alone := w.under(sealKey, otherSealKey), w.under(otherSealKey, sealKey), w.under(otherSealKey)
	if err := alone.CheckKeys(t.Context()); err == nil || !strings.Contains(err.Error(), oldID) || strings.Contains(err.Error(), "\n") {
		t.Errorf("a process without the key starts, or says %v", err)
	}
	if n := must(w.Reseal(t.Context(), nil))(t).Values; n != 0 {
		t.Errorf("with one key it rewrote %d values", n)
	}
	check(behind)
	check(front)
	w.endpoint(tenant, nil) // by a process that has the old key in front still
	var calls int
	done := must(front.Reseal(t.Context(), func(subscriptions.Resealed) { calls++ }))(t)
	if done.Values != 4 || len(done.Unreadable) != 0 || calls != 256 {
		t.Errorf("it rewrote %+v, with %d calls", done, calls)
	}
	if used, registered := keysInUse(t, front); !slices.Equal(used, []string{newID}) || len(registered) != 2 {
		t.Errorf("in use are %v, registered %v", used, registered)
	}
	check(behind) // also of what the cache of opened parts has from before
	check(front)
	check(alone) // which sees that nothing needs the old key, and takes it off the register
	if _, registered := keysInUse(t, alone); !slices.Equal(registered, []string{newID}) {
		t.Errorf("registered are %v", registered)
	}
	if done := must(front.Reseal(t.Context(), nil))(t); done.Values != 0 {
		t.Errorf("a second time it rewrote %+v", done)
	}
	if err := w.CheckKeys(t.Context()); err == nil || !strings.Contains(err.Error(), newID) {
		t.Errorf("a process with the old key alone starts: %v", err)
	}
}

// The first of ours stays on the register, and so does what is in use; the rest goes.
func TestUnusedKeysAreDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := keyIDs(t, sealKey, otherSealKey)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, nil)
	both := w.under(otherSealKey, sealKey)
	if dropped := must(both.DropUnusedKeys(t.Context()))(t); len(dropped) != 0 {
		t.Errorf("it dropped %v, which are in use", dropped)
	}
	must(both.Reseal(t.Context(), nil))(t)
	if dropped := must(both.DropUnusedKeys(t.Context()))(t); !slices.Equal(dropped, ids[:1]) {
		t.Errorf("it dropped %v, want %v", dropped, ids[:1])
	}
	must(both.DeleteEndpoint(t.Context(), tenant, ref(e)))(t)
	if dropped := must(both.DropUnusedKeys(t.Context()))(t); len(dropped) != 0 {
		t.Errorf("it dropped %v, which encrypts", dropped)
	}
}

// A transaction that is sealing under a key keeps it on the register: whoever drops it waits, and then sees what was sealed.
func TestAKeyIsNotDroppedUnderWhoSeals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, nil)
	both := w.under(otherSealKey, sealKey)
	must(both.Reseal(t.Context(), nil))(t)

	// What vault.Seal does in a transaction that has not ended.
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `SELECT FROM seal_keys WHERE id = $1 FOR KEY SHARE`, keyIDs(t, sealKey)[0]); err != nil {
		t.Fatal(err)
	}
	dropped := make(chan []string, 1)
	go func() {
		got, err := both.DropUnusedKeys(t.Context())
		if err != nil {
			t.Error(err)
		}
		dropped <- got
	}()
	w.awaitLock()
	if _, err := tx.Exec(t.Context(), `UPDATE endpoint_secrets SET key_id = $1 WHERE endpoint_id = $2`, keyIDs(t, sealKey)[0], e.ID.N); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-dropped; len(got) != 0 {
		t.Errorf("it dropped %v", got)
	}
}

// awaitLock waits until a session waits for a lock of another.
func (w *world) awaitLock() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for waiting := false; !waiting; {
		err := w.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waiting)
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// A key with the id of another opens nothing that the other has sealed. That two have the same id is one in four billion; a
// register that was tampered with is likelier.
func TestAKeyThatIsAnotherIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.tenant(), nil)
	w.exec(`INSERT INTO seal_keys (id, proof, first_used_at) SELECT $1, proof, first_used_at FROM seal_keys`, keyIDs(t, otherSealKey)[0])
	err := w.under(sealKey, otherSealKey).CheckKeys(t.Context())
	if err == nil || !strings.Contains(err.Error(), "with the same ids: "+keyIDs(t, otherSealKey)[0]) {
		t.Errorf("it says %v", err)
	}
}

// What an older version has sealed is on the register without a proof, which the first who has the key adds.
func TestAKeyOfAnOlderVersionIsProven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.tenant(), nil)
	w.exec(`UPDATE seal_keys SET proof = NULL`)
	if err := w.under(otherSealKey).CheckKeys(t.Context()); err == nil {
		t.Error("a process without the key starts")
	}
	if err := w.CheckKeys(t.Context()); err != nil {
		t.Error(err)
	}
	if n := w.count(`SELECT count(*) FROM seal_keys WHERE proof IS NOT NULL`); n != 1 {
		t.Errorf("%d keys are proven", n)
	}
}

// With a key lost for good, the rest goes on: servers start, and its endpoints work again with a new secret and new headers.
func TestALostKeyIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := keyIDs(t, sealKey)
	tenant := w.tenant()
	e, _ := w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Headers = headers("X-Token", "value") })
	after := w.under(otherSealKey)
	if err := w.GiveUpKey(t.Context(), ids[0]); !fault.Is(err, fault.Conflict) {
		t.Errorf("a key that is there is given up: %v", err)
	}
	if err := after.GiveUpKey(t.Context(), "00000000"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a key that there never was: %v", err)
	}
	under := must(after.EndpointsUnder(t.Context(), ids[0]))(t)
	if len(under) != 1 || under[0].Endpoint != e.ID || under[0].Tenant != tenant.ID {
		t.Errorf("concerned are %v", under)
	}
	if err := errors.Join(after.GiveUpKey(t.Context(), ids[0]), after.CheckKeys(t.Context())); err != nil {
		t.Error(err)
	}
	if done := must(after.Reseal(t.Context(), nil))(t); done.Values != 0 || len(done.Unreadable) != 0 {
		t.Errorf("re-encrypted %+v", done)
	}
	must(after.UpdateEndpoint(t.Context(), tenant, ref(e), "", subscriptions.EndpointPatch{Headers: put(headers("X-Token", "new"))}))(t)
	if _, _, err := after.RotateSecret(t.Context(), tenant, ref(e), "", 0); err != nil {
		t.Error(err)
	}
	if dropped := must(after.DropUnusedKeys(t.Context()))(t); !slices.Equal(dropped, ids) {
		t.Errorf("dropped are %v", dropped)
	}
	// A key that is found again is lost no more.
	w.endpoint(tenant, nil)
	if err := errors.Join(after.GiveUpKey(t.Context(), ids[0]), w.under(otherSealKey, sealKey).CheckKeys(t.Context())); err != nil {
		t.Error(err)
	}
	if err := after.CheckKeys(t.Context()); err == nil {
		t.Error("a key that was found and lost again is not missed")
	}
}

// A value that its key does not open stays as it is and is told of; the others are rewritten.
func TestWhatDoesNotOpenIsLeftAndTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	bad, _ := w.endpoint(tenant, nil)
	w.endpoint(tenant, nil)
	w.exec(`UPDATE endpoint_secrets SET sealed = '\x0011' WHERE endpoint_id = $1`, bad.ID.N)
	done := must(w.under(otherSealKey, sealKey).Reseal(t.Context(), nil))(t)
	if done.Values != 1 || len(done.Unreadable) != 1 || done.Unreadable[0] != bad.ID {
		t.Errorf("it came to %+v", done)
	}
	if n := w.count(`SELECT count(*) FROM endpoint_secrets WHERE sealed = '\x0011'`); n != 1 {
		t.Error("what does not open was changed")
	}
}

// While everything is re-encrypted again and again, under one key and the other, owners go on rotating their secrets: what an
// owner was given last is what signs.
func TestASecretThatIsRotatedMeanwhileIsNotOverwritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant()
	there, back := w.under(sealKey, otherSealKey), w.under(otherSealKey, sealKey)
	endpoints := make([]subscriptions.Endpoint, 3)
	for i := range endpoints {
		endpoints[i], _ = w.endpoint(tenant, func(n *subscriptions.NewEndpoint) { n.Headers = headers("X-N", "0") })
	}
	ctx, stop := context.WithCancel(t.Context())
	resealed := make(chan int)
	go func() {
		n := 0
		for ctx.Err() == nil {
			for _, s := range []*subscriptions.Store{there, back} {
				if done, err := s.Reseal(context.WithoutCancel(ctx), nil); err != nil {
					t.Error(err)
				} else {
					n += done.Values
				}
			}
		}
		resealed <- n
	}()
	last := make([]signer.Secret, len(endpoints))
	for round := range 60 {
		for i, e := range endpoints {
			s := there
			if (round+i)%2 == 0 {
				s = back
			}
			var err error
			if _, last[i], err = s.RotateSecret(t.Context(), tenant, ref(e), "", time.Duration(round%2)*time.Hour); err != nil {
				t.Fatal(err)
			}
			must(s.UpdateEndpoint(t.Context(), tenant, ref(e), "", subscriptions.EndpointPatch{
				Headers: put(headers("X-N", strings.Repeat("x", round+1))),
			}))(t)
		}
	}
	stop()
	if n := <-resealed; n == 0 {
		t.Error("nothing was re-encrypted meanwhile")
	}
	for i, e := range endpoints {
		got := must(there.Secret(t.Context(), tenant, ref(e)))(t)
		if len(got) == 0 || got[0].Secret.Reveal() != last[i].Reveal() {
			t.Errorf("the secret of %s is not the one it was given last", ref(e))
		}
		if h := must(there.Endpoint(t.Context(), tenant, ref(e)))(t).Headers; len(h) != 1 || h[0].Value != strings.Repeat("x", 60) {
			t.Errorf("the headers of %s are %v", ref(e), h)
		}
	}
}

// Several buckets, broken off in the middle and begun again.
func TestReencryptingGoesOnWhereItWasBrokenOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const many = 210 // more than are rewritten at once
	for shard, n := range map[int16]int{0: 2, 4: many, 255: 3} {
		tenant := w.tenantIn(shard)
		for range n {
			w.endpoint(tenant, nil)
		}
	}
	s := w.under(bytes.Repeat([]byte{9}, seal.KeySize), sealKey)
	ctx, stop := context.WithCancel(t.Context())
	first, err := s.Reseal(ctx, func(r subscriptions.Resealed) {
		if r.Buckets == 5 {
			stop()
		}
	})
	if err == nil || first.Values != 2+many {
		t.Errorf("broken off, it rewrote %+v, %v", first, err)
	}
	second := must(s.Reseal(t.Context(), nil))(t)
	if second.Values != 3 {
		t.Errorf("the second time it rewrote %d values", second.Values)
	}
}
