-- People in browsers: sessions of the console and of tenants' portals, the links that lead into a portal, and the two kinds of
-- somebody that the audit log knows since then.
--
-- Tokens are random; what is stored is their SHA-256. Both tables are asked by it before a tenant is known, as api_keys is, and
-- hold what lives for hours. No foreign keys: keys and tenants keep their rows, and each look asks whether they still stand.
-- +goose Up

CREATE TYPE session_method AS ENUM ('api_key', 'oidc', 'portal');
CREATE TYPE session_role AS ENUM ('viewer', 'support', 'admin');

CREATE TABLE sessions (
    hash         bytea          PRIMARY KEY CHECK (octet_length(hash) = 32),
    id           bigint         NOT NULL,                -- what the audit log calls it by: the token has to stay unknown
    method       session_method NOT NULL,                -- how it began; portal: it is one of a tenant's portal
    role         session_role,                           -- null: a portal has none
    read_only    boolean        NOT NULL DEFAULT false,  -- of a portal
    tenant_shard smallint,
    tenant_id    bigint,
    key_id       bigint,                                 -- the API key that was exchanged for it, or that made its link
    name         text           NOT NULL,                -- who acts, as the audit log shows it
    issuer       text,                                   -- with subject: who it is to the OpenID provider
    subject      text,
    created_at   timestamptz    NOT NULL,
    seen_at      timestamptz    NOT NULL,                -- to the minute or so
    expires_at   timestamptz    NOT NULL,
    CONSTRAINT sessions_tenant CHECK (num_nulls(tenant_shard, tenant_id) IN (0, 2)),
    CONSTRAINT sessions_portal CHECK ((method = 'portal') = (tenant_id IS NOT NULL) AND (method = 'portal') = (role IS NULL)),
    CONSTRAINT sessions_key CHECK (method <> 'api_key' OR key_id IS NOT NULL),
    CONSTRAINT sessions_user CHECK (num_nonnulls(issuer, subject) = CASE WHEN method = 'oidc' THEN 2 ELSE 0 END)
);
CREATE INDEX sessions_by_end ON sessions (expires_at);

-- A row is a link that nobody has used: using it deletes it.
CREATE TABLE portal_links (
    hash         bytea       PRIMARY KEY CHECK (octet_length(hash) = 32),
    tenant_shard smallint    NOT NULL,
    tenant_id    bigint      NOT NULL,
    key_id       bigint,     -- the API key that made it; null: somebody without one did
    read_only    boolean     NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL
);
CREATE INDEX portal_links_by_end ON portal_links (expires_at);

-- Values that are added are of no use before this transaction ends, which is soon enough; a new type would have the whole log
-- written anew under a lock.
ALTER TYPE audit_actor ADD VALUE 'user';
ALTER TYPE audit_actor ADD VALUE 'portal';

-- +goose Down
DROP TABLE portal_links, sessions;
DROP TYPE session_role, session_method;
-- A value cannot be taken out of a type. What people did in browsers stays in the log, as Postrider's own doing.
ALTER TABLE audit_log DROP CONSTRAINT audit_log_actor_key;
ALTER TYPE audit_actor RENAME TO audit_actor_wide;
CREATE TYPE audit_actor AS ENUM ('api_key', 'cli', 'system');
ALTER TABLE audit_log ALTER COLUMN actor TYPE audit_actor
    USING CASE WHEN actor::text IN ('user', 'portal') THEN 'system' ELSE actor::text END::audit_actor;
ALTER TABLE audit_log ADD CONSTRAINT audit_log_actor_key CHECK ((actor = 'api_key') = (actor_key IS NOT NULL));
DROP TYPE audit_actor_wide;
