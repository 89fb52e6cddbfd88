-- What was tried, counted by time: attempts are too many to be counted when a page asks. Each process counts what it has
-- recorded and writes its counts here every now and then (docs/decisions/0023-figures.md).
--
-- A row is one count that one process keeps for one stretch of time and one outcome, and nobody else writes to it: it is
-- written over with what the count has come to, so to write it twice changes nothing. `id` tells counts apart.
-- +goose Up

-- Over all tenants, for the overview, and no tenant's: by the minute for as long as anybody looks that closely, and by the hour.
CREATE TABLE traffic (
    minutes      smallint    NOT NULL CHECK (minutes IN (1, 60)), -- how long a stretch is
    starts       timestamptz NOT NULL,                            -- attempts that ended from then on
    id           bigint      NOT NULL,
    outcome      outcome     NOT NULL,
    attempts     integer     NOT NULL CHECK (attempts >= 0),
    finished     integer     NOT NULL CHECK (finished >= 0),      -- deliveries that ended with one of them
    -- How many took how long: counts of neighbouring buckets of internal/stats/scale.go, from the latency_from-th on.
    latency_from smallint    NOT NULL CHECK (latency_from >= 0),
    latency      integer[]   NOT NULL,
    PRIMARY KEY (minutes, starts, id)
) WITH (fillfactor = 70);

-- By endpoint, in quarters of an hour. No column but the key's is in an index, so with room in the page an update is a HOT one.
CREATE TABLE endpoint_traffic (
    shard        smallint    NOT NULL,
    endpoint_id  bigint      NOT NULL,
    starts       timestamptz NOT NULL,
    id           bigint      NOT NULL,
    outcome      outcome     NOT NULL,
    attempts     integer     NOT NULL CHECK (attempts >= 0),
    finished     integer     NOT NULL CHECK (finished >= 0),
    latency_from smallint    NOT NULL CHECK (latency_from >= 0),
    latency      integer[]   NOT NULL,
    PRIMARY KEY (shard, endpoint_id, starts, id)
) WITH (fillfactor = 70);

-- How many endpoints are not enabled is counted for the overview; those that are, are the rest.
CREATE INDEX endpoints_not_enabled ON endpoints (shard, tenant_id, status) WHERE status <> 'enabled' AND deleted_at IS NULL;

-- +goose Down
DROP INDEX endpoints_not_enabled;
DROP TABLE traffic, endpoint_traffic;
