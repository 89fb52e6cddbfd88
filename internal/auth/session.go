package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// SessionKind is which pages a session is for: the token of one opens nothing of the other.
type SessionKind string

// The kinds.
const (
	ConsoleSession SessionKind = "console"
	PortalSession  SessionKind = "portal"
)

// Method is how a session began.
type Method string

// The methods.
const (
	MethodKey    Method = "api_key" // an API key was exchanged for it
	MethodOIDC   Method = "oidc"    // the OpenID provider said who it is
	MethodPortal Method = "portal"  // a link into a tenant's portal
)

// Session is somebody in a browser.
type Session struct {
	ID        id.ID // in the tenant's bucket if it is one of a portal, else in 0
	Principal Principal
	Role      Role // of the console
	Portal    bool // of the tenant that the principal is bound to
	ReadOnly  bool // of a portal
	CreatedAt time.Time
	ExpiresAt time.Time
	Method    Method
}

// SessionOptions say how long sessions last.
type SessionOptions struct {
	Console time.Duration // at most; 0: 12 hours
	Idle    time.Duration // without a request of the visitor's, in the console; 0: 2 hours
	Portal  time.Duration // after the link was used; 0: an hour
}

// Sessions starts, resumes and ends sessions and makes the links into portals. It is the one writer of their tables, and safe
// for concurrent use. It remembers nothing: what ends a session ends it in every process at once.
type Sessions struct {
	db   *pgxpool.Pool
	ids  *id.Generator
	keys *Keys
	now  func() time.Time // the database's clock
	opts SessionOptions
}

// NewSessions makes the keeper of the sessions. now reads the database's clock. It starts nothing.
func NewSessions(db *pgxpool.Pool, ids *id.Generator, keys *Keys, now func() time.Time, opts SessionOptions) *Sessions {
	opts.Console = cmp.Or(opts.Console, 12*time.Hour)
	opts.Idle = cmp.Or(opts.Idle, 2*time.Hour)
	opts.Portal = cmp.Or(opts.Portal, time.Hour)
	return &Sessions{db: db, ids: ids, keys: keys, now: now, opts: opts}
}

const (
	sessionPrefix = "prs_"
	linkPrefix    = "prl_"
	tokenLen      = len(sessionPrefix) + 43
	// seenEvery is how often it is written that a session was used, which the idle time is counted from.
	seenEvery = time.Minute
)

func noSession() error {
	return fault.New(fault.Unauthenticated, "nobody is signed in, or not any more")
}

// tokenHash is what a token is stored as, if it can be one.
func tokenHash(prefix, token string) ([]byte, bool) {
	if len(token) != tokenLen || !strings.HasPrefix(token, prefix) {
		return nil, false
	}
	hash := hashOf(token)
	return hash[:], true
}

// stands is what a session or link needs of the key and the tenant that it hangs on: x is the row, k and t are theirs.
const stands = `
    (x.key_id IS NULL OR k.id IS NOT NULL AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > @now))
    AND (x.tenant_id IS NULL OR t.id IS NOT NULL AND t.deleted_at IS NULL)`

const sessionColumns = `x.id, x.method::text, coalesce(x.role::text, ''), x.read_only, x.tenant_shard, x.tenant_id, x.key_id, x.name,
    x.created_at, x.seen_at, x.expires_at`

// Uses the primary keys. That the row is found by an index gives no token away: see Keys.lookUp.
const resumeSQL = `
SELECT ` + sessionColumns + `, k.scopes
FROM sessions x
LEFT JOIN api_keys k ON k.id = x.key_id
LEFT JOIN tenants t ON t.shard = x.tenant_shard AND t.id = x.tenant_id
WHERE x.hash = @hash AND x.expires_at > @now AND (x.method = 'portal') = @portal
    AND (x.method = 'portal' OR x.seen_at > @idle) AND` + stands

// Other requests of the session write it as well: whoever comes first in a minute.
const seenSQL = `UPDATE sessions SET seen_at = @now WHERE hash = @hash AND seen_at <= @before`

// Resume says whose token it is. It fails with Unauthenticated when it is nobody's: unknown, of the other kind, too old, idle
// for too long, and when the key that it came from or its tenant is no more.
func (s *Sessions) Resume(ctx context.Context, kind SessionKind, token string) (Session, error) {
	now := s.now()
	row, hash, err := s.lookUp(ctx, kind, token, now)
	if err != nil {
		return Session{}, err
	}
	if now.Sub(row.seen) >= seenEvery {
		// What could not be written is no harm; the next time is a minute away.
		_, _ = s.db.Exec(ctx, seenSQL, pgx.StrictNamedArgs{"hash": hash, "now": now, "before": now.Add(-seenEvery)})
	}
	return row.Session, nil
}

// Watch is Resume for what a page asks for by itself. That is no use of the session: who has left a page open idles.
func (s *Sessions) Watch(ctx context.Context, kind SessionKind, token string) (Session, error) {
	row, _, err := s.lookUp(ctx, kind, token, s.now())
	return row.Session, err
}

