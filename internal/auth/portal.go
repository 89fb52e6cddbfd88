package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// The bounds of how long a link into a portal is good, and what it is if nothing is said.
const (
	PortalLinkFor    = 5 * time.Minute
	MinPortalLinkFor = time.Minute
	MaxPortalLinkFor = time.Hour
)

// PortalLinkOptions say what a link is to be.
type PortalLinkOptions struct {
	ExpiresIn time.Duration // until it is used; 0: PortalLinkFor
	ReadOnly  bool          // who enters by it may look and change nothing
	By        Principal     // who makes it; the link and what it opened end with the key, if it is one's
}

func badLink() error {
	return fault.New(fault.Unauthenticated, "this link has been used already, or its time is over: ask for a new one")
}

const createLinkSQL = `
INSERT INTO portal_links (hash, tenant_shard, tenant_id, key_id, read_only, created_at, expires_at)
SELECT @hash, t.shard, t.id, nullif(@key::bigint, 0), @read_only, @now, @expires
FROM tenants t WHERE t.shard = @shard AND t.id = @tenant AND t.deleted_at IS NULL`

// CreatePortalLink makes the token of a link that opens the tenant's portal once. It fails with Invalid when it is to be good
// for too short or too long a time, and with NotFound when there is no such tenant for who makes it.
func (s *Sessions) CreatePortalLink(ctx context.Context, tenant id.ID, o PortalLinkOptions) (token string, expiresAt time.Time, err error) {
	if o.ExpiresIn == 0 {
		o.ExpiresIn = PortalLinkFor
	}
	switch {
	case o.ExpiresIn < MinPortalLinkFor || o.ExpiresIn > MaxPortalLinkFor:
		return "", time.Time{}, fault.InvalidAt("/expires_in", "has to be %s to %s", "1m", "1h")
	case !o.By.MaySee(tenant):
		return "", time.Time{}, fault.New(fault.NotFound, "no such tenant")
	}
	now := s.now()
	expiresAt = now.Add(o.ExpiresIn)
	token, hash := newToken(linkPrefix)
	err = pg.InTx(ctx, s.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, createLinkSQL, pgx.StrictNamedArgs{
			"hash": hash, "shard": tenant.Shard, "tenant": tenant.N, "key": o.By.Key.N, "read_only": o.ReadOnly,
			"now": now, "expires": expiresAt,
		})
		if err != nil {
			return fmt.Errorf("make a link into a portal: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return fault.New(fault.NotFound, "no such tenant")
		}
		return audit.Write(ctx, tx, s.ids.Next, audit.Entry{ //nolint:wrapcheck // it says what it did
			Action: audit.PortalLinkCreated, Object: audit.Thing{Kind: id.Tenant, ID: tenant}, Tenant: &tenant,
			Details: audit.Details{"read_only": o.ReadOnly, "expires_at": expiresAt.UTC().Format(time.RFC3339)},
		})
	})
	if err != nil {
		return "", time.Time{}, err //nolint:wrapcheck // it says what it did
	}
	return token, expiresAt, nil
}

// Uses the primary keys.
const peekLinkSQL = `
SELECT x.tenant_shard, x.tenant_id
FROM portal_links x
LEFT JOIN api_keys k ON k.id = x.key_id
LEFT JOIN tenants t ON t.shard = x.tenant_shard AND t.id = x.tenant_id
WHERE x.hash = @hash AND x.expires_at > @now AND` + stands

// PeekPortalLink says whose portal a link opens, and leaves it as it is: what previews links must not spend them. It fails with
// Unauthenticated when it opens none.
func (s *Sessions) PeekPortalLink(ctx context.Context, token string) (tenant id.ID, err error) {
	hash, ok := tokenHash(linkPrefix, token)
	if !ok {
		return id.ID{}, badLink()
	}
	err = s.db.QueryRow(ctx, peekLinkSQL, pgx.StrictNamedArgs{"hash": hash, "now": s.now()}).Scan(&tenant.Shard, &tenant.N)
	if errors.Is(err, pgx.ErrNoRows) {
		return id.ID{}, badLink()
	}
	if err != nil {
		return id.ID{}, pg.Fault(fmt.Errorf("look a link into a portal up: %w", err))
	}
	return tenant, nil
}

// The row goes in the statement that finds it: of several who come with one link, the first has it, and the others wait for
// that one's commit and then find nothing.
const enterSQL = `
WITH x AS (
    DELETE FROM portal_links WHERE hash = @link AND expires_at > @now
    RETURNING tenant_shard, tenant_id, key_id, read_only
)
INSERT INTO sessions (hash, id, method, read_only, tenant_shard, tenant_id, key_id, name, created_at, seen_at, expires_at)
SELECT @hash, @id, 'portal', x.read_only, x.tenant_shard, x.tenant_id, x.key_id, t.name, @now, @now,
    least(@expires::timestamptz, k.expires_at)
FROM x
LEFT JOIN api_keys k ON k.id = x.key_id
LEFT JOIN tenants t ON t.shard = x.tenant_shard AND t.id = x.tenant_id
WHERE` + stands + `
RETURNING read_only, tenant_shard, tenant_id, name, expires_at`

// EnterPortal spends a link and starts a session of its tenant's portal. It fails with Unauthenticated when it opens none.
func (s *Sessions) EnterPortal(ctx context.Context, linkToken string) (token string, _ Session, err error) {
	link, ok := tokenHash(linkPrefix, linkToken)
	if !ok {
		return "", Session{}, badLink()
	}
	of := s.fresh(MethodPortal, s.opts.Portal)
	of.Portal = true
	token, hash := newToken(sessionPrefix)
	err = pg.InTx(ctx, s.db, func(tx pgx.Tx) error {
		var tenant id.ID
		var name string
		err := tx.QueryRow(ctx, enterSQL, pgx.StrictNamedArgs{
			"link": link, "hash": hash, "id": of.ID.N, "now": of.CreatedAt, "expires": of.ExpiresAt,
		}).Scan(&of.ReadOnly, &tenant.Shard, &tenant.N, &name, &of.ExpiresAt)
		if errors.Is(err, pgx.ErrNoRows) {
			return badLink()
		}
		if err != nil {
			return fmt.Errorf("enter a portal: %w", err)
		}
		of.ID.Shard, of.Principal = tenant.Shard, portalPrincipal(tenant, name, of.ReadOnly)
		return s.note(ctx, tx, audit.PortalEntered, of, nil)
	})
	if err != nil {
		return "", Session{}, err //nolint:wrapcheck // it says what it did
	}
	return token, of, nil
}

// portalPrincipal is somebody of the tenant, who has no name of their own here.
func portalPrincipal(tenant id.ID, name string, readOnly bool) Principal {
	return Principal{As: audit.ByPortal, Name: name, Tenant: &tenant, Scopes: portalScopes(readOnly)}
}
