package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// recordSQL ends a batch of attempts: finished deliveries move to deliveries_finished, the others go back to wait, and each
// attempt that was made is kept. All of it happens only where the lease is still the one the attempt ran under (its owner
// and its number): a process that comes back from the dead changes nothing that another has done since. Its attempt was
// made all the same, so that row is kept (`made`); a rescuer's row about an attempt that it did not see is kept only by
// the one that wins.
//
// A delivery that was cancelled while in flight (cancel_reason) ends with its attempt, whatever that would have it do next. One
// that is marked so at this very moment is in neither arm: record asks once more.
//
// Index deliveries_pkey, a look-up for each result. No condition on deliveries has a constant beside it, so there is nothing
// else to go by. That a row with an owner is in flight is a CHECK's business.
const recordSQL = `
WITH r AS MATERIALIZED (
    SELECT * FROM unnest(@shards::smallint[], @ids::bigint[], @owners::bigint[], @claims::integer[], @finals::text[],
        @reasons::text[], @nexts::timestamptz[], @attempts::integer[], @failures::integer[], @rescues::integer[],
        @lanes::smallint[], @outcomes::text[], @statuses::smallint[], @kept::boolean[], @made::boolean[],
        @attempt_ids::bigint[], @endpoints::bigint[], @signed::bigint[], @versions::integer[], @dns::integer[],
        @connect::integer[], @tls::integer[], @first::integer[], @total::integer[], @addresses::text[], @signatures::text[],
        @errors::text[], @details::text[], @headers::bytea[], @bodies::bytea[], @truncated::boolean[])
      AS r(shard, id, owner, claim, final, reason, next_at, attempts, failures, rescues, lane, outcome, status, kept, made,
        attempt_id, endpoint_id, signed_at, version, dns, connect, tls, first_byte, total, address, signature, error,
        detail, headers, body, truncated)
), gone AS (
    DELETE FROM deliveries d USING r
     WHERE d.shard = r.shard AND d.id = r.id AND d.lease_owner = r.owner AND d.attempts = r.claim
       AND (r.final <> '' OR d.cancel_reason IS NOT NULL)
    RETURNING d.shard, d.id, d.tenant_id, d.event_id, d.endpoint_id, d.group_id, r.attempts, r.outcome, r.status,
        r.final = '' AS cancelled, CASE r.final WHEN '' THEN 'cancelled' ELSE r.final END AS final,
        CASE r.final WHEN '' THEN d.cancel_reason ELSE nullif(r.reason, '') END AS reason
), archived AS (
    INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, reason, last_outcome,
        last_status, finished_at, group_id)
    SELECT g.shard, g.id, g.tenant_id, g.event_id, g.endpoint_id, g.final::delivery_state, g.attempts, g.reason,
           nullif(g.outcome, '')::outcome, nullif(g.status, 0), @now, g.group_id
      FROM gone g
), waiting AS (
    UPDATE deliveries d SET state = 'pending', next_retry_at = r.next_at, attempts = r.attempts, failures = r.failures,
           rescues = r.rescues, lane = r.lane, lease_owner = NULL, leased_until = NULL,
           last_outcome = coalesce(nullif(r.outcome, '')::outcome, d.last_outcome),
           last_status = coalesce(nullif(r.status, 0), d.last_status)
      FROM r
     WHERE d.shard = r.shard AND d.id = r.id AND d.lease_owner = r.owner AND d.attempts = r.claim
       AND r.final = '' AND d.cancel_reason IS NULL
    RETURNING d.shard, d.id
), history AS (
    INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, status,
        outcome, dns_us, connect_us, tls_us, first_byte_us, total_us, address, user_agent, signature, error,
        error_detail, response_headers, response_body, response_truncated, replay)
    SELECT r.shard, r.attempt_id, r.id, r.endpoint_id, r.signed_at, r.version, r.claim, nullif(r.status, 0),
           r.outcome::outcome, nullif(r.dns, 0), nullif(r.connect, 0), nullif(r.tls, 0), nullif(r.first_byte, 0),
           nullif(r.total, 0), nullif(r.address, ''), CASE WHEN r.made THEN @agent::smallint END, nullif(r.signature, ''),
           nullif(r.error, ''), nullif(r.detail, ''), r.headers, r.body, r.truncated,
           CASE WHEN r.attempt_id = ANY (@replays::bigint[]) THEN true END
      FROM r
     WHERE r.kept AND (r.made OR (r.shard, r.id) IN (SELECT g.shard, g.id FROM gone g)
        OR (r.shard, r.id) IN (SELECT w.shard, w.id FROM waiting w))` + "%s" + `
)
SELECT shard, id, CASE WHEN cancelled THEN reason END FROM gone UNION ALL SELECT shard, id, NULL FROM waiting`