func (s *Sessions) lookUp(ctx context.Context, kind SessionKind, token string, now time.Time) (row sessionRow, hash []byte, err error) {
	hash, ok := tokenHash(sessionPrefix, token)
	if !ok {
		return sessionRow{}, nil, noSession()
	}
	rows, err := s.db.Query(ctx, resumeSQL, pgx.StrictNamedArgs{
		"hash": hash, "now": now, "portal": kind == PortalSession, "idle": now.Add(-s.opts.Idle),
	})
	if err == nil {
		row, err = pgx.CollectExactlyOneRow(rows, scanSession)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return sessionRow{}, nil, noSession()
	}
	if err != nil {
		return sessionRow{}, nil, pg.Fault(fmt.Errorf("look a session up: %w", err))
	}
	return row, hash, nil
}

// sessionRow is a session as it is stored.
type sessionRow struct {
	Session
	seen time.Time
}

func scanSession(row pgx.CollectableRow) (sessionRow, error) {
	var r sessionRow
	var name string
	var shard *int16
	var tenant, key *int64
	var scopes []Scope
	err := row.Scan(&r.ID.N, &r.Method, &r.Role, &r.ReadOnly, &shard, &tenant, &key, &name, &r.CreatedAt, &r.seen, &r.ExpiresAt,
		&scopes)
	if err != nil {
		return sessionRow{}, fmt.Errorf("read a session's row: %w", err)
	}
	if at := tenantID(shard, tenant); at != nil {
		r.ID.Shard = at.Shard
		r.Portal, r.Principal = true, portalPrincipal(*at, name, r.ReadOnly)
		return r, nil
	}
	r.Principal = Principal{As: audit.ByUser, Name: name, Scopes: r.Role.Scopes()}
	if r.Method == MethodKey && key != nil {
		r.Principal = keyPrincipal(id.ID{N: *key}, name, r.Role, scopes)
	}
	return r, nil
}

// keyPrincipal is who signed in with a key: as the role is, and no more than the key is.
func keyPrincipal(key id.ID, name string, role Role, scopes []Scope) Principal {
	p := Principal{As: audit.ByKey, Key: key, Name: name}
	held := Principal{Scopes: scopes}
	p.Scopes = slices.DeleteFunc(role.Scopes(), func(s Scope) bool { return !held.Has(s) })
	return p
}

const endSQL = `
DELETE FROM sessions x WHERE x.hash = @hash
RETURNING ` + sessionColumns + `, NULL::text[]`

// End ends a session, of either kind. One that is no more is ended already.
func (s *Sessions) End(ctx context.Context, token string) error {
	hash, ok := tokenHash(sessionPrefix, token)
	if !ok {
		return nil
	}
	return pg.InTx(ctx, s.db, func(tx pgx.Tx) error { //nolint:wrapcheck // it says what it did
		rows, err := tx.Query(ctx, endSQL, pgx.StrictNamedArgs{"hash": hash})
		if err != nil {
			return fmt.Errorf("end a session: %w", err)
		}
		ended, err := pgx.CollectExactlyOneRow(rows, scanSession)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("end a session: %w", err)
		}
		return s.note(ctx, tx, audit.SessionEnded, ended.Session, nil)
	})
}

// note writes an entry of what somebody did with their own session.
func (s *Sessions) note(ctx context.Context, tx pgx.Tx, action audit.Action, of Session, more audit.Details) error {
	details := audit.Details{"method": of.Method}
	if of.Portal {
		details["read_only"] = of.ReadOnly
	} else {
		details["role"] = of.Role
	}
	maps.Copy(details, more)
	ctx = audit.With(ctx, ActorOf(ctx, of.Principal))
	return audit.Write(ctx, tx, s.ids.Next, audit.Entry{ //nolint:wrapcheck // it says what it did
		Action: action, Object: audit.Thing{Kind: id.Session, ID: of.ID}, Tenant: of.Principal.Tenant, Details: details,
	})
}

// By the indexes of their ends. Those that only idle are ended where they are asked for, and dropped when their time is over.
const dropEndedSQL = `
WITH links AS (DELETE FROM portal_links WHERE expires_at <= @now RETURNING 1),
     ended AS (DELETE FROM sessions WHERE expires_at <= @now RETURNING 1)
SELECT (SELECT count(*) FROM links) + (SELECT count(*) FROM ended)`

// DropEnded deletes the sessions and links whose time is over, and says how many.
func (s *Sessions) DropEnded(ctx context.Context) (n int64, err error) {
	if err := s.db.QueryRow(ctx, dropEndedSQL, pgx.StrictNamedArgs{"now": s.now()}).Scan(&n); err != nil {
		return 0, pg.Fault(fmt.Errorf("delete sessions that have ended: %w", err))
	}
	return n, nil
}

// newToken makes a token and what is stored of it.
func newToken(prefix string) (token string, hash []byte) {
	token = random(prefix)
	sum := hashOf(token)
	return token, sum[:]
}
