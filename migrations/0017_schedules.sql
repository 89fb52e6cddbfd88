-- Recurring events. A schedule's next_at moves on in the transaction that accepts the event of its occurrence, so that there is
-- one event for each, whoever runs and whatever is killed.
-- +goose Up

CREATE TABLE schedules (
    shard         smallint    NOT NULL,
    id            bigint      NOT NULL,
    tenant_id     bigint      NOT NULL,
    uid           text,
    description   text        NOT NULL,
    cron          text        NOT NULL,
    timezone      text        NOT NULL,
    -- The events that it makes, as the columns of events.
    type          text        NOT NULL,
    content_type  text        NOT NULL,
    payload       bytea       NOT NULL,
    group_key     text,
    endpoint_ids  text[],
    metadata      jsonb,
    late          text        NOT NULL CHECK (late IN ('all', 'last', 'none')),
    paused        boolean     NOT NULL,
    next_at       timestamptz, -- the first occurrence that is not dealt with; null: none while it is paused
    last_at       timestamptz,
    last_event_id bigint,
    last_error    text,        -- of the last occurrence; null: it went well
    skipped       bigint      NOT NULL DEFAULT 0,
    updated_at    timestamptz NOT NULL,
    PRIMARY KEY (shard, id),
    FOREIGN KEY (shard, tenant_id) REFERENCES tenants (shard, id),
    CONSTRAINT schedules_uid_key UNIQUE (shard, tenant_id, uid),
    CONSTRAINT schedules_paused CHECK (NOT paused OR next_at IS NULL)
);
-- Not by bucket: what is due is one walk over all tenants.
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_by_tenant ON schedules (shard, tenant_id, id);

-- What became of the last occurrences of each: the primary key makes a second event of one impossible.
CREATE TABLE schedule_occurrences (
    shard       smallint    NOT NULL,
    schedule_id bigint      NOT NULL,
    at          timestamptz NOT NULL,
    by_hand     boolean     NOT NULL, -- somebody had it run beside its times
    event_id    bigint,
    error       text,
    PRIMARY KEY (shard, schedule_id, at, by_hand),
    FOREIGN KEY (shard, schedule_id) REFERENCES schedules (shard, id),
    CONSTRAINT schedule_occurrences_end CHECK (num_nonnulls(event_id, error) = 1)
);

-- +goose Down
DROP TABLE schedule_occurrences;
DROP TABLE schedules;
