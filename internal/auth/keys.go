package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// maxName bounds a key's name, in characters.
const maxName = 128

// Keys makes, lists, revokes and recognises API keys. It is safe for concurrent use.
type Keys struct {
	db    *pgxpool.Pool
	ids   *id.Generator
	now   func() time.Time // the database's clock, for what is stored
	cache *cache
	usage usage
}

// NewKeys makes the keeper of the keys. now reads the database's clock. It starts nothing; Close waits for what
// Authenticate may have going.
func NewKeys(db *pgxpool.Pool, ids *id.Generator, now func() time.Time) *Keys {
	return &Keys{db: db, ids: ids, now: now, cache: newCache(time.Now), usage: usage{noted: map[int64]time.Time{}}}
}

// Key is an API key as it may be shown: the text is not in it, only its hint.
type Key struct {
	ID         id.ID
	Name       string
	Hint       string // the first characters, such as "prk_ab12…"
	Scopes     []Scope
	Tenant     *id.ID // nil: all tenants
	CreatedAt  time.Time
	ExpiresAt  *time.Time // from then on it is no key any more; nil: never
	LastUsedAt *time.Time // to the minute or so; nil: never
}

// NewKey is what a key is made of.
type NewKey struct {
	Name   string
	Scopes []Scope
	Tenant *id.ID
	// ExpiresAt lies ahead, by maxLife at most; nil: it does not expire.
	ExpiresAt *time.Time
}

// maxLife is how far ahead a key's end may lie: what is later is a slip of the pen, or means never.
const maxLife = 10 * 366 * 24 * time.Hour

func (n NewKey) check(now time.Time) error {
	var at fault.Fields
	if err := checkName(n.Name); err != nil {
		at.Add("/name", err)
	}
	if len(n.Scopes) == 0 {
		at.Addf("/scopes", "at least one scope is needed")
	}
	for i, s := range n.Scopes {
		if !slices.Contains(Scopes(), s) {
			at.Addf(fmt.Sprintf("/scopes/%d", i), "is none of %s", names(Scopes()))
		}
	}
	if n.ExpiresAt != nil {
		switch ahead := n.ExpiresAt.Sub(now); {
		case ahead <= 0:
			at.Addf("/expires_at", "has passed: a key has to end later than now")
		case ahead > maxLife:
			at.Addf("/expires_at", "lies more than ten years ahead; leave it out for a key that does not expire")
		}
	}
	return at.Err()
}

func checkName(name string) error {
	switch {
	case strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > maxName:
		return fmt.Errorf("a name has 1 to %d characters", maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("a name has no control characters and is UTF-8")
	case name == bootstrapName || name == replacedName:
		return fmt.Errorf("this name is kept for the key of the configuration")
	}
	return nil
}

func names(scopes []Scope) string {
	all := make([]string, len(scopes))
	for i, s := range scopes {
		all[i] = string(s)
	}
	return strings.Join(all, ", ")
}

// A deleted tenant gets no key: its row is there for the foreign key, so this asks for itself.
const createSQL = `
INSERT INTO api_keys (id, name, hash, hint, scopes, tenant_shard, tenant_id, created_at, expires_at)
SELECT @id, @name, @hash, @hint, @scopes, @shard::smallint, @tenant::bigint, @now, @expires::timestamptz
WHERE @tenant::bigint IS NULL
   OR EXISTS (SELECT FROM tenants WHERE shard = @shard AND id = @tenant AND deleted_at IS NULL)`

// Create makes a key and gives its text, this once: only the hash is kept. It fails with Invalid, naming the places, and
// with NotFound when the tenant is not there.
func (k *Keys) Create(ctx context.Context, n NewKey) (Key, string, error) {
	now := k.now()
	if err := n.check(now); err != nil {
		return Key{}, "", err
	}
	text := newText()
	key := Key{
		ID: id.ID{N: k.ids.Next()}, Name: n.Name, Hint: hint(text), Scopes: distinct(n.Scopes), Tenant: n.Tenant,
		CreatedAt: now, ExpiresAt: n.ExpiresAt,
	}
	hash := hashOf(text)
	args := pgx.StrictNamedArgs{
		"id": key.ID.N, "name": key.Name, "hash": hash[:], "hint": key.Hint, "scopes": key.Scopes,
		"shard": nil, "tenant": nil, "now": key.CreatedAt, "expires": key.ExpiresAt,
	}
	if n.Tenant != nil {
		args["shard"], args["tenant"] = n.Tenant.Shard, n.Tenant.N
	}
	err := pg.InTx(ctx, k.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, createSQL, args)
		if err != nil {
			return fmt.Errorf("store an API key: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return fault.New(fault.NotFound, "no such tenant")
		}
		return k.note(ctx, tx, audit.KeyCreated, key)
	})
	if err != nil {
		return Key{}, "", err
	}
	return key, text, nil
}

