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

-- Lists over all tenants. What they are by is spelled so that no other statement can take them for its own, and they are of
-- all rows for the same reason: planned on an empty table, one index is as good as the other. Uids are ASCII; in the order of
-- bytes the ones with a common beginning lie together.
CREATE INDEX endpoints_by_id ON endpoints ((id + 0));
CREATE INDEX endpoints_by_uid ON endpoints ((uid COLLATE "C"));
CREATE INDEX audit_log_by_id ON audit_log ((id + 0));
CREATE INDEX audit_log_by_action ON audit_log (action, id);
CREATE INDEX audit_log_by_actor ON audit_log (actor_name, id);
CREATE INDEX audit_log_by_key ON audit_log (actor_key, id) WHERE actor_key IS NOT NULL;
CREATE INDEX audit_log_by_tenant ON audit_log (tenant_id, id) WHERE tenant_id IS NOT NULL;

-- +goose Down

DROP INDEX audit_log_by_tenant, audit_log_by_key, audit_log_by_actor, audit_log_by_action, audit_log_by_id, endpoints_by_uid, endpoints_by_id, events_summary, deliveries_finished_late, deliveries_late,
    deliveries_finished_unhappy_by_endpoint, deliveries_finished_unhappy_by_tenant, deliveries_finished_unhappy;
CREATE INDEX deliveries_finished_failed ON deliveries_finished (shard, id) WHERE state = 'failed';
