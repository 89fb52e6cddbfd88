-- How fast an endpoint is sent to: what its owner set (rate_limit, ordering), and what all processes know together of how
-- it bears it (endpoint_pace).
-- +goose Up

CREATE TYPE endpoint_ordering AS ENUM ('none', 'group');
CREATE TYPE breaker_state AS ENUM ('closed', 'open', 'half_open');

ALTER TABLE endpoints
    ADD COLUMN rate_limit  integer           CHECK (rate_limit > 0), -- attempts in each rate_per_ms; null: no limit
    ADD COLUMN rate_per_ms bigint            CHECK (rate_per_ms > 0),
    ADD COLUMN ordering    endpoint_ordering NOT NULL DEFAULT 'none',
    ADD CONSTRAINT endpoints_rate_limit CHECK (num_nulls(rate_limit, rate_per_ms) IN (0, 2));

-- Apart from endpoints, whose rows are wide and versioned: these change with the traffic. An endpoint without a row was
-- never paced. No column but the key is in an index, so with room in the page every update is a HOT one.
CREATE TABLE endpoint_pace (
    shard              smallint      NOT NULL,
    endpoint_id        bigint        NOT NULL,
    breaker            breaker_state NOT NULL DEFAULT 'closed',
    trips              integer       NOT NULL DEFAULT 0, -- how often it opened since it was closed last
    breaker_until      timestamptz,                      -- open: no probe before; half-open: the probe's turn ends by then
    breaker_changed_at timestamptz,                      -- null: it was never anything but closed
    paused_until       timestamptz,                      -- the receiver's own wish: Retry-After of a 429 or 503
    next_slot_at       timestamptz,                      -- of the rate limit: no attempt may start before
    PRIMARY KEY (shard, endpoint_id),
    FOREIGN KEY (shard, endpoint_id) REFERENCES endpoints (shard, id),
    CONSTRAINT endpoint_pace_trips CHECK (trips >= 0 AND (breaker = 'closed') = (trips = 0)),
    CONSTRAINT endpoint_pace_until CHECK ((breaker = 'closed') = (breaker_until IS NULL)),
    CONSTRAINT endpoint_pace_since CHECK (breaker = 'closed' OR breaker_changed_at IS NOT NULL)
) WITH (fillfactor = 50);

-- +goose Down
DROP TABLE endpoint_pace;
ALTER TABLE endpoints DROP CONSTRAINT endpoints_rate_limit, DROP COLUMN rate_limit, DROP COLUMN rate_per_ms, DROP COLUMN ordering;
DROP TYPE breaker_state, endpoint_ordering;
