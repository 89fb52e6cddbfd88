package jobs

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/id"
)

// gatherPage is how many deliveries a step looks up.
const gatherPage = 1000

const gatherSQL = `
UPDATE jobs j SET chunks = @chunks, cursor_shard = @cursor_shard, cursor_id = @cursor, gathered = @all, tries = 0,
    next_at = @now,
    matched = CASE WHEN @all THEN (SELECT coalesce(sum(cardinality(c.ids)), 0) FROM job_chunks c
        WHERE c.shard = @shard AND c.job_id = @id) ELSE j.matched END,
    matched_at_least = j.matched_at_least AND NOT @all
WHERE j.shard = @shard AND j.id = @id`

// gather writes down some of the deliveries that the filter means, from the newest that is older than the job on, before
// anything is done to them: what the job then does to one cannot bring it in again. The oldest are worked off first, so that
// deliveries of one group come back in their order.
func (j *Jobs) gather(ctx context.Context, p progress, s spec) error {
	f, err := s.filter()
	if err != nil {
		return err
	}
	found, err := j.deps.Desk.List(ctx, f, gatherPage, id.ID{Shard: p.CursorShard, N: p.CursorID})
	if err != nil {
		return err //nolint:wrapcheck // says it all
	}
	return j.inStep(ctx, p, func(tx pgx.Tx, held progress) error {
		if held.Gathered || held.CursorID != p.CursorID || held.CursorShard != p.CursorShard {
			return errLost // it has gone on meanwhile
		}
		ids := make([]id.ID, len(found))
		for i, d := range found {
			ids[i] = d.ID
		}
		b, n := &pgx.Batch{}, held.Chunks
		for some := range slices.Chunk(ids, j.deps.Batch) {
			n++
			some = slices.Clone(some)
			slices.Reverse(some)
			queueChunk(b, p.id(), n, some)
		}
		last := id.ID{Shard: held.CursorShard, N: held.CursorID}
		if len(ids) > 0 {
			last = ids[len(ids)-1]
		}
		b.Queue(gatherSQL, pgx.StrictNamedArgs{
			"shard": p.Shard, "id": p.ID, "chunks": n, "cursor_shard": last.Shard, "cursor": last.N,
			"all": len(found) < gatherPage, "now": j.deps.Now(),
		})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("gather a job's deliveries: %w", err)
		}
		return nil
	})
}

// Index job_chunks_pkey.
const takeChunkSQL = `SELECT shards, ids FROM job_chunks WHERE shard = @shard AND job_id = @id AND n = @n`

// act works off the last chunk, which has the oldest deliveries.
func (j *Jobs) act(ctx context.Context, tx pgx.Tx, p progress, s spec) (work, error) {
	if p.Chunks == 0 {
		return work{end: true}, nil
	}
	var shards []int16
	var ids []int64
	err := tx.QueryRow(ctx, takeChunkSQL, pgx.StrictNamedArgs{"shard": p.Shard, "id": p.ID, "n": p.Chunks}).Scan(&shards, &ids)
	if err != nil {
		return work{}, fmt.Errorf("read a job's deliveries: %w", err)
	}
	f, err := s.filter()
	if err != nil {
		return work{}, err
	}
	w := work{chunk: p.Chunks, end: p.Chunks == 1}
	b, now := &pgx.Batch{}, j.deps.Now()
	for _, m := range byBucket(shards, ids, f.States) {
		done := func(n int) {
			if w.done += n; n > 0 && Kind(p.Kind) == Retry {
				w.woken = append(w.woken, m.Shard)
			}
		}
		if Kind(p.Kind) == Cancel {
			dispatcher.QueueCancels(b, m, dispatcher.ReasonCancelledByUser, now, done)
		} else {
			dispatcher.QueueRetries(b, m, now, done)
		}
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return work{}, fmt.Errorf("%s deliveries: %w", p.Kind, err)
	}
	w.skipped = len(ids) - w.done
	return w, nil
}

// byBucket puts deliveries together that lie in one bucket, in one order for all transactions.
func byBucket(shards []int16, ids []int64, states []dispatcher.State) []dispatcher.Many {
	var all []dispatcher.Many
	at := map[int16]int{}
	for i, shard := range shards {
		n, known := at[shard]
		if !known {
			n = len(all)
			at[shard] = n
			all = append(all, dispatcher.Many{Shard: shard, States: states})
		}
		all[n].IDs = append(all[n].IDs, ids[i])
	}
	slices.SortFunc(all, func(a, b dispatcher.Many) int { return int(a.Shard) - int(b.Shard) })
	return all
}

// replay tells some events again, the oldest first.
func (j *Jobs) replay(ctx context.Context, tx pgx.Tx, p progress, s spec) (work, error) {
	r, err := s.replay(p.tenant(), p.ID)
	if err != nil {
		return work{}, err
	}
	step, err := j.deps.Intake.Replay(ctx, tx, r, p.CursorID, j.deps.Batch, j.deps.Now())
	if err != nil {
		return work{}, err //nolint:wrapcheck // says it all
	}
	w := work{done: step.Done, skipped: step.Matched - step.Done, cursor: max(step.Last, p.CursorID), end: step.End}
	if step.Done > 0 {
		w.woken = []int16{p.Shard}
	}
	return w, nil
}
