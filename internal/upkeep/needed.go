package upkeep

// What is unfinished, from its own side: it is little, and found by index, however large the day is. A delivery is made within 5 s of its
// event, or is one of the index deliveries_late. 20971520000 is 5 s in an id; the number stands in that index too.
const (
	// bucketByBucket ends a look into one bucket. It keeps the planner from reading the stretch of all buckets first and then going through
	// the list of buckets for each row of it.
	bucketByBucket = ` OFFSET 0`

	// waitingSQL is unfinished deliveries of events of a stretch, bucket by bucket, and more. Indexes deliveries_pkey, deliveries_late.
	waitingSQL  = waitingHead + `AND x.id >= @low::bigint - 20971520000` + waitingTail
	waitingHead = `
    SELECT d.shard, d.event_id FROM generate_series(0, 255) s (n) CROSS JOIN LATERAL (
        SELECT x.shard, x.event_id FROM deliveries x
         WHERE x.shard = s.n::smallint AND x.id < @high::bigint + 20971520000 `
	waitingTail = bucketByBucket + `) d
    UNION ALL
    SELECT d.shard, d.event_id FROM deliveries d WHERE abs(d.id - d.event_id) > 20971520000`

	// chunkedSQL is deliveries that jobs are still to act on.
	chunkedSQL = `SELECT c.shard, c.id FROM job_chunks j CROSS JOIN LATERAL unnest(j.shards, j.ids) AS c (shard, id)`

	// neededEventsSQL is events of a stretch that something unfinished is of, needs, or is still to be made of.
	neededEventsSQL = `
SELECT DISTINCT w.shard, w.event_id AS id FROM (` + waitingSQL + `
    UNION ALL
    SELECT u.shard, u.event_id FROM events_unrouted u
    UNION ALL
    SELECT f.shard, f.event_id FROM (` + chunkedSQL + `) c JOIN deliveries_finished f ON f.shard = c.shard AND f.id = c.id) w
 WHERE w.event_id >= @low AND w.event_id < @high`

	// neededFinishedSQL is finished deliveries of a stretch that jobs are still to act on; whose event is unfinished, which their
	// states are a part of: it may be older, and wait for another delivery; or that had an attempt lately, so that whoever enables an
	// endpoint again after a long time sees what became of what it held.
	neededFinishedSQL = `
SELECT c.shard, c.id FROM (` + chunkedSQL + `) c WHERE c.id >= @low AND c.id < @high
UNION
SELECT e.shard, o.id FROM (SELECT DISTINCT w.shard, w.event_id FROM (` + waitingHead + waitingTail + `) w WHERE w.event_id < @high) n
    JOIN events e ON e.shard = n.shard AND e.id = n.event_id CROSS JOIN LATERAL unnest(e.delivery_ids) AS o (id)
 WHERE o.id >= @low AND o.id < @high
UNION
` + attemptedSQL

	// lateFinishedSQL is those of neededFinishedSQL that are found fast, however much is unfinished. The others belong to an event that has
	// come back after its time was over.
	lateFinishedSQL = `
SELECT c.shard, c.id FROM (` + chunkedSQL + `) c WHERE c.id >= @low AND c.id < @high
UNION
` + attemptedSQL

	// attemptedSQL is deliveries of a stretch with attempts since @since. Index: the primary key, in the partitions of the last days.
	attemptedSQL = `
SELECT a.shard, a.delivery_id AS id FROM generate_series(0, 255) s (n) CROSS JOIN LATERAL (
    SELECT x.shard, x.delivery_id FROM attempts x
     WHERE x.shard = s.n::smallint AND x.delivery_id >= @low AND x.delivery_id < @high AND x.id >= @since` + bucketByBucket + `) a`

	// neededAttemptsSQL is attempts of a stretch of unfinished deliveries, in the partition %s. The deliveries come first, and each is looked
	// up: OFFSET 0 leaves the planner no other way, which it would take while the table of deliveries is all but empty, and which reads it
	// once for each attempt. Indexes deliveries_pkey, and the partition's primary key.
	neededAttemptsSQL = `
SELECT a.* FROM generate_series(0, 255) s (n)
    CROSS JOIN LATERAL (SELECT x.shard, x.id FROM deliveries x WHERE x.shard = s.n::smallint AND x.id < @high::bigint AND x.attempts > 0` + bucketByBucket + `) d
    CROSS JOIN LATERAL (SELECT * FROM %s t WHERE t.shard = d.shard AND t.delivery_id = d.id AND t.id >= @low AND t.id < @high OFFSET 0) a`
)

// lateSQL gives what has come to be needed since it was looked at, for a look under the lock: without an event a delivery that was brought
// back could not be sent. "": attempts, which are the past of one that may lack them.
func lateSQL(table string) string {
	switch table {
	case tableEvents:
		return neededEventsSQL
	case tableFinished:
		return lateFinishedSQL
	}
	return ""
}
