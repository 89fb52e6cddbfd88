package subscriptions

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/signer"
)

// Secret gives the secrets that sign for an endpoint now: the current one, then those that a rotation still lets sign,
// newest first. An error if the current one does not open under any of our keys: RotateSecret is the way out. An old one that
// does not open signs nothing (see openSecrets), and is left out.
func (s *Store) Secret(ctx context.Context, t Tenant, ref string) ([]SecretInfo, error) {
	var out []SecretInfo
	err := s.inTx(ctx, func(tx pgx.Tx, now time.Time) error {
		// The lock keeps the scheme from changing before the secrets are read, which are parsed by it.
		r, err := findEndpoint(ctx, tx, t.ID, ref, ` FOR SHARE OF e`)
		if err != nil {
			return err
		}
		live, err := liveSecrets(ctx, tx, r.id(), now)
		if err != nil {
			return err
		}
		out = make([]SecretInfo, 0, len(live))
		for i, l := range live {
			secret, err := s.openSecret(r.id(), signer.Scheme(r.Scheme), l.KeyID, l.Sealed)
			switch {
			case err != nil && i == 0:
				return fault.Wrap(fault.Conflict, err, "the secret cannot be read: %v; rotating makes a new one", errors.Unwrap(err))
			case err != nil:
				continue
			}
			out = append(out, SecretInfo{Secret: secret, CreatedAt: l.CreatedAt.UTC(), ExpiresAt: utc(l.ExpiresAt)})
		}
		// With this transaction's commit it is told, and only after that is anything shown.
		return s.note(ctx, tx, aboutEndpoint(r.id(), t.ID, audit.SecretRevealed, audit.Details{"secrets": len(out)}))
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
