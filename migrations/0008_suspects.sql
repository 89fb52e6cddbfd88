-- A lane for deliveries that were lost with their process again and again: a process has one of them in flight at most, so
-- that the one which is to blame falls alone. It takes those of groups too, whose group they hold back all the same.
-- +goose Up

ALTER TABLE deliveries
    DROP CONSTRAINT deliveries_lane_check,
    DROP CONSTRAINT deliveries_lane,
    ADD CONSTRAINT deliveries_lane CHECK (CASE lane WHEN 2 THEN group_id IS NOT NULL WHEN 3 THEN rescues > 0
        ELSE lane IN (0, 1) AND group_id IS NULL END);

-- +goose Down

UPDATE deliveries SET lane = CASE WHEN group_id IS NOT NULL THEN 2 WHEN failures > 0 THEN 1 ELSE 0 END WHERE lane = 3;
ALTER TABLE deliveries
    DROP CONSTRAINT deliveries_lane,
    ADD CONSTRAINT deliveries_lane_check CHECK (lane BETWEEN 0 AND 2),
    ADD CONSTRAINT deliveries_lane CHECK ((lane = 2) = (group_id IS NOT NULL));
