package subscriptions

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/signer"
)

// secretRow is a row of endpoint_secrets without the parts that say whose it is.
type secretRow struct {
	ID        int64
	KeyID     string
	Sealed    []byte
	CreatedAt time.Time
	ExpiresAt *time.Time
}

// liveSecrets reads the secrets that sign at now, the current one first and then from new to old, which is the order of
// their ids: insertSecret sees to it. It goes by the primary key; an endpoint has a handful.
func liveSecrets(ctx context.Context, tx pgx.Tx, e id.ID, now time.Time) ([]secretRow, error) {
	const query = `
SELECT id, key_id, sealed, created_at, expires_at
  FROM endpoint_secrets
 WHERE shard = @shard AND endpoint_id = @endpoint AND (expires_at IS NULL OR expires_at > @now)
 ORDER BY id DESC`
	rows, err := tx.Query(ctx, query, pgx.StrictNamedArgs{"shard": e.Shard, "endpoint": e.N, "now": now})
	if err != nil {
		return nil, fmt.Errorf("read an endpoint's secrets: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByName[secretRow])
	if err != nil {
		return nil, fmt.Errorf("read an endpoint's secrets: %w", err)
	}
	return out, nil
}

// insertSecret adds the current secret. The caller has locked the endpoint and seen to it that there is no other
// current one. The id is above all others of the endpoint, also if another process with a faster clock made those.
func (s *Store) insertSecret(ctx context.Context, tx pgx.Tx, e id.ID, secret signer.Secret, now time.Time) error {
	const query = `
INSERT INTO endpoint_secrets (shard, endpoint_id, id, key_id, sealed, created_at)
SELECT @shard, @endpoint, greatest(@id::bigint, max(id) + 1), @key_id, @sealed, @now
  FROM endpoint_secrets
 WHERE shard = @shard AND endpoint_id = @endpoint`
	keyID, sealed, err := s.box.Seal(ctx, tx, []byte(secret.Reveal()), seal.EndpointAD(e), now)
	if err != nil {
		return fmt.Errorf("encrypt a secret: %w", err)
	}
	_, err = tx.Exec(ctx, query, pgx.StrictNamedArgs{
		"shard": e.Shard, "endpoint": e.N, "id": s.ids.Next(), "key_id": keyID, "sealed": sealed, "now": now,
	})
	if err != nil {
		return fmt.Errorf("write a secret: %w", err)
	}
	return nil
}

// deleteSecrets takes away all secrets of an endpoint but those with the ids to keep.
func deleteSecrets(ctx context.Context, tx pgx.Tx, e id.ID, keep ...int64) error {
	const query = `
DELETE FROM endpoint_secrets
 WHERE shard = @shard AND endpoint_id = @endpoint AND id <> ALL (@keep::bigint[])`
	if keep == nil {
		keep = []int64{}
	}
	_, err := tx.Exec(ctx, query, pgx.StrictNamedArgs{"shard": e.Shard, "endpoint": e.N, "keep": keep})
	if err != nil {
		return fmt.Errorf("delete secrets: %w", err)
	}
	return nil
}

func (s *Store) openSecret(e id.ID, scheme signer.Scheme, keyID string, sealed []byte) (signer.Secret, error) {
	plain, err := s.box.Open(keyID, sealed, seal.EndpointAD(e))
	if err != nil {
		return signer.Secret{}, fmt.Errorf("open a secret: %w", err)
	}
	secret, err := signer.ParseSecret(scheme, string(plain))
	if err != nil {
		return signer.Secret{}, fmt.Errorf("read a secret: %w", err)
	}
	return secret, nil
}

// orNew gives the secret that came along, or a new one.
func orNew(secret signer.Secret, scheme signer.Scheme) (signer.Secret, error) {
	if secret.Reveal() != "" {
		return secret, nil
	}
	secret, err := signer.NewSecret(scheme, rand.Reader)
	if err != nil {
		return signer.Secret{}, fmt.Errorf("make a secret: %w", err)
	}
	return secret, nil
}
