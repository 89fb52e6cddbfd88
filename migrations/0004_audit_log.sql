-- Who did what to which thing, from where. An entry is written in the transaction of what it tells of.
--
-- It lies in the bucket of the thing that was acted on, so that both are in one database however buckets are spread. API
-- keys lie in no bucket: their ids and what is told of them have 0.
-- +goose Up
CREATE TYPE audit_actor AS ENUM ('api_key', 'cli', 'system');

CREATE TABLE audit_log (
    shard       smallint    NOT NULL,
    id          bigint      NOT NULL, -- says when
    tenant_id   bigint,               -- whose thing it was; null: the operator's
    -- Not an enum: each feature brings actions, and the code that writes them is the one place that lists them.
    action      text        NOT NULL CHECK (action ~ '^[a-z_]+\.[a-z_]+$'),
    object_kind text        NOT NULL CHECK (object_kind ~ '^[a-z]{2,3}$'), -- the prefix of its id
    object_id   bigint      NOT NULL CHECK (object_id > 0),
    actor       audit_actor NOT NULL,
    actor_key   bigint,               -- the API key's id
    actor_name  text        NOT NULL, -- of the key at that time, the user of the machine, the part of Postrider
    address     inet,                 -- the client's; null: there was none
    details     json        NOT NULL, -- not jsonb: nothing looks into it, and json keeps what it is given
    PRIMARY KEY (shard, id),
    CONSTRAINT audit_log_actor_key CHECK ((actor = 'api_key') = (actor_key IS NOT NULL))
);
-- No foreign keys: an entry outlives what it tells of.
CREATE INDEX audit_log_by_object ON audit_log (shard, object_id, id);

-- +goose Down
DROP TABLE audit_log;
DROP TYPE audit_actor;
