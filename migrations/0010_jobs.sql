-- Work on many deliveries at once: retries, cancellations and replays, as jobs that survive a restart.
--
-- `deliveries.origin` says that a job has put a delivery there. It is null for all others, and a row of deliveries, as one of
-- attempts, has nulls anyhow: so what is not used costs no byte of the row. A `boolean NOT NULL DEFAULT false` would have been
-- free as well where alignment leaves a gap, but not beside a group_id.
-- +goose Up

-- 1: retried together with many others, 2: replayed, which its requests say. Both wait with the retries, so that what is new
-- goes first. No CHECK: it would be asked for each claim.
ALTER TABLE deliveries ADD COLUMN origin smallint;
-- Whether the request said postrider-replay; null: no.
ALTER TABLE attempts ADD COLUMN replay boolean;

CREATE TYPE job_state AS ENUM ('queued', 'running', 'succeeded', 'failed', 'cancelled');

-- A tenant's jobs lie in its bucket, those over all tenants in 0, as API keys do.
CREATE TABLE jobs (
    shard            smallint    NOT NULL,
    id               bigint      NOT NULL, -- says when, and bounds it: what is newer is not meant
    tenant_id        bigint,               -- null: the operator's, over all tenants
    kind             text        NOT NULL CHECK (kind IN ('retry', 'cancel', 'replay')),
    state            job_state   NOT NULL DEFAULT 'queued',
    spec             json        NOT NULL, -- what was asked for, as it is shown
    created_by       text        NOT NULL,
    matched          bigint      NOT NULL CHECK (matched >= 0),
    matched_at_least boolean     NOT NULL DEFAULT false,
    done             bigint      NOT NULL DEFAULT 0,
    skipped          bigint      NOT NULL DEFAULT 0,
    error            text,
    -- How far it has come. It moves in the transaction of the work, so that a restart does nothing twice.
    gathered         boolean     NOT NULL, -- all that is meant stands in job_chunks, or nothing has to
    chunks           integer     NOT NULL DEFAULT 0,
    cursor_shard     smallint    NOT NULL DEFAULT 0,
    cursor_id        bigint      NOT NULL DEFAULT 0,
    -- Who works on it, when it may go on, and how often in a row it could not.
    next_at          timestamptz NOT NULL,
    lease_owner      bigint,
    leased_until     timestamptz,
    tries            integer     NOT NULL DEFAULT 0,
    started_at       timestamptz,
    finished_at      timestamptz,
    PRIMARY KEY (shard, id),
    CONSTRAINT jobs_finished CHECK ((state IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT jobs_lease CHECK ((lease_owner IS NULL) = (leased_until IS NULL) AND (lease_owner IS NULL OR state = 'running')),
    CONSTRAINT jobs_error CHECK ((state = 'failed') = (error IS NOT NULL))
);
-- What there is to do: hardly ever more than a few rows.
CREATE INDEX jobs_unfinished ON jobs (shard, next_at) WHERE state IN ('queued', 'running');

-- The deliveries that a job is about, as they were found: some hundred a row, gone with the work that is done on them.
CREATE TABLE job_chunks (
    shard  smallint   NOT NULL,
    job_id bigint     NOT NULL,
    n      integer    NOT NULL,
    shards smallint[] NOT NULL,
    ids    bigint[]   NOT NULL,
    PRIMARY KEY (shard, job_id, n),
    FOREIGN KEY (shard, job_id) REFERENCES jobs (shard, id),
    CONSTRAINT job_chunks_pairs CHECK (cardinality(shards) = cardinality(ids))
);

-- +goose Down
DROP TABLE job_chunks;
DROP TABLE jobs;
DROP TYPE job_state;
ALTER TABLE attempts DROP COLUMN replay;
ALTER TABLE deliveries DROP COLUMN origin;
