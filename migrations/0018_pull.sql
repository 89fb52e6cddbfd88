-- Endpoints that are not sent to: their owner fetches what waits, and acknowledges it (docs/decisions/0031).
--
-- What waits for one stands in a lane of its own, 4, which no dispatcher claims from. An endpoint's kind never changes, so a
-- delivery never changes into that lane or out of it.
-- +goose Up

CREATE TYPE endpoint_kind AS ENUM ('push', 'pull');

-- Of what is about sending, one that is fetched from has nothing: no URL, no pace, no time-out, no TLS, no order of groups.
ALTER TABLE endpoints
    ADD COLUMN kind endpoint_kind NOT NULL DEFAULT 'push',
    ADD CONSTRAINT endpoints_kind CHECK ((kind = 'pull') = (url = '')),
    ADD CONSTRAINT endpoints_pull CHECK (kind = 'push' OR ordering = 'none'
        AND num_nonnulls(max_in_flight, rate_limit, timeout_ms, retry_schedule_ms, tls_ca, tls_certificate) = 0);

ALTER TABLE deliveries
    DROP CONSTRAINT deliveries_lane,
    ADD CONSTRAINT deliveries_lane CHECK (CASE lane WHEN 2 THEN group_id IS NOT NULL WHEN 3 THEN rescues > 0
        ELSE lane IN (0, 1, 4) AND group_id IS NULL END);

-- +goose Down

-- What cannot be sent is held: there is nowhere to send it to.
UPDATE endpoints SET status = 'disabled', status_reason = 'disabled_by_user' WHERE kind = 'pull' AND status = 'enabled';
UPDATE deliveries SET lane = CASE WHEN failures > 0 OR coalesce(origin, 0) <> 0 THEN 1 ELSE 0 END WHERE lane = 4;
ALTER TABLE deliveries
    DROP CONSTRAINT deliveries_lane,
    ADD CONSTRAINT deliveries_lane CHECK (CASE lane WHEN 2 THEN group_id IS NOT NULL WHEN 3 THEN rescues > 0
        ELSE lane IN (0, 1) AND group_id IS NULL END);
ALTER TABLE endpoints DROP CONSTRAINT endpoints_pull, DROP CONSTRAINT endpoints_kind, DROP COLUMN kind;
DROP TYPE endpoint_kind;
