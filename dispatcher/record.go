package dispatcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// recordSQL ends a batch of attempts in one bucket: finished deliveries move to deliveries_finished, the others go back
// to wait, and each attempt that was made is kept. All of it happens only where the lease is still the one the attempt
// ran under (its owner and its number): a process that comes back from the dead changes nothing that another has done
// since. Its attempt was made all the same, so that row is kept (`made`); a rescuer's row about an attempt that it did
// not see is kept only by the one that wins.
//
// A delivery that was cancelled while in flight (cancel_reason) ends with its attempt, whatever that would have it do next.
//
// Index deliveries_pkey, a probe for each result: the LATERAL with its LIMIT leaves the planner no other way, such as walking
// all that is in flight in the bucket for each result. That a row with an owner is in flight is a CHECK's business.
const recordSQL = `
WITH r AS MATERIALIZED (
    SELECT * FROM unnest(@ids::bigint[], @owners::bigint[], @claims::integer[], @finals::text[], @reasons::text[],
        @nexts::timestamptz[], @attempts::integer[], @failures::integer[], @rescues::integer[], @outcomes::text[],
        @statuses::smallint[])
      AS r(id, owner, claim, final, reason, next_at, attempts, failures, rescues, outcome, status)
), held AS MATERIALIZED (
    SELECT r.*, r.final IS NOT NULL OR d.cancel_reason IS NOT NULL AS ends, d.tenant_id, d.event_id, d.endpoint_id,
           d.cancel_reason
      FROM r CROSS JOIN LATERAL (
           SELECT d.tenant_id, d.event_id, d.endpoint_id, d.cancel_reason FROM deliveries d
            WHERE d.shard = @shard AND d.id = r.id AND d.lease_owner = r.owner AND d.attempts = r.claim
            LIMIT 1 FOR UPDATE) d
), gone AS (
    DELETE FROM deliveries d
     WHERE d.shard = @shard AND d.id = ANY (ARRAY(SELECT h.id FROM held h WHERE h.ends))
), archived AS (
    INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, reason,
        last_outcome, last_status, finished_at)
    SELECT @shard, h.id, h.tenant_id, h.event_id, h.endpoint_id, coalesce(h.final, 'cancelled')::delivery_state,
           h.attempts, CASE WHEN h.final IS NULL THEN h.cancel_reason ELSE h.reason END, h.outcome::outcome, h.status, @now
      FROM held h WHERE h.ends
), waiting AS (
    UPDATE deliveries d SET state = 'pending', next_retry_at = h.next_at, attempts = h.attempts, failures = h.failures,
           rescues = h.rescues, lease_owner = NULL, leased_until = NULL,
           last_outcome = coalesce(h.outcome::outcome, d.last_outcome), last_status = coalesce(h.status, d.last_status)
      FROM held h
     WHERE d.shard = @shard AND d.id = h.id AND NOT h.ends
), history AS (
    INSERT INTO attempts (shard, id, delivery_id, endpoint_id, webhook_timestamp, endpoint_version, attempt, status,
        outcome, dns_us, connect_us, tls_us, first_byte_us, total_us, address, user_agent, signature, error,
        response_headers, response_body, response_truncated)
    SELECT @shard, h.id, h.delivery_id, h.endpoint_id, h.signed_at, h.version, h.attempt, h.status, h.outcome::outcome,
           h.dns, h.connect, h.tls, h.first_byte, h.total, h.address, h.agent, h.signature, h.error, h.headers, h.body,
           h.truncated
      FROM unnest(@a_ids::bigint[], @a_deliveries::bigint[], @a_endpoints::bigint[], @a_signed::bigint[],
        @a_versions::integer[], @a_numbers::integer[], @a_statuses::smallint[], @a_outcomes::text[], @a_dns::integer[],
        @a_connect::integer[], @a_tls::integer[], @a_first::integer[], @a_total::integer[], @a_addresses::text[],
        @a_agents::text[], @a_signatures::text[], @a_errors::text[], @a_headers::bytea[], @a_bodies::bytea[],
        @a_truncated::boolean[], @a_made::boolean[])
      AS h(id, delivery_id, endpoint_id, signed_at, version, attempt, status, outcome, dns, connect, tls, first_byte,
        total, address, agent, signature, error, headers, body, truncated, made)
     WHERE h.made OR h.delivery_id IN (SELECT held.id FROM held)
    ON CONFLICT DO NOTHING -- recorded already, by a commit whose answer did not come back
)
SELECT id, CASE WHEN final IS NULL THEN cancel_reason END AS cancelled FROM held`

