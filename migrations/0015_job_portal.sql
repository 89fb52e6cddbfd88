-- Jobs know whether a tenant made them in its portal: there it sees those alone. What it may have made so far looks like all others.
-- +goose Up
ALTER TABLE jobs ADD COLUMN in_portal boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE jobs DROP COLUMN in_portal;