var (
	recordFirstSQL = fmt.Sprintf(recordSQL, "")
	// recordAgainSQL is for what may be recorded already, by a commit whose answer did not come back. Asking that each time
	// would cost each row a record of its own in the write-ahead log.
	recordAgainSQL = fmt.Sprintf(recordSQL, " ON CONFLICT DO NOTHING")
)

// record writes results down in one transaction, and gives those whose lease was still theirs. What these mean for endpoints
// and alerts goes into the same transaction: a result that came too late says nothing any more.
//
// again says that they may have been recorded before.
func (d *Dispatcher) record(ctx context.Context, results []result, again bool) (won []result, err error) {
	defer d.surviveRecord(&err)
	registering, cancel := context.WithTimeout(ctx, dbPatience)
	defer cancel()
	if err := d.register(registering); err != nil {
		return nil, err
	}
	return d.book(registering, results, again)
}

// book is the transaction of record. By itself it is for who makes no requests, and so need not register what those are called.
func (d *Dispatcher) book(ctx context.Context, results []result, again bool) (won []result, err error) {
	ctx, cancel := context.WithTimeout(ctx, dbPatience)
	defer cancel()
	now, results := d.deps.Now(), oneEach(results)
	var closed []audit.Entry
	err = pg.InTx(ctx, d.deps.Queue, func(tx pgx.Tx) error {
		first := &pgx.Batch{}
		pg.SyncCommit(first)
		if d.common {
			pg.PlanByIndex(first)
		}
		ended, trouble := map[id.ID]ending{}, map[id.ID]bool{}
		queueRecord(first, results, d.agent, now, again, ended)
		queueTrouble(first, results, trouble)
		if err := tx.SendBatch(ctx, first).Close(); err != nil {
			return fmt.Errorf("record attempts: %w", err)
		}
		if left := unsettled(results, ended); len(left) > 0 {
			second := &pgx.Batch{}
			queueRecord(second, left, d.agent, now, true, ended)
			if err := tx.SendBatch(ctx, second).Close(); err != nil {
				return fmt.Errorf("record attempts: %w", err)
			}
		}
		won = settle(results, ended)
		if err := forgetErased(ctx, tx, results, ended); err != nil {
			return err
		}
		after := &pgx.Batch{}
		closed = nil
		for shard, some := range byBucket(won) {
			d.queueAftermath(after, shard, some, trouble, now, func(e audit.Entry) { closed = append(closed, e) })
		}
		if after.Len() == 0 {
			return nil
		}
		if err := tx.SendBatch(ctx, after).Close(); err != nil {
			return fmt.Errorf("record what attempts mean: %w", err)
		}
		return audit.Write(audit.With(ctx, audit.System("dispatcher")), tx, d.deps.IDs.Next, closed...)
	})
	if err == nil {
		d.logClosed(closed)
	}
	return won, err
}

// ending is what a delivery whose result counts was cancelled for meanwhile; "" if it was not.
type ending string

// queueRecord queues the record of results. ended is told which of them count.
func queueRecord(b *pgx.Batch, results []result, agent int16, now time.Time, again bool, ended map[id.ID]ending) {
	sql := recordFirstSQL
	if again {
		sql = recordAgainSQL
	}
	b.Queue(sql, recordArgs(results, agent, now)).Query(func(rows pgx.Rows) error {
		var dlv id.ID
		var cancelled *string
		_, err := pgx.ForEachRow(rows, []any{&dlv.Shard, &dlv.N, &cancelled}, func() error {
			ended[dlv] = ""
			if cancelled != nil {
				ended[dlv] = ending(*cancelled)
			}
			return nil
		})
		return err
	})
}

