package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// A session ends with its key at the latest. The key is looked at once more, for who exchanges it may come with a memory of it.
const signInSQL = `
INSERT INTO sessions (hash, id, method, role, key_id, name, created_at, seen_at, expires_at)
SELECT @hash, @id, 'api_key', @role::text::session_role, k.id, k.name, @now, @now, least(@expires::timestamptz, k.expires_at)
FROM api_keys k
WHERE k.id = @key AND k.revoked_at IS NULL AND k.tenant_id IS NULL AND (k.expires_at IS NULL OR k.expires_at > @now)
RETURNING expires_at`

// SignIn exchanges an API key, which the caller came in with, for a session of the console. It fails with Forbidden, and says
// why, when the key is one that the console is not for.
func (s *Sessions) SignIn(ctx context.Context, p Principal) (token string, _ Session, err error) {
	role := roleOf(p)
	switch {
	case p.As != audit.ByKey:
		return "", Session{}, fault.New(fault.Forbidden, "only an API key can be exchanged for a session")
	case !p.SeesAll():
		return "", Session{}, fault.New(fault.Forbidden, "this key is bound to one tenant, and the console shows all: "+
			"use a key that is bound to none, or a link into the tenant's portal")
	case role == "":
		return "", Session{}, fault.New(fault.Forbidden, "the console needs a key with the scope %s", DeliveriesRead)
	}
	of := s.fresh(MethodKey, s.opts.Console)
	of.Role, of.Principal = role, keyPrincipal(p.Key, p.Name, role, p.Scopes)
	token, hash := newToken(sessionPrefix)
	err = pg.InTx(ctx, s.db, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, signInSQL, pgx.StrictNamedArgs{
			"hash": hash, "id": of.ID.N, "role": string(role), "key": number(p.Key), "now": of.CreatedAt,
			"expires": of.CreatedAt.Add(s.opts.Console),
		}).Scan(&of.ExpiresAt)
		if errors.Is(err, pgx.ErrNoRows) {
			s.keys.Forget()
			return unknownKey()
		}
		if err != nil {
			return fmt.Errorf("start a session: %w", err)
		}
		return s.note(ctx, tx, audit.SessionStarted, of, nil)
	})
	if err != nil {
		return "", Session{}, err //nolint:wrapcheck // it says what it did
	}
	return token, of, nil
}

const signInUserSQL = `
INSERT INTO sessions (hash, id, method, role, name, issuer, subject, created_at, seen_at, expires_at)
VALUES (@hash, @id, 'oidc', @role::text::session_role, @name, @issuer, @subject, @now, @now, @expires)`

// SignInUser starts a session of the console for somebody whom the OpenID provider has vouched for. name is how they are shown.
func (s *Sessions) SignInUser(ctx context.Context, issuer, subject, name string, role Role) (token string, _ Session, err error) {
	switch {
	case !slices.Contains(Roles(), role):
		return "", Session{}, fault.New(fault.Forbidden, "you have no role here")
	case issuer == "" || subject == "":
		return "", Session{}, fault.New(fault.Unauthenticated, "the provider did not say who you are")
	}
	issuer, subject, name = storable(issuer), storable(subject), storable(cmp.Or(name, subject))
	of := s.fresh(MethodOIDC, s.opts.Console)
	of.Role, of.Principal = role, Principal{As: audit.ByUser, Name: name, Scopes: role.Scopes()}
	token, hash := newToken(sessionPrefix)
	err = pg.InTx(ctx, s.db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, signInUserSQL, pgx.StrictNamedArgs{
			"hash": hash, "id": of.ID.N, "role": string(role), "name": of.Principal.Name, "issuer": issuer,
			"subject": subject, "now": of.CreatedAt, "expires": of.ExpiresAt,
		})
		if err != nil {
			return fmt.Errorf("start a session: %w", err)
		}
		return s.note(ctx, tx, audit.SessionStarted, of, audit.Details{"issuer": issuer, "subject": subject})
	})
	if err != nil {
		return "", Session{}, err //nolint:wrapcheck // it says what it did
	}
	return token, of, nil
}

// storable makes fit for a column what a provider says, which may be any text of any length.
func storable(said string) string {
	const most = 256 // characters: a subject has 255 at most
	said = strings.ReplaceAll(strings.ToValidUTF8(said, "\uFFFD"), "\x00", "\uFFFD")
	if runes := []rune(said); len(runes) > most {
		return string(runes[:most])
	}
	return said
}

// fresh is a session that begins now.
func (s *Sessions) fresh(method Method, lasts time.Duration) Session {
	now := s.now()
	return Session{ID: id.ID{N: s.ids.Next()}, Method: method, CreatedAt: now, ExpiresAt: now.Add(lasts)}
}
