-- How alerts are told (docs/decisions/0038): to channels, to tenants by mail and as events, grouped and throttled.
--
-- The version before goes on writing and sending notices by the columns that it knows. No row is rewritten and nothing is scanned.
-- +goose Up
SET LOCAL lock_timeout = '5s';

-- A notice may be about an alert of the service itself, which has a table of its own. Both tables are locked for that, in the order in
-- which whoever raises alerts comes to them.
LOCK TABLE alerts IN ACCESS EXCLUSIVE MODE;
ALTER TABLE alert_notices DROP CONSTRAINT alert_notices_shard_alert_id_fkey;

-- about is the alert's kind when the notice was written; null: the version before wrote it, or it is about the service. leased_until
-- is how long a process has the notice; next_try_at alone cannot say, since a notice that waits has it in the future too. roads is
-- how it stands with each channel that does not have it yet: {"<fingerprint>": {"tries": 2, "next": "<time>"}}.
ALTER TABLE alert_notices
    ADD COLUMN about        alert_kind,
    ADD COLUMN leased_until timestamptz,
    ADD COLUMN roads        jsonb;

-- How much a channel (shard and tenant_id 0), or the mail to a tenant, has had lately.
CREATE TABLE alert_pace (
    shard       smallint    NOT NULL,
    tenant_id   bigint      NOT NULL,
    road        text        NOT NULL, -- a channel's fingerprint, or mail
    window_at   timestamptz NOT NULL, -- since when told counts
    told        integer     NOT NULL, -- messages
    quiet_until timestamptz NOT NULL, -- what comes before that is gathered
    PRIMARY KEY (shard, tenant_id, road)
);

-- The digest: one row, which whoever sends the next one takes by moving leased_until.
CREATE TABLE alert_digest (
    shard        smallint    PRIMARY KEY DEFAULT 0,
    schedule     text        NOT NULL, -- that next_at is of
    since        timestamptz NOT NULL, -- what the next one tells of began here
    next_at      timestamptz NOT NULL,
    leased_until timestamptz,
    tries        smallint    NOT NULL DEFAULT 0,
    sent_to      text[]      NOT NULL DEFAULT '{}', -- fingerprints of the channels that have it
    CONSTRAINT alert_digest_is_one CHECK (shard = 0)
);

-- +goose Down
DROP TABLE alert_digest, alert_pace;
ALTER TABLE alert_notices DROP COLUMN about, DROP COLUMN leased_until, DROP COLUMN roads;
DELETE FROM alert_notices n WHERE NOT EXISTS (SELECT FROM alerts a WHERE a.shard = n.shard AND a.id = n.alert_id);
ALTER TABLE alert_notices ADD FOREIGN KEY (shard, alert_id) REFERENCES alerts (shard, id);
