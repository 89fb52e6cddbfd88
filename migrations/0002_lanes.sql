-- The queue at full speed: a claim that touches no index, first attempts apart from retries, deliveries in order, an event
-- that knows its deliveries, and rows no wider than they have to be.
--
-- `state` and the lease leave every index, so that a claim is a HOT update: it writes the row and nothing else. What a
-- claim reads past for that is what the endpoint has in flight, which its cap bounds. The rescue, which looked for leases
-- by an index, reads the table instead, seldom.
--
-- An event names its deliveries (`delivery_ids`) instead of two indexes on the deliveries' event_id: a delivery would pay
-- for those twice, an event pays 8 bytes for each.
--
-- The three tables that every attempt writes are made anew with their columns in another order: the narrow ones fill the
-- gaps that alignment would leave, and what a claim changes stands together, since the write-ahead log has all that lies
-- between the first and the last change. Together with the smaller set of indexes that is a third less log.
-- +goose Up
-- Nobody may add to them between the copy and the swap. It takes as long as copying them does, and two to three times their space.
LOCK TABLE events, deliveries, deliveries_finished, attempts IN ACCESS EXCLUSIVE MODE;

CREATE TEMPORARY TABLE kept_deliveries ON COMMIT DROP AS SELECT * FROM deliveries;
CREATE TEMPORARY TABLE kept_finished ON COMMIT DROP AS SELECT * FROM deliveries_finished;
CREATE TEMPORARY TABLE kept_attempts ON COMMIT DROP AS SELECT * FROM attempts;
CREATE TEMPORARY TABLE kept_partitions ON COMMIT DROP AS
SELECT parent.relname AS parent, child.relname AS child, pg_get_expr(child.relpartbound, child.oid) AS bound
  FROM pg_inherits i JOIN pg_class parent ON parent.oid = i.inhparent JOIN pg_class child ON child.oid = i.inhrelid
 WHERE parent.oid IN ('deliveries_finished'::regclass, 'attempts'::regclass);

ALTER TABLE events ADD COLUMN delivery_ids bigint[] NOT NULL DEFAULT '{}';
UPDATE events e SET delivery_ids = d.ids
  FROM (SELECT shard, event_id, array_agg(id ORDER BY id) AS ids
          FROM (SELECT shard, event_id, id FROM deliveries UNION ALL SELECT shard, event_id, id FROM deliveries_finished) x
         GROUP BY shard, event_id) d
 WHERE e.shard = d.shard AND e.id = d.event_id;
ALTER TABLE events DROP COLUMN fan_out;
ALTER TABLE events ALTER COLUMN delivery_ids DROP DEFAULT;
-- What a type and a uid may be is checked where the producer can be told. To match it again, by a regular expression for
-- each row, took a quarter of the time that it takes to store an event.
ALTER TABLE events DROP CONSTRAINT events_type_check, DROP CONSTRAINT events_uid_check;
DROP INDEX events_by_tenant;
CREATE INDEX events_by_tenant ON events ((shard::integer), tenant_id, id); -- why the bucket is spelled so: see deliveries

DROP TABLE deliveries, deliveries_finished, attempts;

-- What the requests of one version of Postrider called themselves: an attempt names it by its number.
CREATE TABLE user_agents (
    id   smallint PRIMARY KEY CHECK (id > 0),
    name text     NOT NULL,
    CONSTRAINT user_agents_name_key UNIQUE (name)
);
INSERT INTO user_agents (id, name)
SELECT row_number() OVER (ORDER BY user_agent), user_agent FROM kept_attempts WHERE user_agent IS NOT NULL GROUP BY user_agent;

