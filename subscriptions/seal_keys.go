package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/pg"
)

// sealKey is a row of seal_keys.
type sealKey struct {
	ID          string
	Proof       []byte
	FirstUsedAt time.Time
	LostAt      *time.Time
}

// readSealKeys reads the register: a handful of rows.
func (s *Store) readSealKeys(ctx context.Context) ([]sealKey, error) {
	const query = `SELECT id, proof, first_used_at, lost_at FROM seal_keys ORDER BY first_used_at, id`
	rows, err := s.db.Query(ctx, query)
	var keys []sealKey
	if err == nil {
		keys, err = pgx.CollectRows(rows, pgx.RowToStructByName[sealKey])
	}
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read which encryption keys are in use: %w", err))
	}
	return keys, nil
}

// CheckKeys is an error, of one line, if something is sealed under a key that is not among ours, or if one of ours has the
// id of such a key and is another. A key that was given up (GiveUpKey) is not missed. It reads the register alone, unless
// that has a key which is missing: then it looks whether anything is still sealed under it.
func (s *Store) CheckKeys(ctx context.Context) error {
	keys, err := s.readSealKeys(ctx)
	if err != nil {
		return err
	}
	var missing, other []string
	for _, k := range keys {
		switch {
		case !s.box.keys.Has(k.ID) && k.LostAt == nil:
			gone, err := s.dropKey(ctx, k.ID)
			if err != nil {
				return err
			}
			if !gone {
				missing = append(missing, k.ID)
			}
		case s.box.keys.Has(k.ID):
			if _, err := s.box.Open(k.ID, k.Proof, proofAD(k.ID)); k.Proof != nil && err != nil {
				other = append(other, k.ID)
			} else if err := s.prove(ctx, k); err != nil {
				return err
			}
		}
	}
	var faults []string
	if len(missing) > 0 {
		faults = append(faults, fmt.Sprintf("the database holds secrets that were encrypted under keys which are not among "+
			"secrets.keys: %s; add them behind the first one (`postrider secrets status` has more)", strings.Join(missing, ", ")))
	}
	if len(other) > 0 {
		faults = append(faults, fmt.Sprintf("secrets.keys has other keys than those that the database's secrets were "+
			"encrypted under, with the same ids: %s", strings.Join(other, ", ")))
	}
	if len(faults) > 0 {
		return errors.New(strings.Join(faults, "; "))
	}
	return nil
}

// prove adds to the register that we have a key which nobody had, or was not asked for, until now.
func (s *Store) prove(ctx context.Context, k sealKey) error {
	if k.Proof != nil && k.LostAt == nil {
		return nil
	}
	proof, err := s.box.proof(k.ID)
	if err != nil {
		return err
	}
	const query = `UPDATE seal_keys SET proof = coalesce(proof, @proof), lost_at = NULL WHERE id = @id`
	if _, err := s.db.Exec(ctx, query, pgx.StrictNamedArgs{"id": k.ID, "proof": proof}); err != nil {
		return pg.Fault(fmt.Errorf("register an encryption key: %w", err))
	}
	return nil
}

// GiveUpKey has the checks of a start pass over a key that nobody has any more. What is sealed under it stays shut, and its
// endpoints get nothing, until their owners give new secrets, headers and client certificates. A key that is among ours is
// not lost.
func (s *Store) GiveUpKey(ctx context.Context, keyID string) error {
	const query = `UPDATE seal_keys SET lost_at = coalesce(lost_at, @now) WHERE id = @id`
	if s.box.keys != nil && s.box.keys.Has(keyID) {
		return fault.New(fault.Conflict, "the key %s is among secrets.keys: it is not lost", keyID)
	}
	tag, err := s.db.Exec(ctx, query, pgx.StrictNamedArgs{"id": keyID, "now": s.now()})
	if err != nil {
		return pg.Fault(fmt.Errorf("give an encryption key up: %w", err))
	}
	if tag.RowsAffected() == 0 {
		return fault.New(fault.NotFound, "nothing is encrypted under a key %q", keyID)
	}
	return nil
}

// DropUnusedKeys takes the keys off the register that nothing is sealed under any more, but for the first of ours, and gives
// their ids.
func (s *Store) DropUnusedKeys(ctx context.Context) ([]string, error) {
	keys, err := s.readSealKeys(ctx)
	if err != nil {
		return nil, err
	}
	var dropped []string
	for _, k := range keys {
		if k.ID == s.box.keys.KeyIDs()[0] {
			continue
		}
		gone, err := s.dropKey(ctx, k.ID)
		if err != nil {
			return dropped, err
		}
		if gone {
			dropped = append(dropped, k.ID)
		}
	}
	return dropped, nil
}

// dropKey takes a key off the register if nothing is sealed under it, and says whether it did.
func (s *Store) dropKey(ctx context.Context, keyID string) (gone bool, err error) {
	// A look beforehand: nobody who seals has to wait for a key that is in use.
	if used, err := keyUsed(ctx, s.db, keyID); err != nil || used {
		return false, err
	}
	err = s.inTx(ctx, func(tx pgx.Tx, _ time.Time) error {
		gone = false
		args := pgx.StrictNamedArgs{"id": keyID}
		// Whoever is just sealing under it holds it (vault.register): wait, and then look.
		if _, err := tx.Exec(ctx, `SELECT FROM seal_keys WHERE id = @id FOR UPDATE`, args); err != nil {
			return fmt.Errorf("hold an encryption key: %w", err)
		}
		used, err := keyUsed(ctx, tx, keyID)
		if err != nil || used {
			return err
		}
		tag, err := tx.Exec(ctx, `DELETE FROM seal_keys WHERE id = @id`, args)
		if err != nil {
			return fmt.Errorf("take an encryption key off the register: %w", err)
		}
		gone = tag.RowsAffected() > 0
		return nil
	})
	return gone, err
}
