package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Uses api_keys_hash_key. The key of a deleted tenant is no key any more.
const authenticateSQL = `
SELECT k.id, k.name, k.hash, k.scopes, k.tenant_shard, k.tenant_id, k.last_used_at, k.expires_at
FROM api_keys k
LEFT JOIN tenants t ON t.shard = k.tenant_shard AND t.id = k.tenant_id
WHERE k.hash = @hash AND k.revoked_at IS NULL AND t.deleted_at IS NULL
    AND (k.expires_at IS NULL OR k.expires_at > @now)`

// Authenticate says whose key the bearer token is. It fails with Unauthenticated when it is nobody's, and with
// Unavailable when the database cannot be asked. An answer, good or bad, is remembered for a second.
func (k *Keys) Authenticate(ctx context.Context, bearer string) (Principal, error) {
	if !plausible(bearer) {
		return Principal{}, unknownKey()
	}
	hash := hashOf(bearer)
	e, fresh := k.cache.get(hash)
	if !fresh {
		asked := k.cache.tick()
		var err error
		if e, err = k.lookUp(ctx, hash); err != nil {
			return Principal{}, err
		}
		e.asked = asked
		k.cache.put(hash, e)
	}
	if !e.known || e.expired(k.now()) {
		return Principal{}, unknownKey()
	}
	k.noteUse(ctx, e.principal.Key)
	return e.principal, nil
}

func unknownKey() error {
	return fault.New(fault.Unauthenticated, "the API key is missing or not known")
}

// lookUp asks the database whose hash this is. Nobody's is an answer to remember, and not a failure.
//
// That it is found by an index, whose comparisons end at the first byte that differs, gives no key away by the time it
// takes: what is compared is a SHA-256 of the guess, whose bytes nobody can choose. To learn that a guess's hash begins
// like a stored one says nothing about how the key begins, and leads to no better guess.
func (k *Keys) lookUp(ctx context.Context, hash [sha256.Size]byte) (e entry, err error) {
	p := &e.principal
	var stored []byte
	var shard *int16
	var tenant *int64
	var used *time.Time
	err = k.db.QueryRow(ctx, authenticateSQL, pgx.StrictNamedArgs{"hash": hash[:], "now": k.now()}).
		Scan(&p.Key.N, &p.Name, &stored, &p.Scopes, &shard, &tenant, &used, &e.expires)
	if errors.Is(err, pgx.ErrNoRows) {
		return entry{}, nil
	}
	if err != nil {
		return entry{}, pg.Fault(fmt.Errorf("look an API key up: %w", err))
	}
	// The row is the right one already; the last word is a comparison that takes the same time whatever it compares.
	if subtle.ConstantTimeCompare(stored, hash[:]) != 1 {
		return entry{}, nil
	}
	p.As, p.Tenant = audit.ByKey, tenantID(shard, tenant)
	if used != nil {
		k.usage.seen(p.Key.N, *used)
	}
	e.known = true
	return e, nil
}

// noteUse has the time of use written, at most once a minute for each key, and does not wait for it.
func (k *Keys) noteUse(ctx context.Context, key id.ID) {
	now := k.now()
	if !k.usage.due(key.N, now) {
		return
	}
	ctx = context.WithoutCancel(ctx)
	go func() {
		defer k.usage.writing.Done()
		ctx, cancel := context.WithTimeout(ctx, usageTimeout)
		defer cancel()
		// A use that could not be written is no harm; the next one is a minute away.
		_, _ = k.db.Exec(ctx, usedSQL, pgx.StrictNamedArgs{"id": key.N, "now": now, "before": now.Add(-usageEvery)})
	}()
}

// Other processes write it as well: whoever comes first in a minute.
const usedSQL = `
UPDATE api_keys SET last_used_at = @now
WHERE id = @id AND (last_used_at IS NULL OR last_used_at <= @before)`

// Close waits until the uses that are being written are written, or ctx is over. Uses after it are not written.
func (k *Keys) Close(ctx context.Context) error { return k.usage.close(ctx) }
