-- Watching that deliveries are made (docs/decisions/0039): what each process says of itself, alerts about the service itself, and
-- the canary, an event that goes the whole way again and again.
--
-- All of it is new to the version before, which goes on leasing node numbers by the two columns that it knows. No row is
-- rewritten and nothing is scanned.
-- +goose Up
SET LOCAL lock_timeout = '5s';

-- described_by is the mark of the process that said the rest: another one than in owner means that a process of an older version
-- has the number, of which nobody knows what it does. The two last columns are when that part's loop went round last.
ALTER TABLE nodes
    ADD COLUMN described_by         bigint,
    ADD COLUMN roles                text[],
    ADD COLUMN version              text,
    ADD COLUMN host                 text,
    ADD COLUMN pid                  integer,
    ADD COLUMN started_at           timestamptz,
    ADD COLUMN seen_at              timestamptz,
    ADD COLUMN dispatcher_worked_at timestamptz,
    ADD COLUMN scheduler_worked_at  timestamptz;

CREATE TYPE service_alert_kind AS ENUM ('service.deliveries_late', 'service.canary_failed', 'service.no_scheduler',
    'service.no_dispatcher');

-- What is wrong with Postrider itself: no tenant's, so all in bucket 0, whose ids look like those of other alerts. Their notices
-- are in alert_notices, under these ids.
CREATE TABLE service_alerts (
    shard           smallint           NOT NULL DEFAULT 0,
    id              bigint             NOT NULL,
    kind            service_alert_kind NOT NULL,
    state           alert_state        NOT NULL DEFAULT 'open',
    count           integer            NOT NULL DEFAULT 1,
    detail          text               NOT NULL,
    last_notice_id  bigint             NOT NULL, -- tells who raises it whether the news is theirs, as in alerts
    opened_at       timestamptz        NOT NULL,
    last_at         timestamptz        NOT NULL,
    acknowledged_at timestamptz,
    acknowledged_by text,
    resolved_at     timestamptz,
    resolved_by     text,
    PRIMARY KEY (shard, id),
    CONSTRAINT service_alerts_shard CHECK (shard = 0),
    CONSTRAINT service_alerts_acknowledged CHECK (state <> 'acknowledged' OR acknowledged_at IS NOT NULL),
    CONSTRAINT service_alerts_resolved CHECK ((state = 'resolved') = (resolved_at IS NOT NULL))
);
-- However many processes find the same at once, it is one alert.
CREATE UNIQUE INDEX service_alerts_open_key ON service_alerts (shard, kind) WHERE state <> 'resolved';

-- The canary: one row, which whoever sends the next one takes by moving started_at.
CREATE TABLE canary (
    id             smallint    PRIMARY KEY DEFAULT 1,
    tenant_shard   smallint,
    tenant_id      bigint,
    endpoint_id    bigint,      -- in the tenant's bucket
    url            text,        -- where it is sent to; its last segment is known to nobody else
    turn           bigint      NOT NULL DEFAULT 0,
    started_at     timestamptz, -- the turn's
    event_id       bigint,
    accepted_at    timestamptz,
    received_at    timestamptz, -- the receiver had it, and its signature was good
    problem        text,        -- where the last one that did not come through is stuck
    succeeded_at   timestamptz, -- when one came the whole way last
    first_at       timestamptz, -- when the first one was started after a while without any
    CONSTRAINT canary_is_one CHECK (id = 1),
    CONSTRAINT canary_tenant CHECK (num_nulls(tenant_shard, tenant_id) IN (0, 2))
);
INSERT INTO canary DEFAULT VALUES;

-- +goose Down
DELETE FROM alert_notices n WHERE n.shard = 0 AND EXISTS (SELECT FROM service_alerts s WHERE s.shard = 0 AND s.id = n.alert_id);
DROP TABLE canary, service_alerts;
DROP TYPE service_alert_kind;
ALTER TABLE nodes DROP COLUMN described_by, DROP COLUMN roles, DROP COLUMN version, DROP COLUMN host, DROP COLUMN pid,
    DROP COLUMN started_at, DROP COLUMN seen_at, DROP COLUMN dispatcher_worked_at, DROP COLUMN scheduler_worked_at;