-- Work that is not finished, and nothing else: this table stays small and hot. `held` is no state of its own: a delivery
-- is held while its endpoint is disabled, which is one fact in one place (endpoints.status).
CREATE TABLE deliveries (
    shard         smallint       NOT NULL,
    -- What the claim tells apart: 0 first attempts, 1 retries, 2 those that go in the order of their group.
    lane          smallint       NOT NULL DEFAULT 0 CHECK (lane BETWEEN 0 AND 2),
    failures      integer        NOT NULL DEFAULT 0, -- failed ones since it was last started by hand: its place in the schedule
    id            bigint         NOT NULL,
    tenant_id     bigint         NOT NULL,
    event_id      bigint         NOT NULL,
    endpoint_id   bigint         NOT NULL,
    next_retry_at timestamptz    NOT NULL,           -- due from then on; in flight: what it was when claimed
    -- What a claim changes:
    lease_owner   bigint,                            -- the dispatcher that has it
    leased_until  timestamptz,
    attempts      integer        NOT NULL DEFAULT 0, -- made over its whole life; the number of the last one
    state         delivery_state NOT NULL,
    -- And what it does not:
    rescues       integer        NOT NULL DEFAULT 0, -- attempts whose process died since it was last started by hand
    last_outcome  outcome,
    last_status   smallint,
    cancel_reason text,                              -- in flight: what ends it, unless this attempt does
    -- With ordering: what has to go one after the other, the same for the same group_key.
    group_id      bigint,
    PRIMARY KEY (shard, id),
    CONSTRAINT deliveries_unfinished CHECK (state IN ('scheduled', 'pending', 'in_flight')),
    CONSTRAINT deliveries_lease CHECK ((state = 'in_flight') = (lease_owner IS NOT NULL)
        AND (lease_owner IS NULL) = (leased_until IS NULL)),
    CONSTRAINT deliveries_cancelled CHECK (state = 'in_flight' OR cancel_reason IS NULL),
    CONSTRAINT deliveries_scheduled CHECK (state <> 'scheduled' OR attempts = 0),
    CONSTRAINT deliveries_in_flight CHECK (state <> 'in_flight' OR attempts > 0),
    CONSTRAINT deliveries_counts CHECK (failures >= 0 AND rescues >= 0 AND attempts >= failures),
    CONSTRAINT deliveries_lane CHECK ((lane = 2) = (group_id IS NOT NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
-- Each index spells the bucket in its own way, and so does each statement that wants it: one that says `shard` can be
-- answered by the primary key alone, one that says `shard::integer` by deliveries_due alone. A statement may be planned while
-- the table, or tomorrow's partition, is empty, when to the planner any index that begins with the bucket is as good.
--
-- The claim: per endpoint and lane, oldest due first.
CREATE INDEX deliveries_due ON deliveries ((shard::integer), endpoint_id, lane, next_retry_at);
-- The head of each group.
CREATE INDEX deliveries_in_group ON deliveries ((shard::bigint), endpoint_id, group_id, id) WHERE group_id IS NOT NULL;
INSERT INTO deliveries (shard, lane, failures, id, tenant_id, event_id, endpoint_id, next_retry_at, lease_owner, leased_until,
    attempts, state, rescues, last_outcome, last_status, cancel_reason)
SELECT shard, (failures > 0)::integer, failures, id, tenant_id, event_id, endpoint_id, next_retry_at, lease_owner, leased_until,
    attempts, state, rescues, last_outcome, last_status, cancel_reason FROM kept_deliveries;

-- Where a delivery goes when it is finished, in the statement that finishes it. A manual retry brings it back, into its group
-- if it has one.
CREATE TABLE deliveries_finished (
    shard        smallint       NOT NULL,
    last_status  smallint,
    state        delivery_state NOT NULL,
    id           bigint         NOT NULL,
    tenant_id    bigint         NOT NULL,
    event_id     bigint         NOT NULL,
    endpoint_id  bigint         NOT NULL,
    finished_at  timestamptz    NOT NULL,
    attempts     integer        NOT NULL,
    last_outcome outcome,
    reason       text,
    group_id     bigint,
    PRIMARY KEY (shard, id),
    CONSTRAINT deliveries_finished_state CHECK (state IN ('succeeded', 'failed', 'cancelled')),
    CONSTRAINT deliveries_finished_reason CHECK ((state = 'succeeded') = (reason IS NULL)),
    CONSTRAINT deliveries_finished_success CHECK (state <> 'succeeded' OR last_outcome IS NOT DISTINCT FROM 'succeeded')
) PARTITION BY RANGE (id);
CREATE INDEX deliveries_finished_by_endpoint ON deliveries_finished ((shard::integer), endpoint_id, id);
-- The review of failures: rare among the rest, and what people look for.
CREATE INDEX deliveries_finished_failed ON deliveries_finished (shard, id) WHERE state = 'failed';

-- One row for each attempt that was made, also of one that came back too late to count. The id's time is the start. Attempts
-- are read by their delivery only: one index does for that and for the key.
CREATE TABLE attempts (
    shard              smallint NOT NULL,
    user_agent         smallint,          -- of user_agents
    endpoint_version   integer  NOT NULL,
    id                 bigint   NOT NULL,
    delivery_id        bigint   NOT NULL,
    endpoint_id        bigint   NOT NULL,
    webhook_timestamp  bigint   NOT NULL, -- unix seconds, as signed
    attempt            integer  NOT NULL CHECK (attempt > 0),
    outcome            outcome  NOT NULL,
    dns_us             integer,           -- microseconds; null: the stage did not happen (a kept-alive connection)
    connect_us         integer,
    tls_us             integer,
    first_byte_us      integer,
    total_us           integer,           -- null: unknown, its process died
    status             smallint,
    response_truncated boolean  NOT NULL DEFAULT false,
    address            text,
    signature          text,              -- the signature header's value, as sent
    error              text,
    response_headers   bytea,             -- HTTP/1.1 field lines, the bytes as they came
    response_body      bytea,
    PRIMARY KEY (shard, delivery_id, id)
) PARTITION BY RANGE (id);

-- +goose StatementBegin
DO $$
DECLARE p record;
BEGIN
    FOR p IN SELECT * FROM kept_partitions LOOP
        EXECUTE format('CREATE TABLE %I PARTITION OF %I %s', p.child, p.parent, p.bound);
    END LOOP;
END $$;
-- +goose StatementEnd

INSERT INTO deliveries_finished (shard, last_status, state, id, tenant_id, event_id, endpoint_id, finished_at, attempts,
    last_outcome, reason)
SELECT shard, last_status, state, id, tenant_id, event_id, endpoint_id, finished_at, attempts, last_outcome, reason
  FROM kept_finished;
INSERT INTO attempts (shard, user_agent, endpoint_version, id, delivery_id, endpoint_id, webhook_timestamp, attempt, outcome,
    dns_us, connect_us, tls_us, first_byte_us, total_us, status, response_truncated, address, signature, error,
    response_headers, response_body)
SELECT k.shard, u.id, k.endpoint_version, k.id, k.delivery_id, k.endpoint_id, k.webhook_timestamp, k.attempt, k.outcome,
    k.dns_us, k.connect_us, k.tls_us, k.first_byte_us, k.total_us, k.status, k.response_truncated, k.address, k.signature,
    k.error, k.response_headers, k.response_body
  FROM kept_attempts k LEFT JOIN user_agents u ON u.name = k.user_agent;
ANALYZE events, deliveries, deliveries_finished, attempts;

-- +goose Down
LOCK TABLE events, deliveries, deliveries_finished, attempts IN ACCESS EXCLUSIVE MODE;
CREATE TEMPORARY TABLE kept_deliveries ON COMMIT DROP AS SELECT * FROM deliveries;
CREATE TEMPORARY TABLE kept_finished ON COMMIT DROP AS SELECT * FROM deliveries_finished;
CREATE TEMPORARY TABLE kept_attempts ON COMMIT DROP AS
SELECT a.*, u.name FROM attempts a LEFT JOIN user_agents u ON u.id = a.user_agent;
CREATE TEMPORARY TABLE kept_partitions ON COMMIT DROP AS
SELECT parent.relname AS parent, child.relname AS child, pg_get_expr(child.relpartbound, child.oid) AS bound
  FROM pg_inherits i JOIN pg_class parent ON parent.oid = i.inhparent JOIN pg_class child ON child.oid = i.inhrelid
 WHERE parent.oid IN ('deliveries_finished'::regclass, 'attempts'::regclass);
DROP TABLE deliveries, deliveries_finished, attempts, user_agents;

ALTER TABLE events ADD COLUMN fan_out integer NOT NULL DEFAULT 0 CHECK (fan_out >= 0);
UPDATE events SET fan_out = cardinality(delivery_ids);
ALTER TABLE events ALTER COLUMN fan_out DROP DEFAULT;
ALTER TABLE events DROP COLUMN delivery_ids;
DROP INDEX events_by_tenant;
CREATE INDEX events_by_tenant ON events (shard, tenant_id, id);
ALTER TABLE events ADD CHECK (uid ~ '^[A-Za-z0-9_.:-]{1,128}$'), ADD CHECK (type ~ '^[a-zA-Z0-9_.-]{1,128}$');

CREATE TABLE deliveries (
    shard         smallint       NOT NULL,
    id            bigint         NOT NULL,
    tenant_id     bigint         NOT NULL,
    event_id      bigint         NOT NULL,
    endpoint_id   bigint         NOT NULL,
    state         delivery_state NOT NULL,
    attempts      integer        NOT NULL DEFAULT 0,
    failures      integer        NOT NULL DEFAULT 0,
    rescues       integer        NOT NULL DEFAULT 0,
    next_retry_at timestamptz    NOT NULL,
    lease_owner   bigint,
    leased_until  timestamptz,
    cancel_reason text,
    last_outcome  outcome,
    last_status   smallint,
    PRIMARY KEY (shard, id),
    CONSTRAINT deliveries_unfinished CHECK (state IN ('scheduled', 'pending', 'in_flight')),
    CONSTRAINT deliveries_lease CHECK ((state = 'in_flight') = (lease_owner IS NOT NULL)
        AND (lease_owner IS NULL) = (leased_until IS NULL)),
    CONSTRAINT deliveries_cancelled CHECK (state = 'in_flight' OR cancel_reason IS NULL),
    CONSTRAINT deliveries_scheduled CHECK (state <> 'scheduled' OR attempts = 0),
    CONSTRAINT deliveries_in_flight CHECK (state <> 'in_flight' OR attempts > 0),
    CONSTRAINT deliveries_counts CHECK (failures >= 0 AND rescues >= 0 AND attempts >= failures)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX deliveries_due ON deliveries (shard, endpoint_id, next_retry_at) WHERE state IN ('scheduled', 'pending');
CREATE INDEX deliveries_leased ON deliveries (shard, leased_until) WHERE state = 'in_flight';
CREATE INDEX deliveries_by_event ON deliveries (shard, event_id);
INSERT INTO deliveries (shard, id, tenant_id, event_id, endpoint_id, state, attempts, failures, rescues, next_retry_at,
    lease_owner, leased_until, cancel_reason, last_outcome, last_status)
SELECT shard, id, tenant_id, event_id, endpoint_id, state, attempts, failures, rescues, next_retry_at, lease_owner,
    leased_until, cancel_reason, last_outcome, last_status FROM kept_deliveries;

CREATE TABLE deliveries_finished (
    shard        smallint       NOT NULL,
    id           bigint         NOT NULL,
    tenant_id    bigint         NOT NULL,
    event_id     bigint         NOT NULL,
    endpoint_id  bigint         NOT NULL,
    state        delivery_state NOT NULL,
    attempts     integer        NOT NULL,
    reason       text,
    last_outcome outcome,
    last_status  smallint,
    finished_at  timestamptz    NOT NULL,
    PRIMARY KEY (shard, id),
    CONSTRAINT deliveries_finished_state CHECK (state IN ('succeeded', 'failed', 'cancelled')),
    CONSTRAINT deliveries_finished_reason CHECK ((state = 'succeeded') = (reason IS NULL)),
    CONSTRAINT deliveries_finished_success CHECK (state <> 'succeeded' OR last_outcome IS NOT DISTINCT FROM 'succeeded')
) PARTITION BY RANGE (id);
CREATE INDEX deliveries_finished_by_event ON deliveries_finished (shard, event_id);
CREATE INDEX deliveries_finished_by_endpoint ON deliveries_finished (shard, endpoint_id, id);
CREATE INDEX deliveries_finished_failed ON deliveries_finished (shard, id) WHERE state = 'failed';

CREATE TABLE attempts (
    shard              smallint NOT NULL,
    id                 bigint   NOT NULL,
    delivery_id        bigint   NOT NULL,
    endpoint_id        bigint   NOT NULL,
    webhook_timestamp  bigint   NOT NULL,
    endpoint_version   integer  NOT NULL,
    attempt            integer  NOT NULL CHECK (attempt > 0),
    status             smallint,
    outcome            outcome  NOT NULL,
    dns_us             integer,
    connect_us         integer,
    tls_us             integer,
    first_byte_us      integer,
    total_us           integer,
    address            text,
    user_agent         text,
    signature          text,
    error              text,
    response_headers   bytea,
    response_body      bytea,
    response_truncated boolean  NOT NULL DEFAULT false,
    PRIMARY KEY (shard, id)
) PARTITION BY RANGE (id);
CREATE INDEX attempts_by_delivery ON attempts (shard, delivery_id);

-- +goose StatementBegin
DO $$
DECLARE p record;
BEGIN
    FOR p IN SELECT * FROM kept_partitions LOOP
        EXECUTE format('CREATE TABLE %I PARTITION OF %I %s', p.child, p.parent, p.bound);
    END LOOP;
END $$;
-- +goose StatementEnd

INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, reason, last_outcome,
    last_status, finished_at)
SELECT shard, id, tenant_id, event_id, endpoint_id, state, attempts, reason, last_outcome, last_status, finished_at
  FROM kept_finished;
INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, status, outcome,
    dns_us, connect_us, tls_us, first_byte_us, total_us, address, user_agent, signature, error, response_headers,
    response_body, response_truncated)
SELECT shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, status, outcome, dns_us,
    connect_us, tls_us, first_byte_us, total_us, address, name, signature, error, response_headers, response_body,
    response_truncated
  FROM kept_attempts;