// record writes results down in one transaction, one statement a bucket, and gives those whose lease was still theirs. What
// these mean for endpoints and alerts goes into the same transaction: a result that came too late says nothing any more.
func (d *Dispatcher) record(ctx context.Context, results []result) (won []result, err error) {
	ctx, cancel := context.WithTimeout(ctx, dbPatience)
	defer cancel()
	now := d.deps.Now()
	buckets := inBuckets(results)
	err = pg.InTx(ctx, d.deps.DB, func(tx pgx.Tx) error {
		won = won[:0]
		batch := &pgx.Batch{}
		for _, bu := range buckets {
			batch.Queue(recordSQL, recordArgs(bu.shard, bu.results, now)).Query(func(rows pgx.Rows) error {
				err := bu.settle(rows)
				won = append(won, bu.won...)
				return err
			})
		}
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return fmt.Errorf("record attempts: %w", err)
		}
		after := &pgx.Batch{}
		for _, bu := range buckets {
			d.queueAftermath(after, bu.shard, bu.won, now)
		}
		if after.Len() == 0 {
			return nil
		}
		if err := tx.SendBatch(ctx, after).Close(); err != nil {
			return fmt.Errorf("record what attempts mean: %w", err)
		}
		return nil
	})
	return won, err
}

// bucket holds the results of one bucket: a statement never touches two.
type bucket struct {
	shard        int16
	results, won []result
}

// settle reads which of the bucket's results count. One whose delivery was cancelled while it was in flight, and that did
// not finish it itself, has finished it as cancelled.
func (bu *bucket) settle(rows pgx.Rows) error {
	var n int64
	var cancelled *string
	ours := make(map[int64]*string, len(bu.results))
	_, err := pgx.ForEachRow(rows, []any{&n, &cancelled}, func() error {
		ours[n] = cancelled
		return nil
	})
	bu.won = bu.won[:0]
	for _, r := range bu.results {
		why, won := ours[r.claimed.ID]
		if !won {
			continue
		}
		if why != nil {
			r.decision.State, r.decision.Reason, r.decision.NextAt = StateCancelled, Reason(*why), time.Time{}
		}
		bu.won = append(bu.won, r)
	}
	return err //nolint:wrapcheck // wrapped by record, once for all buckets
}

// inBuckets groups results by bucket, in one order for all transactions, so that two of them cannot wait for each other.
// Of two results about one delivery the one that was made here counts: the other is a rescue's, which found our own lease
// over while the database was away.
func inBuckets(results []result) []*bucket {
	byShard, at := map[int16]*bucket{}, make(map[id.ID]int, len(results))
	var buckets []*bucket
	for _, r := range results {
		bu := byShard[r.claimed.Shard]
		if bu == nil {
			bu = &bucket{shard: r.claimed.Shard}
			byShard[bu.shard] = bu
			buckets = append(buckets, bu)
		}
		earlier, twice := at[r.claimed.delivery()]
		switch {
		case !twice:
			at[r.claimed.delivery()] = len(bu.results)
			bu.results = append(bu.results, r)
		case r.made:
			bu.results[earlier] = r
		}
	}
	slices.SortFunc(buckets, func(a, b *bucket) int { return cmp.Compare(a.shard, b.shard) })
	return buckets
}

// flush records a batch come what may. A database that is away is waited for: the leases of what waits here protect it,
// and if they run out another process tries again, which is the honest duplicate. A batch that PostgreSQL refuses is
// halved until the one result that it chokes on stands alone; that one is recorded without the receiver's words, which
// are all that can be strange about it.
func (d *Dispatcher) flush(ctx context.Context, results []result) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		won, err := d.record(ctx, results)
		if err == nil {
			d.recorded(results, won)
			return
		}
		if ctx.Err() != nil {
			d.log.Error().Err(err).Int("attempts", len(results)).Msg("attempts.unrecorded")
			d.abandoned(results)
			return
		}
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
		d.flush(ctx, results[:half])
		d.flush(ctx, results[half:])
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
	d.flush(ctx, []result{r})
}
