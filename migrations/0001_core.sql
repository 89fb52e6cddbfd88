-- The core: who may be told (tenants, endpoints), what happened (events), what is owed (deliveries), what was tried
-- (attempts), who was alerted, who may call.
--
-- Three rules hold over every table of a tenant's data, so that the schema can be spread over several databases one
-- day without a change:
--   1. `shard` (the tenant's bucket, get_byte(sha256(int8send(tenant.id)), 0)) leads every primary, unique and foreign
--      key and every index that serves the queue. migrations_test.go walks the catalogue and holds us to it.
--   2. Ids are made by the application (41 bits of milliseconds since 2025-01-01 UTC, then 22 that tell apart), so the
--      order of ids is the order of time, and history is partitioned by ranges of ids: a day is a range.
--   3. Times come in as parameters. No trigger, no identity column, no default that reads a clock.
--
-- There are no foreign keys to or from events, deliveries and attempts: each would lock the row it points to on every
-- insert, an event and its deliveries are written in one transaction, and history leaves by dropping whole partitions.
--
-- The file is long because it is one thought, the whole first schema: tables whose keys, states and partitions answer to
-- each other are read, made and taken back together.
-- +goose Up

CREATE TYPE endpoint_status AS ENUM ('enabled', 'disabled', 'dead');
CREATE TYPE delivery_state AS ENUM ('scheduled', 'pending', 'in_flight', 'succeeded', 'failed', 'cancelled');
CREATE TYPE outcome AS ENUM ('succeeded', 'unauthorized', 'gone', 'retryable', 'redirected', 'rejected', 'timeout',
    'dns_error', 'connect_error', 'tls_error', 'protocol_error', 'blocked', 'unknown');
CREATE TYPE alert_kind AS ENUM ('delivery.failing', 'delivery.failed', 'endpoint.unauthorized', 'endpoint.blocked',
    'endpoint.disabled', 'endpoint.dead');
CREATE TYPE alert_state AS ENUM ('open', 'acknowledged', 'resolved');
CREATE TYPE notice_kind AS ENUM ('opened', 'escalated', 'resolved');

-- The register of processes: the node numbers that ids are made with, 0 to 511. A process leases one at its start and
-- renews the lease while it lives, so no two that live have the same. One given back is leased by nobody for some seconds.
CREATE TABLE nodes (
    node         integer     PRIMARY KEY CHECK (node BETWEEN 0 AND 511),
    owner        bigint,     -- the process that has it
    leased_until timestamptz,
    CONSTRAINT nodes_lease CHECK (owner IS NULL OR leased_until IS NOT NULL)
);
INSERT INTO nodes (node) SELECT generate_series(0, 511);

-- The directory of tenants is small and read everywhere: its uid is unique over all buckets.
CREATE TABLE tenants (
    shard         smallint    NOT NULL CHECK (shard BETWEEN 0 AND 255),
    id            bigint      NOT NULL,
    uid           text        CHECK (uid ~ '^[A-Za-z0-9_.:-]{1,128}$'),
    name          text        NOT NULL,
    contact_email text,
    metadata      jsonb       NOT NULL DEFAULT '{}',
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    deleted_at    timestamptz,
    PRIMARY KEY (shard, id),
    CONSTRAINT tenants_shard_is_the_hash CHECK (shard = get_byte(sha256(int8send(id)), 0))
);
CREATE UNIQUE INDEX tenants_uid_key ON tenants (uid) WHERE deleted_at IS NULL;
CREATE INDEX tenants_by_id ON tenants (id);

-- The catalogue of event types is the operator's, one for all tenants.
CREATE TABLE event_types (
    name        text        PRIMARY KEY CHECK (name ~ '^[a-zA-Z0-9_.-]{1,128}$'),
    description text        NOT NULL DEFAULT '',
    schema      jsonb,
    example     bytea,
    archived_at timestamptz,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL
);

CREATE TABLE endpoints (
    shard                smallint        NOT NULL,
    id                   bigint          NOT NULL,
    tenant_id            bigint          NOT NULL,
    uid                  text            CHECK (uid ~ '^[A-Za-z0-9_.:-]{1,128}$'),
    url                  text            NOT NULL,
    description          text            NOT NULL DEFAULT '',
    event_types          text[]          NOT NULL DEFAULT '{}', -- empty: all
    header_names         text[]          NOT NULL DEFAULT '{}', -- of the static headers, as they were given
    headers_sealed       bytea,                                 -- names and values, encrypted: values may be credentials
    headers_key_id       text,
    scheme               text            NOT NULL,
    signature_header     text            NOT NULL DEFAULT '',
    max_in_flight        integer         CHECK (max_in_flight > 0),
    timeout_ms           bigint          CHECK (timeout_ms > 0),
    retry_schedule_ms    bigint[],
    metadata             jsonb           NOT NULL DEFAULT '{}',
    status               endpoint_status NOT NULL DEFAULT 'enabled',
    status_reason        text,
    status_changed_at    timestamptz     NOT NULL,
    -- How it has been of late. failing_since is the first failed attempt after the last success.
    consecutive_failures integer         NOT NULL DEFAULT 0,
    failing_since        timestamptz,
    last_error           text,
    version              integer         NOT NULL DEFAULT 1,
    created_at           timestamptz     NOT NULL,
    updated_at           timestamptz     NOT NULL,
    deleted_at           timestamptz,
    PRIMARY KEY (shard, id),
    FOREIGN KEY (shard, tenant_id) REFERENCES tenants (shard, id),
    CONSTRAINT endpoints_failing CHECK ((consecutive_failures > 0) = (failing_since IS NOT NULL)),
    CONSTRAINT endpoints_status_reason CHECK ((status = 'enabled') = (status_reason IS NULL)),
    CONSTRAINT endpoints_headers CHECK (num_nulls(headers_sealed, headers_key_id) IN (0, 2))
);
CREATE UNIQUE INDEX endpoints_uid_key ON endpoints (shard, tenant_id, uid) WHERE deleted_at IS NULL;
CREATE INDEX endpoints_by_tenant ON endpoints (shard, tenant_id, id) WHERE deleted_at IS NULL;
-- Lets a success find out for next to nothing that there is no failure to forget. By failing_since and not by the count,
-- which changes with every failure: this way counting stays a HOT update.
CREATE INDEX endpoints_failing ON endpoints (shard, id) WHERE failing_since IS NOT NULL;
-- What the sweep looks through for deliveries that nobody will send any more.
CREATE INDEX endpoints_closed ON endpoints (shard, id) WHERE status = 'dead' OR deleted_at IS NOT NULL;

-- What an endpoint looked like when an attempt was made: attempts name a version instead of carrying the same URL and
-- headers a million times.
CREATE TABLE endpoint_versions (
    shard            smallint    NOT NULL,
    endpoint_id      bigint      NOT NULL,
    version          integer     NOT NULL,
    url              text        NOT NULL,
    header_names     text[]      NOT NULL,
    scheme           text        NOT NULL,
    signature_header text        NOT NULL,
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (shard, endpoint_id, version),
    FOREIGN KEY (shard, endpoint_id) REFERENCES endpoints (shard, id)
);

-- Sealed with AES-256-GCM under one of secrets.keys; the endpoint's id is the additional data, so that a row moved to
-- another endpoint does not open. The current secret has no end; those of a rotation end with its overlap.
CREATE TABLE endpoint_secrets (
    shard       smallint    NOT NULL,
    endpoint_id bigint      NOT NULL,
    id          bigint      NOT NULL,
    key_id      text        NOT NULL,
    sealed      bytea       NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz,
    PRIMARY KEY (shard, endpoint_id, id),
    FOREIGN KEY (shard, endpoint_id) REFERENCES endpoints (shard, id)
);
CREATE UNIQUE INDEX endpoint_secrets_current_key ON endpoint_secrets (shard, endpoint_id) WHERE expires_at IS NULL;
CREATE INDEX endpoint_secrets_expiring ON endpoint_secrets (shard, expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE events (
    shard        smallint    NOT NULL,
    id           bigint      NOT NULL,
    tenant_id    bigint      NOT NULL,
    uid          text        CHECK (uid ~ '^[A-Za-z0-9_.:-]{1,128}$'),
    type         text        NOT NULL CHECK (type ~ '^[a-zA-Z0-9_.-]{1,128}$'),
    content_type text        NOT NULL,
    payload      bytea       NOT NULL, -- the producer's bytes, never anything made of them
    group_key    text,
    deliver_at   timestamptz,
    fan_out      integer     NOT NULL CHECK (fan_out >= 0),
    skipped      jsonb,                -- [{"e": endpoint id, "r": reason}] of those that did not match
    metadata     jsonb,
    PRIMARY KEY (shard, id)
) PARTITION BY RANGE (id);
CREATE TABLE events_default PARTITION OF events DEFAULT;
CREATE INDEX events_by_tenant ON events (shard, tenant_id, id);

-- What makes repeating an enqueue safe. kind 'key' is an Idempotency-Key (kept for retention.idempotency_keys), 'uid' an
-- event's own uid (kept as long as the event).
CREATE TABLE idempotency_keys (
    shard      smallint    NOT NULL,
    tenant_id  bigint      NOT NULL,
    kind       text        NOT NULL CHECK (kind IN ('key', 'uid')),
    key        text        NOT NULL,
    digest     bytea       NOT NULL, -- SHA-256 over what was asked for
    event_ids  bigint[]    NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (shard, tenant_id, kind, key)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (shard, created_at) WHERE kind = 'key';

-- Work that is not finished, and nothing else: this table stays small and hot. `held` is no state of its own: a delivery
-- is held while its endpoint is disabled, which is one fact in one place (endpoints.status).
CREATE TABLE deliveries (
    shard         smallint       NOT NULL,
    id            bigint         NOT NULL,
    tenant_id     bigint         NOT NULL,
    event_id      bigint         NOT NULL,
    endpoint_id   bigint         NOT NULL,
    state         delivery_state NOT NULL,
    attempts      integer        NOT NULL DEFAULT 0, -- made over its whole life; the number of the last one
    failures      integer        NOT NULL DEFAULT 0, -- failed ones since it was last started by hand: its place in the schedule
    rescues       integer        NOT NULL DEFAULT 0, -- attempts whose process died since then
    next_retry_at timestamptz    NOT NULL,           -- due from then on; in flight: what it was when claimed
    lease_owner   bigint,                            -- the dispatcher that has it
    leased_until  timestamptz,
    cancel_reason text,                              -- in flight: what ends it, unless this attempt does
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
-- The claim: per endpoint, oldest due first.
CREATE INDEX deliveries_due ON deliveries (shard, endpoint_id, next_retry_at) WHERE state IN ('scheduled', 'pending');
-- The rescue of what died in flight.
CREATE INDEX deliveries_leased ON deliveries (shard, leased_until) WHERE state = 'in_flight';
-- An event's own deliveries.
CREATE INDEX deliveries_by_event ON deliveries (shard, event_id);

-- Where a delivery goes when it is finished, in the statement that finishes it. A manual retry brings it back.
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
CREATE TABLE deliveries_finished_default PARTITION OF deliveries_finished DEFAULT;
CREATE INDEX deliveries_finished_by_event ON deliveries_finished (shard, event_id);
CREATE INDEX deliveries_finished_by_endpoint ON deliveries_finished (shard, endpoint_id, id);
-- The review of failures: rare among the rest, and what people look for.
CREATE INDEX deliveries_finished_failed ON deliveries_finished (shard, id) WHERE state = 'failed';

-- One row for each attempt that was made, also of one that came back too late to count. The id's time is the start.
CREATE TABLE attempts (
    shard              smallint NOT NULL,
    id                 bigint   NOT NULL,
    delivery_id        bigint   NOT NULL,
    endpoint_id        bigint   NOT NULL,
    webhook_timestamp  bigint   NOT NULL, -- unix seconds, as signed
    endpoint_version   integer  NOT NULL,
    attempt            integer  NOT NULL CHECK (attempt > 0),
    status             smallint,
    outcome            outcome  NOT NULL,
    dns_us             integer,           -- microseconds; null: the stage did not happen (a kept-alive connection)
    connect_us         integer,
    tls_us             integer,
    first_byte_us      integer,
    total_us           integer,           -- null: unknown, its process died
    address            text,
    user_agent         text,
    signature          text,              -- the signature header's value, as sent
    error              text,
    response_headers   bytea,             -- HTTP/1.1 field lines, the bytes as they came
    response_body      bytea,
    response_truncated boolean  NOT NULL DEFAULT false,
    PRIMARY KEY (shard, id)
) PARTITION BY RANGE (id);
CREATE TABLE attempts_default PARTITION OF attempts DEFAULT;
CREATE INDEX attempts_by_delivery ON attempts (shard, delivery_id);

-- One open alert for each endpoint, counting: an outage that hits 10,000 deliveries is one.
CREATE TABLE alerts (
    shard            smallint    NOT NULL,
    id               bigint      NOT NULL,
    tenant_id        bigint      NOT NULL,
    endpoint_id      bigint      NOT NULL,
    kind             alert_kind  NOT NULL, -- the gravest so far; the enum's order is the order of gravity
    state            alert_state NOT NULL DEFAULT 'open',
    count            integer     NOT NULL DEFAULT 1,
    detail           text        NOT NULL,
    last_delivery_id bigint,
    last_notice_id   bigint      NOT NULL, -- the newest notice about it: tells who raises it whether the news is theirs
    opened_at        timestamptz NOT NULL,
    last_at          timestamptz NOT NULL,
    acknowledged_at  timestamptz,
    acknowledged_by  text,
    resolved_at      timestamptz,
    resolved_by      text,
    PRIMARY KEY (shard, id),
    FOREIGN KEY (shard, endpoint_id) REFERENCES endpoints (shard, id),
    CONSTRAINT alerts_acknowledged CHECK (state <> 'acknowledged' OR acknowledged_at IS NOT NULL),
    CONSTRAINT alerts_resolved CHECK ((state = 'resolved') = (resolved_at IS NOT NULL))
);
CREATE UNIQUE INDEX alerts_open_key ON alerts (shard, endpoint_id) WHERE state <> 'resolved';

-- The outbox of alerts: written with what it tells of, sent by upkeep. A notice that no channel takes is given up after 20
-- tries. Upkeep deletes notices 30 days after they were sent or given up, and alerts, with their notices, 90 days after
-- they were resolved.
CREATE TABLE alert_notices (
    shard       smallint    NOT NULL,
    id          bigint      NOT NULL,
    alert_id    bigint      NOT NULL,
    kind        notice_kind NOT NULL,
    detail      text        NOT NULL,
    attempts    smallint    NOT NULL DEFAULT 0,
    next_try_at timestamptz NOT NULL,
    sent_at     timestamptz,
    given_up_at timestamptz,
    sent_to     text[]      NOT NULL DEFAULT '{}', -- fingerprints of the channels that have it, until all do
    last_error  text,
    PRIMARY KEY (shard, id),
    FOREIGN KEY (shard, alert_id) REFERENCES alerts (shard, id),
    CONSTRAINT alert_notices_end CHECK (num_nonnulls(sent_at, given_up_at) <= 1)
);
-- Looked through every two seconds: it has only what is still to be sent.
CREATE INDEX alert_notices_unsent ON alert_notices (shard, next_try_at) WHERE sent_at IS NULL AND given_up_at IS NULL;
CREATE INDEX alert_notices_by_alert ON alert_notices (shard, alert_id);

-- Keys of the HTTP API, as SHA-256: they are random and long, so a slow hash would buy nothing.
CREATE TABLE api_keys (
    id           bigint      PRIMARY KEY,
    name         text        NOT NULL,
    hash         bytea       NOT NULL CHECK (octet_length(hash) = 32),
    hint         text        NOT NULL, -- its first characters, to tell one from another
    scopes       text[]      NOT NULL CHECK (cardinality(scopes) > 0),
    tenant_shard smallint,
    tenant_id    bigint,
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz,
    revoked_at   timestamptz,
    FOREIGN KEY (tenant_shard, tenant_id) REFERENCES tenants (shard, id),
    CONSTRAINT api_keys_tenant CHECK (num_nulls(tenant_shard, tenant_id) IN (0, 2))
);
CREATE UNIQUE INDEX api_keys_hash_key ON api_keys (hash);

-- +goose Down
DROP TABLE api_keys, alert_notices, alerts, attempts, deliveries_finished, deliveries, idempotency_keys, events,
    endpoint_secrets, endpoint_versions, endpoints, event_types, tenants, nodes;
DROP TYPE notice_kind, alert_state, alert_kind, outcome, delivery_state, endpoint_status;