// unsettled gives the results that would have their deliveries wait and did not count: too late, or, for a moment, between
// the two arms of recordSQL.
func unsettled(results []result, ended map[id.ID]ending) (left []result) {
	for _, r := range results {
		if _, counts := ended[r.claimed.delivery()]; !counts && !r.decision.State.Finished() {
			left = append(left, r)
		}
	}
	return left
}

// settle gives the results that count, as they came. One whose delivery was cancelled while it was in flight, and that did
// not finish it itself, has finished it as cancelled.
func settle(results []result, ended map[id.ID]ending) []result {
	won := make([]result, 0, len(results))
	for _, r := range results {
		why, counts := ended[r.claimed.delivery()]
		if !counts {
			continue
		}
		if why != "" {
			r.decision.State, r.decision.Reason, r.decision.NextAt = StateCancelled, Reason(why), time.Time{}
		}
		won = append(won, r)
	}
	return won
}

// oneEach leaves one result of each delivery. Of two the one that was made here counts: the other is a rescue's, which found our
// own lease over while the database was away.
func oneEach(results []result) []result {
	at := make(map[id.ID]int, len(results))
	out := make([]result, 0, len(results))
	for _, r := range results {
		earlier, twice := at[r.claimed.delivery()]
		switch {
		case !twice:
			at[r.claimed.delivery()] = len(out)
			out = append(out, r)
		case r.made:
			out[earlier] = r
		}
	}
	return out
}

// byBucket gives results bucket by bucket, in one order for all transactions, so that two of them cannot wait for each other.
func byBucket(results []result) iter.Seq2[int16, []result] {
	return func(yield func(int16, []result) bool) {
		some := map[int16][]result{}
		for _, r := range results {
			some[r.claimed.Shard] = append(some[r.claimed.Shard], r)
		}
		for _, shard := range slices.Sorted(maps.Keys(some)) {
			if !yield(shard, some[shard]) {
				return
			}
		}
	}
}

// flush records a batch come what may. A database that is away is waited for: the leases of what waits here protect it,
// and if they run out another process tries again, which is the honest duplicate. A batch that PostgreSQL refuses is
// halved until the one result that it chokes on stands alone; that one is recorded without the receiver's words, which
// are all that can be strange about it.
func (d *Dispatcher) flush(ctx context.Context, results []result) { d.flushAgain(ctx, results, false) }

// flushAgain does so with what may have been recorded before.
func (d *Dispatcher) flushAgain(ctx context.Context, results []result, again bool) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		begun := time.Now()
		won, err := d.record(ctx, results, again)
		d.recording.Turn()
		if err == nil {
			d.deps.Metrics.Recorded(len(results), time.Since(begun))
			d.recording.Work()
			d.recorded(results, won)
			return
		}
		if ctx.Err() != nil {
			d.log.Error().Err(err).Int("attempts", len(results)).Msg("attempts.unrecorded")
			d.abandoned(results)
			return
		}
		d.deps.Metrics.RecordFailed()
		again = true
		if !fault.Is(err, fault.Unavailable) && !errors.Is(err, context.DeadlineExceeded) {
			d.divide(ctx, results, err)
			return
		}
		d.log.Warn().Err(err).Int("attempts", len(results)).Dur("wait", wait).Msg("attempts.record_failed")
		sleep(ctx, wait)
	}
}

// divide deals with a batch that the database refuses for what is in it. One result that it refuses even without the
// receiver's words is given up: its lease runs out, and the rescue counts how often that happens.
func (d *Dispatcher) divide(ctx context.Context, results []result, cause error) {
	if len(results) > 1 {
		half := len(results) / 2
		d.flushAgain(ctx, results[:half], true)
		d.flushAgain(ctx, results[half:], true)
		return
	}
	r := results[0]
	if r.answer.header == nil && r.answer.body == nil {
		d.log.Error().Err(cause).Str("delivery", r.deliveryID()).Msg("attempt.unrecordable")
		d.abandoned(results)
		return
	}
	d.log.Error().Err(cause).Str("delivery", r.deliveryID()).Msg("attempt.stripped")
	r.answer.header, r.answer.body, r.answer.truncated = nil, nil, true
	d.flushAgain(ctx, []result{r}, true)
}
