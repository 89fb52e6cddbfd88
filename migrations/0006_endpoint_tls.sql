-- What an endpoint's owner wants of TLS with its receiver, and what staff may read of an attempt that failed.
--
-- Certificates are public and stand as they are, in PEM; the key is sealed like a secret. A version of an endpoint
-- (endpoint_versions) knows nothing of them: it keeps what an attempt shows of its request, and a certificate is no part of that.
-- +goose Up

ALTER TABLE endpoints
    ADD COLUMN tls_ca          text  CHECK (tls_ca <> ''),          -- null: the system's authorities
    ADD COLUMN tls_certificate text  CHECK (tls_certificate <> ''), -- the client's own first; null: none is shown
    ADD COLUMN tls_key_sealed  bytea,                               -- PKCS#8; its additional data is not that of the secrets
    ADD COLUMN tls_key_id      text,
    ADD CONSTRAINT endpoints_tls_key CHECK (num_nulls(tls_certificate, tls_key_sealed, tls_key_id) IN (0, 3)),
    ADD CONSTRAINT endpoints_tls_deleted CHECK (deleted_at IS NULL OR num_nonnulls(tls_ca, tls_certificate) = 0);

-- The programs' own words for what went wrong, with addresses: error, beside it, is for tenants.
ALTER TABLE attempts ADD COLUMN error_detail text;

-- +goose Down
ALTER TABLE attempts DROP COLUMN error_detail;
ALTER TABLE endpoints
    DROP CONSTRAINT endpoints_tls_deleted, DROP CONSTRAINT endpoints_tls_key, DROP COLUMN tls_key_id,
    DROP COLUMN tls_key_sealed, DROP COLUMN tls_certificate, DROP COLUMN tls_ca;
