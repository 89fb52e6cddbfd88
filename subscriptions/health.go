package subscriptions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/id"
)

// Health is what a batch of attempts showed of one endpoint, and what follows for its status.
type Health struct {
	Endpoint       int64
	Recovered      bool      // a success came; Failures counts those after it
	Failures       int       // attempts that failed
	FirstFailureAt time.Time // of those
	LastError      string    // of the last of those, for people
	Status         Status    // Disabled or Dead; "" leaves it
	StatusReason   string
	// Version of the Target that was tried. A status follows only if the endpoint is still at it: an answer from before
	// its owner changed the URL or enabled it again says nothing about what it is now. 0 does not ask.
	Version int
	// FailingSince is the value of failing_since that a Disabled for failing too long was decided on. Such a status follows
	// only if the endpoint is failing since then still, with no success in this batch or in one before it. Nil does not ask.
	FailingSince *time.Time
}

// QueueHealth adds to b what books a batch's healths, at most one for each endpoint, in a bucket: one statement, none if
// there is nothing to book. It belongs into the transaction that records the attempts. A deleted endpoint is left alone.
//
// The status goes from enabled to disabled, and from enabled or disabled to dead. Whatever else is asked for changes
// nothing: dead is final until its owner enables it, also against a later Disabled.
//
// closed hears of each endpoint whose status really changed, once the statement has run: its entry in the audit log is to be
// written in the same transaction.
//
// Rows are locked in the order of their ids, so that two batches do not block each other crosswise.
func QueueHealth(b *pgx.Batch, shard int16, hs []Health, now time.Time, closed func(audit.Entry)) {
	if len(hs) == 0 {
		return
	}
	if !slices.ContainsFunc(hs, func(h Health) bool { return h.Failures > 0 || h.Status != "" }) {
		queueRecovered(b, shard, hs)
		return
	}
	queueMixed(b, shard, hs, now, closed)
}

// queueRecovered is for batches with nothing but successes, nearly all of them of endpoints that had no failure: the
// partial index endpoints_failing has none of those.
func queueRecovered(b *pgx.Batch, shard int16, hs []Health) {
	const query = `
WITH failing AS MATERIALIZED (
     SELECT id FROM endpoints
      WHERE shard = @shard AND id = ANY (@ids) AND failing_since IS NOT NULL AND deleted_at IS NULL
      ORDER BY id FOR NO KEY UPDATE)
UPDATE endpoints e
   SET consecutive_failures = 0, failing_since = NULL, last_error = NULL
  FROM failing
 WHERE e.shard = @shard AND e.id = failing.id`
	ids := make([]int64, 0, len(hs))
	for _, h := range hs {
		if h.Recovered {
			ids = append(ids, h.Endpoint)
		}
	}
	if len(ids) > 0 {
		b.Queue(query, pgx.StrictNamedArgs{"shard": shard, "ids": ids})
	}
}

// queueMixed books everything. The count starts again after a success; failing_since is the first failure since then.
func queueMixed(b *pgx.Batch, shard int16, hs []Health, now time.Time, closed func(audit.Entry)) {
	// By the primary key. What is new is worked out in `mine`, which sees each row as it is once it is locked, and not as
	// it was when the statement began. An endpoint that had a success and nothing to forget is not written.
	const query = `
WITH mine AS MATERIALIZED (
     SELECT e.id,
            CASE WHEN h.recovered THEN 0 ELSE e.consecutive_failures END + h.failures AS failures,
            CASE WHEN h.failures = 0 AND h.recovered THEN NULL
                 WHEN h.failures > 0 AND (h.recovered OR e.failing_since IS NULL) THEN h.first_at
                 ELSE e.failing_since END AS failing_since,
            CASE WHEN h.failures > 0 THEN h.error WHEN h.recovered THEN NULL ELSE e.last_error END AS last_error,
            (h.version = 0 OR h.version = e.version)
                AND (h.since IS NULL OR NOT h.recovered AND e.failing_since IS NOT DISTINCT FROM h.since)
                AND (h.status = 'disabled' AND e.status = 'enabled' OR h.status = 'dead' AND e.status <> 'dead') AS closes,
            h.status, h.reason, e.status::text AS was, e.tenant_id
       FROM endpoints e
       JOIN unnest(@ids::bigint[], @recovered::boolean[], @failures::integer[], @firsts::timestamptz[],
                   @errors::text[], @statuses::text[], @reasons::text[], @versions::integer[],
                   @since::timestamptz[])
            AS h (id, recovered, failures, first_at, error, status, reason, version, since) ON h.id = e.id
      WHERE e.shard = @shard AND e.deleted_at IS NULL
        AND (h.failures > 0 OR h.status <> '' OR e.consecutive_failures > 0)
      ORDER BY e.id FOR NO KEY UPDATE OF e),
written AS (
UPDATE endpoints e
   SET consecutive_failures = mine.failures, failing_since = mine.failing_since, last_error = mine.last_error,
       status = CASE WHEN mine.closes THEN mine.status::endpoint_status ELSE e.status END,
       status_reason = CASE WHEN mine.closes THEN mine.reason ELSE e.status_reason END,
       status_changed_at = CASE WHEN mine.closes THEN @now ELSE e.status_changed_at END,
       updated_at = CASE WHEN mine.closes THEN @now ELSE e.updated_at END,
       version = e.version + mine.closes::integer
  FROM mine
 WHERE e.shard = @shard AND e.id = mine.id)
SELECT id, tenant_id, was, status, reason FROM mine WHERE closes ORDER BY id`
	var c healthColumns
	for _, h := range hs {
		c.add(h)
	}
	b.Queue(query, pgx.StrictNamedArgs{
		"shard": shard, "now": now, "ids": c.ids, "recovered": c.recovered, "failures": c.failures, "firsts": c.firsts,
		"errors": c.errors, "statuses": c.statuses, "reasons": c.reasons, "versions": c.versions,
		"since": c.since,
	}).Query(func(rows pgx.Rows) error { return readClosed(rows, shard, closed) })
}

func readClosed(rows pgx.Rows, shard int16, closed func(audit.Entry)) error {
	endpoint, tenant := id.ID{Shard: shard}, id.ID{Shard: shard}
	var was, status, reason string
	_, err := pgx.ForEachRow(rows, []any{&endpoint.N, &tenant.N, &was, &status, &reason}, func() error {
		why := reason
		closed(statusEntry(endpoint, tenant, was, status, &why))
		return nil
	})
	if err != nil {
		return fmt.Errorf("read which endpoints were closed: %w", err)
	}
	return nil
}

// healthColumns are healths by column, as unnest takes them.
type healthColumns struct {
	ids                       []int64
	recovered                 []bool
	failures, versions        []int32
	firsts                    []time.Time
	since                     []*time.Time
	errors, statuses, reasons []string
}

func (c *healthColumns) add(h Health) {
	c.ids = append(c.ids, h.Endpoint)
	c.recovered = append(c.recovered, h.Recovered)
	c.failures = append(c.failures, int32(h.Failures)) //nolint:gosec // of one batch
	c.versions = append(c.versions, int32(h.Version))  //nolint:gosec // it comes from an integer column
	c.firsts = append(c.firsts, h.FirstFailureAt)
	c.since = append(c.since, h.FailingSince)
	c.errors = append(c.errors, storable(h.LastError))
	c.statuses = append(c.statuses, string(h.Status))
	c.reasons = append(c.reasons, storable(h.StatusReason))
}

// storable makes a text fit for its column, whatever a receiver put into it: one that is not would undo the whole batch.
func storable(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}
