-- What pages read faster. Figures: what attempts took stands in some bytes instead of an array of integers, and what all tenants had is
-- counted by the quarter of an hour as well, so that a day is a hundred stretches and not 1,440.
--
-- What was counted so far is counted in the other form and goes; attempts stay.
-- +goose Up
TRUNCATE traffic, endpoint_traffic;

ALTER TABLE traffic
    DROP CONSTRAINT traffic_minutes_check,
    ADD CONSTRAINT traffic_minutes_check CHECK (minutes IN (1, 15, 60)),
    DROP COLUMN latency,
    -- How many took how long: counts of neighbouring buckets of internal/stats/scale.go, from the latency_from-th on, each in
    -- base 128, the lowest digit first, with the eighth bit set in all bytes but its last.
    ADD COLUMN latency bytea NOT NULL;
ALTER TABLE endpoint_traffic
    DROP COLUMN latency,
    ADD COLUMN latency bytea NOT NULL;

-- The list of alerts over all tenants, spelled as the other such lists are (0012).
CREATE INDEX alerts_by_id ON alerts ((id + 0));

-- +goose Down
DROP INDEX alerts_by_id;
TRUNCATE traffic, endpoint_traffic;

ALTER TABLE traffic
    DROP CONSTRAINT traffic_minutes_check,
    ADD CONSTRAINT traffic_minutes_check CHECK (minutes IN (1, 60)),
    DROP COLUMN latency,
    ADD COLUMN latency integer[] NOT NULL;
ALTER TABLE endpoint_traffic
    DROP COLUMN latency,
    ADD COLUMN latency integer[] NOT NULL;