// note writes an entry about a key into the transaction of what was done to it.
func (k *Keys) note(ctx context.Context, tx pgx.Tx, action audit.Action, key Key) error {
	details := audit.Details{"name": key.Name, "hint": key.Hint, "scopes": key.Scopes}
	if key.ExpiresAt != nil {
		details["expires_at"] = key.ExpiresAt.UTC().Format(time.RFC3339)
	}
	return audit.Write(ctx, tx, k.ids.Next, audit.Entry{ //nolint:wrapcheck // it says what it did
		Action: action, Object: audit.Thing{Kind: id.Key, ID: key.ID}, Tenant: key.Tenant, Details: details,
	})
}

func distinct(scopes []Scope) []Scope {
	out := make([]Scope, 0, len(scopes))
	for _, s := range scopes {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// keyColumns are what scanKey reads.
const keyColumns = `id, name, hint, scopes, tenant_shard, tenant_id, created_at, last_used_at, expires_at`

// Uses the primary key.
const listSQL = `
SELECT ` + keyColumns + `
FROM api_keys
WHERE revoked_at IS NULL AND (@before::bigint = 0 OR id < @before)
ORDER BY id DESC
LIMIT @limit`

// List gives the keys that are not revoked, expired ones too, newest first, from the one after before on (the zero id: from
// the newest).
func (k *Keys) List(ctx context.Context, limit int, before id.ID) ([]Key, error) {
	return k.list(ctx, listSQL, pgx.StrictNamedArgs{"before": before.N, "limit": limit})
}

func (k *Keys) list(ctx context.Context, sql string, args pgx.StrictNamedArgs) ([]Key, error) {
	rows, err := k.db.Query(ctx, sql, args)
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("list API keys: %w", err))
	}
	keys, err := pgx.CollectRows(rows, scanKey)
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("list API keys: %w", err))
	}
	return keys, nil
}

// Reads the table, from the newest key on: the keys of all tenants are not so many that a page needs an index of it.
const ofTenantSQL = `
SELECT ` + keyColumns + `
FROM api_keys
WHERE tenant_shard = @shard AND tenant_id = @tenant AND revoked_at IS NULL
ORDER BY id DESC
LIMIT @limit`

// OfTenant gives the newest keys that are bound to a tenant and not revoked, expired ones too.
func (k *Keys) OfTenant(ctx context.Context, tenant id.ID, limit int) ([]Key, error) {
	return k.list(ctx, ofTenantSQL, pgx.StrictNamedArgs{"shard": tenant.Shard, "tenant": tenant.N, "limit": limit})
}

// Uses the primary key.
const getSQL = `
SELECT ` + keyColumns + `
FROM api_keys
WHERE id = @id AND revoked_at IS NULL`

// Get gives one key. A revoked one is not found, like one that never was.
func (k *Keys) Get(ctx context.Context, key id.ID) (Key, error) {
	rows, err := k.db.Query(ctx, getSQL, pgx.StrictNamedArgs{"id": number(key)})
	if err != nil {
		return Key{}, pg.Fault(fmt.Errorf("read an API key: %w", err))
	}
	found, err := pgx.CollectExactlyOneRow(rows, scanKey)
	if err != nil {
		return Key{}, pg.Fault(fmt.Errorf("read an API key: %w", err))
	}
	return found, nil
}

// The row stays, as the record of who could once call; its hash keeps the same text from being a key again.
const revokeSQL = `
UPDATE api_keys SET revoked_at = @now WHERE id = @id AND revoked_at IS NULL
RETURNING ` + keyColumns

// Revoke ends a key. In this process it is refused from now on, in others within the second that they may remember it.
func (k *Keys) Revoke(ctx context.Context, key id.ID) error {
	err := pg.InTx(ctx, k.db, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, revokeSQL, pgx.StrictNamedArgs{"id": number(key), "now": k.now()})
		if err != nil {
			return fmt.Errorf("revoke an API key: %w", err)
		}
		revoked, err := pgx.CollectExactlyOneRow(rows, scanKey)
		if errors.Is(err, pgx.ErrNoRows) {
			return fault.New(fault.NotFound, "no such API key")
		}
		if err != nil {
			return fmt.Errorf("revoke an API key: %w", err)
		}
		return k.note(ctx, tx, audit.KeyRevoked, revoked)
	})
	k.cache.clear()
	return err //nolint:wrapcheck // it says what it did
}

// Forget has every key be looked up again: those of a tenant that was just deleted are none any more.
func (k *Keys) Forget() { k.cache.clear() }

// number gives the key's number, or one that no key has when the id names a bucket: keys lie in none.
func number(key id.ID) int64 {
	if key.Shard != 0 {
		return 0
	}
	return key.N
}

func scanKey(row pgx.CollectableRow) (Key, error) {
	var key Key
	var shard *int16
	var tenant *int64
	err := row.Scan(&key.ID.N, &key.Name, &key.Hint, &key.Scopes, &shard, &tenant, &key.CreatedAt, &key.LastUsedAt,
		&key.ExpiresAt)
	if err != nil {
		return Key{}, fmt.Errorf("read an API key's row: %w", err)
	}
	key.Tenant = tenantID(shard, tenant)
	return key, nil
}

func tenantID(shard *int16, n *int64) *id.ID {
	if shard == nil || n == nil {
		return nil
	}
	return &id.ID{Shard: *shard, N: *n}
}
