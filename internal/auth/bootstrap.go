package auth

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/pg"
)

const (
	bootstrapName = "bootstrap"
	// replacedName marks a bootstrap key that gave way to another one, and so may come back when it is configured again.
	// One that was revoked by hand keeps its name, and does not come back with the next restart.
	replacedName = "bootstrap (replaced)"
	// bootstrapHint shows nothing of the key: unlike one of ours, it may be a short phrase.
	bootstrapHint = "bootstrap.admin_key"
)

// EnsureBootstrap makes sure that the configured admin key exists: it may be called at every start and by every process
// at once. When another key is configured than before, the former one is revoked. An empty text does nothing: taking the
// key out of the configuration does not lock anybody out; revoke it through the API.
//
// It fails with Invalid when the text is no key, and with Conflict when this very key was revoked by hand or is another
// key that was made with fewer rights. No error holds the text.
func (k *Keys) EnsureBootstrap(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	if !plausible(text) {
		return fault.New(fault.Invalid, "bootstrap.admin_key must have %d to %d printable ASCII characters and no blank",
			minText, maxText)
	}
	hash := hashOf(text)
	err := pg.InTx(ctx, k.db, func(tx pgx.Tx) error { return k.ensureBootstrap(ctx, tx, hash[:]) })
	k.cache.clear()
	return err
}

// One that gave way earlier is brought back; the row lock makes concurrent starts agree.
const bootstrapSQL = `
INSERT INTO api_keys AS k (id, name, hash, hint, scopes, created_at)
VALUES (@id, @name, @hash, @hint, @scopes, @now)
ON CONFLICT (hash) DO UPDATE
    SET revoked_at = CASE WHEN k.name = @replaced THEN NULL ELSE k.revoked_at END,
        name = CASE WHEN k.name = @replaced THEN @name ELSE k.name END
RETURNING id, scopes, tenant_id IS NOT NULL AS bound, revoked_at IS NOT NULL AS revoked,
    expires_at IS NOT NULL AS expires`

const replaceSQL = `
UPDATE api_keys SET revoked_at = @now, name = @replaced
WHERE name = @name AND hash <> @hash AND revoked_at IS NULL
RETURNING ` + keyColumns

func (k *Keys) ensureBootstrap(ctx context.Context, tx pgx.Tx, hash []byte) error {
	ctx = audit.With(ctx, audit.System(bootstrapHint))
	now, fresh := k.now(), k.ids.Next()
	key := Key{Name: bootstrapName, Hint: bootstrapHint, Scopes: []Scope{Admin}}
	var scopes []Scope
	var bound, revoked, expires bool
	err := tx.QueryRow(ctx, bootstrapSQL, pgx.StrictNamedArgs{
		"id": fresh, "name": bootstrapName, "replaced": replacedName, "hash": hash,
		"hint": bootstrapHint, "scopes": []Scope{Admin}, "now": now,
	}).Scan(&key.ID.N, &scopes, &bound, &revoked, &expires)
	if err != nil {
		return fmt.Errorf("store the bootstrap key: %w", err)
	}
	switch {
	case revoked:
		return fault.New(fault.Conflict, "bootstrap.admin_key was revoked; configure another one")
	case bound || expires || !slices.Contains(scopes, Admin):
		return fault.New(fault.Conflict, "bootstrap.admin_key is a key already, with fewer rights; configure another one")
	}
	rows, err := tx.Query(ctx, replaceSQL, pgx.StrictNamedArgs{
		"name": bootstrapName, "replaced": replacedName, "hash": hash, "now": now,
	})
	if err != nil {
		return fmt.Errorf("revoke the former bootstrap key: %w", err)
	}
	former, err := pgx.CollectRows(rows, scanKey)
	if err != nil {
		return fmt.Errorf("revoke the former bootstrap key: %w", err)
	}
	for _, f := range former {
		if err := k.note(ctx, tx, audit.KeyRevoked, f); err != nil {
			return err
		}
	}
	if key.ID.N != fresh && len(former) == 0 {
		return nil // it was there, as after every start but the first
	}
	return k.note(ctx, tx, audit.KeyCreated, key)
}
