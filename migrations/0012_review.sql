-- The review of history: an index for each filter that finds little in much, none that a success pays for.
--
-- Whatever did not succeed is rare and is what people look for, so it has indexes of its own, which a delivery that succeeds
-- is not in: over all tenants by time, and by tenant and by endpoint. A type is found through events, which lie in the order
-- of their ids: a summary of each 32 pages says between which ids they are and which types they have (BRIN), so that a rare
-- one is found by reading summaries. Deliveries lie right beside their event in the order of ids; those made later, by a
-- replay, are few and have an index.
--
-- Building them reads deliveries_finished and events once and locks them against writing meanwhile: about 20 s for 5,000,000
-- deliveries. Stop all processes first, as for every migration.
-- +goose Up

DROP INDEX deliveries_finished_failed;
-- Not by bucket: over all tenants it is one walk back in time instead of one in each bucket.
CREATE INDEX deliveries_finished_unhappy ON deliveries_finished (id, last_outcome, state) WHERE state <> 'succeeded';
CREATE INDEX deliveries_finished_unhappy_by_tenant ON deliveries_finished (shard, tenant_id, id) WHERE state <> 'succeeded';
CREATE INDEX deliveries_finished_unhappy_by_endpoint ON deliveries_finished (shard, endpoint_id, id) WHERE state <> 'succeeded';

-- Made more than five seconds (their milliseconds stand above 22 bits) after their event.
CREATE INDEX deliveries_late ON deliveries (id) WHERE abs(id - event_id) > 20971520000;
CREATE INDEX deliveries_finished_late ON deliveries_finished (id) WHERE abs(id - event_id) > 20971520000;

CREATE INDEX events_summary ON events USING brin (id, type text_bloom_ops (n_distinct_per_range = 64)) WITH (pages_per_range = 32);

-- Lists over all tenants. Uids are ASCII; in the order of bytes the ones with a common beginning lie together.
CREATE INDEX endpoints_by_id ON endpoints (id) WHERE deleted_at IS NULL;
CREATE INDEX endpoints_by_uid ON endpoints ((uid COLLATE "C"));

-- +goose Down

DROP INDEX endpoints_by_uid, endpoints_by_id, events_summary, deliveries_finished_late, deliveries_late,
    deliveries_finished_unhappy_by_endpoint, deliveries_finished_unhappy_by_tenant, deliveries_finished_unhappy;
CREATE INDEX deliveries_finished_failed ON deliveries_finished (shard, id) WHERE state = 'failed';
