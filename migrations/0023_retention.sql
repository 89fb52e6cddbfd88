-- +goose Up
SET LOCAL lock_timeout = '5s'; -- whoever writes goes on

-- Which process does which job of upkeep. The term counts how often a job changed hands: what a process does for which only one
-- may do it names the term that it did it under.
CREATE TABLE job_leases (
    name         text        PRIMARY KEY,
    owner        bigint,     -- null: given back
    term         bigint      NOT NULL,
    leased_until timestamptz NOT NULL,
    wanted_by    bigint,     -- a command asks for it: whoever has it lets it go between two runs
    wanted_until timestamptz,
    CONSTRAINT job_leases_wanted CHECK ((wanted_by IS NULL) = (wanted_until IS NULL))
);

-- What retention has done to partitions that are still there: those of days that are over and hold what has to stay, and those of
-- days that are over for some tenants alone.
CREATE TABLE history_days (
    name      text        PRIMARY KEY, -- of the partition
    is_over   boolean     NOT NULL,    -- for all tenants that have no time of their own
    tenants   bigint[]    NOT NULL,    -- over: whose rows stay; else: whose rows are gone
    needed    bigint      NOT NULL,    -- rows that stayed for what is unfinished
    looked_at timestamptz NOT NULL
);

-- Null: retention.events and retention.attempts.
ALTER TABLE tenants ADD COLUMN keep_events_ms bigint, ADD COLUMN keep_attempts_ms bigint;
-- Not valid: there is nothing to check in rows that have none, and no reason to read the table under its lock.
ALTER TABLE tenants
    ADD CONSTRAINT tenants_keep_events CHECK (keep_events_ms BETWEEN 86400000 AND 315360000000) NOT VALID,
    ADD CONSTRAINT tenants_keep_attempts CHECK (keep_attempts_ms BETWEEN 86400000 AND 315360000000) NOT VALID;

ALTER TABLE jobs DROP CONSTRAINT jobs_kind_check;
ALTER TABLE jobs ADD CONSTRAINT jobs_kind_check CHECK (kind IN ('retry', 'cancel', 'replay', 'erase')) NOT VALID;

-- +goose Down
DELETE FROM job_chunks c USING jobs j WHERE j.shard = c.shard AND j.id = c.job_id AND j.kind = 'erase';
DELETE FROM jobs WHERE kind = 'erase';
ALTER TABLE jobs DROP CONSTRAINT jobs_kind_check;
ALTER TABLE jobs ADD CONSTRAINT jobs_kind_check CHECK (kind IN ('retry', 'cancel', 'replay'));
ALTER TABLE tenants DROP COLUMN keep_attempts_ms, DROP COLUMN keep_events_ms;
DROP TABLE history_days, job_leases;
