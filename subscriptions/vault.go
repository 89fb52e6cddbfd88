package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/seal"
)

// vault seals and opens what is stored. It seals under no key that seal_keys does not name by the same commit, so that what
// a process will need at its start is known without a look at all that is sealed.
type vault struct{ keys *seal.Box }

// Open decrypts what Seal made.
func (v vault) Open(keyID string, sealed, additional []byte) ([]byte, error) {
	return v.keys.Open(keyID, sealed, additional)
}

// Seal encrypts plain under the first key, to be written in tx.
func (v vault) Seal(ctx context.Context, tx pgx.Tx, plain, additional []byte, now time.Time) (keyID string, sealed []byte, err error) {
	keyID, sealed, err = v.keys.Seal(plain, additional)
	if err != nil {
		return "", nil, err
	}
	return keyID, sealed, v.register(ctx, tx, keyID, now)
}

// register sees to it that seal_keys has a key until tx ends, and holds it there: whoever takes unused keys off the register
// waits, and then sees what tx has sealed.
func (v vault) register(ctx context.Context, tx pgx.Tx, keyID string, now time.Time) error {
	const hold = `SELECT proof IS NOT NULL AND lost_at IS NULL FROM seal_keys WHERE id = @id FOR KEY SHARE`
	// Whoever has the key proves it, and it is lost no more.
	const add = `
INSERT INTO seal_keys (id, proof, first_used_at) VALUES (@id, @proof, @now)
ON CONFLICT (id) DO UPDATE SET proof = coalesce(seal_keys.proof, excluded.proof), lost_at = NULL`
	var sound bool
	err := tx.QueryRow(ctx, hold, pgx.StrictNamedArgs{"id": keyID}).Scan(&sound)
	if err == nil && sound {
		return nil
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("look for an encryption key: %w", err)
	}
	proof, err := v.proof(keyID)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, add, pgx.StrictNamedArgs{"id": keyID, "proof": proof, "now": now}); err != nil {
		return fmt.Errorf("register an encryption key: %w", err)
	}
	return nil
}

// proofText is what a proof opens to. That it opens is all it says.
const proofText = "postrider"

func (v vault) proof(keyID string) ([]byte, error) {
	return v.keys.SealUnder(keyID, []byte(proofText), proofAD(keyID))
}

func proofAD(keyID string) []byte { return []byte("seal_keys." + keyID) }
