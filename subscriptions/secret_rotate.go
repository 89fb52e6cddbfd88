package subscriptions

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/duration"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
)

const (
	maxOverlap = 7 * 24 * time.Hour
	// maxSigning is how many secrets may sign at once: each is a signature of up to 92 bytes in one header line.
	maxSigning = 10
)

// RotateSecret makes given, or for "" a new one, the secret that signs first, and gives it. The one that was current
// goes on signing beside it until the overlap (0 to 7 days) ends. Secrets of earlier rotations keep the end that those
// gave them, so with rotations in quick succession all of them sign, newest first.
//
// An overlap of 0 is for a secret that got out: from then on the new one alone signs, and all others are deleted in the
// same transaction. It is the only one that github and timestamped-hex take, which have room for one signature.
func (s *Store) RotateSecret(
	ctx context.Context, t Tenant, ref, given string, overlap time.Duration,
) (Endpoint, signer.Secret, error) {
	var e Endpoint
	var secret signer.Secret
	err := s.inTx(ctx, func(tx pgx.Tx, now time.Time) error {
		r, err := findEndpoint(ctx, tx, t.ID, ref, forUpdate)
		if err != nil {
			return err
		}
		scheme := signer.Scheme(r.Scheme)
		live, err := liveSecrets(ctx, tx, r.id(), now)
		if err != nil {
			return err
		}
		if secret, err = s.checkRotation(r.id(), scheme, live, given, overlap); err != nil {
			return err
		}
		if secret, err = orNew(secret, scheme); err != nil {
			return err
		}
		if err := s.retire(ctx, tx, r.id(), scheme, live, secret, now, overlap); err != nil {
			return err
		}
		if err := s.insertSecret(ctx, tx, r.id(), secret, now); err != nil {
			return err
		}
		if err := countVersion(ctx, tx, r.id(), now); err != nil {
			return err
		}
		details := audit.Details{"overlap": duration.Format(overlap), "given": given != ""}
		if err := s.note(ctx, tx, aboutEndpoint(r.id(), t.ID, audit.SecretRotated, details)); err != nil {
			return err
		}
		e, err = s.readBack(ctx, tx, r.id())
		return err
	})
	if err != nil {
		return Endpoint{}, signer.Secret{}, err
	}
	s.changed(e.ID)
	return e, secret, nil
}

// checkRotation judges what was asked for and reads the secret that came along, zero if none did.
func (s *Store) checkRotation(
	e id.ID, scheme signer.Scheme, live []secretRow, given string, overlap time.Duration,
) (secret signer.Secret, err error) {
	var faults fault.Fields
	switch {
	case overlap < 0 || overlap > maxOverlap:
		faults.Addf("/overlap", "is not between 0s and 7d")
	case overlap > 0 && !scheme.SupportsOverlap():
		faults.Addf("/overlap", `the scheme %s carries one signature, so that two secrets cannot sign at once; give "0s"`, scheme)
	case overlap > 0 && len(live) >= maxSigning:
		faults.Addf("/overlap", `%d secrets sign already, which is the most; wait until one expires, or give "0s"`, maxSigning)
	}
	if given != "" {
		secret, err = signer.ParseSecret(scheme, given)
		faults.Add("/secret", err)
	}
	if err == nil && len(live) > 0 && s.holds(e, scheme, live[0], secret) {
		faults.Addf("/secret", "is the secret that signs already")
	}
	return secret, faults.Err()
}

// holds reports whether a row has this very secret. A row that does not open holds none: rotating is the way out.
func (s *Store) holds(e id.ID, scheme signer.Scheme, r secretRow, secret signer.Secret) bool {
	stored, err := s.openSecret(e, scheme, r.KeyID, r.Sealed)
	return err == nil && stored.Reveal() == secret.Reveal()
}

// retire gives the current secret its end and deletes those that sign no more: all of them without an overlap, else
// the expired ones and one that comes back as the new secret, which would sign twice.
func (s *Store) retire(
	ctx context.Context, tx pgx.Tx, e id.ID, scheme signer.Scheme, live []secretRow, secret signer.Secret,
	now time.Time, overlap time.Duration,
) error {
	const query = `
UPDATE endpoint_secrets SET expires_at = @end
 WHERE shard = @shard AND endpoint_id = @endpoint AND expires_at IS NULL` // endpoint_secrets_current_key
	if overlap == 0 {
		return deleteSecrets(ctx, tx, e)
	}
	var keep []int64
	for _, r := range live {
		if !s.holds(e, scheme, r, secret) {
			keep = append(keep, r.ID)
		}
	}
	if err := deleteSecrets(ctx, tx, e, keep...); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, query, pgx.StrictNamedArgs{"shard": e.Shard, "endpoint": e.N, "end": now.Add(overlap)})
	if err != nil {
		return fmt.Errorf("end the current secret: %w", err)
	}
	return nil
}

// countVersion notes a change that no column of endpoints shows.
func countVersion(ctx context.Context, tx pgx.Tx, e id.ID, now time.Time) error {
	const query = `
UPDATE endpoints SET version = version + 1, updated_at = @now WHERE shard = @shard AND id = @id`
	if _, err := tx.Exec(ctx, query, pgx.StrictNamedArgs{"shard": e.Shard, "id": e.N, "now": now}); err != nil {
		return fmt.Errorf("count an endpoint's version: %w", err)
	}
	return nil
}
