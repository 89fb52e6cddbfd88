-- The register of the keys (of secrets.keys) that something in this database is sealed under. A process asks it once, at its
-- start, whether it has the keys that it will need, and so need not read what is sealed.
-- +goose Up

CREATE TABLE seal_keys (
    id            text        PRIMARY KEY, -- the first 8 hex digits of the key's SHA-256
    proof         bytea,                   -- a known text sealed under the key; null: nobody with the key has been here since
    first_used_at timestamptz NOT NULL,
    lost_at       timestamptz              -- the operator has given it up: what is sealed under it stays shut
);

-- What older versions have sealed.
INSERT INTO seal_keys (id, first_used_at)
SELECT key_id, min(created_at)
  FROM (SELECT key_id, created_at FROM endpoint_secrets
        UNION ALL
        SELECT headers_key_id, created_at FROM endpoints WHERE headers_key_id IS NOT NULL) used
 GROUP BY key_id;

-- +goose Down
DROP TABLE seal_keys;
