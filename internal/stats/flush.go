package stats

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// flushRows is how many counts are written in one transaction: little enough that nobody who counts waits for them to be copied.
const flushRows = 1000

// By the primary keys. A count's row is its own, so it is written over with what the count has come to: one that was
// written by a commit whose answer did not come back is written again, to the same end.
const (
	writeTrafficSQL = `
INSERT INTO traffic (minutes, starts, id, outcome, attempts, finished, latency_from, latency)
SELECT c.minutes, c.starts, c.id, c.outcome::outcome, c.attempts, c.finished, c.latency_from, c.latency
  FROM unnest(@minutes::smallint[], @starts::timestamptz[], @ids::bigint[], @outcomes::text[], @attempts::integer[],
        @finished::integer[], @froms::smallint[], @latencies::bytea[])
      AS c (minutes, starts, id, outcome, attempts, finished, latency_from, latency)
ON CONFLICT (minutes, starts, id) DO UPDATE
   SET attempts = excluded.attempts, finished = excluded.finished, latency_from = excluded.latency_from,
       latency = excluded.latency`

	writeEndpointsSQL = `
INSERT INTO endpoint_traffic (shard, endpoint_id, starts, id, outcome, attempts, finished, latency_from, latency)
SELECT c.shard, c.endpoint_id, c.starts, c.id, c.outcome::outcome, c.attempts, c.finished, c.latency_from, c.latency
  FROM unnest(@shards::smallint[], @endpoints::bigint[], @starts::timestamptz[], @ids::bigint[], @outcomes::text[],
        @attempts::integer[], @finished::integer[], @froms::smallint[], @latencies::bytea[])
      AS c (shard, endpoint_id, starts, id, outcome, attempts, finished, latency_from, latency)
ON CONFLICT (shard, endpoint_id, starts, id) DO UPDATE
   SET attempts = excluded.attempts, finished = excluded.finished, latency_from = excluded.latency_from,
       latency = excluded.latency`

	// Rows that cannot be there yet are most of what is written where there are many endpoints. Copied, they are half the log: many to
	// a record of it, and none that says first that it might be in somebody's way.
	copyEndpointsSQL = `
COPY endpoint_traffic (shard, endpoint_id, starts, id, outcome, attempts, finished, latency_from, latency) FROM STDIN`
)

// Flush writes down what was counted since it was last. What cannot be written is kept for the next time.
func (t *Tally) Flush(ctx context.Context) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.swap()
	// In the order of the key: what is new splits few pages of its index, and the rows of a transaction lie together.
	slices.SortFunc(t.taken, func(a, b *count) int {
		return cmp.Or(cmp.Compare(a.endpoint.Shard, b.endpoint.Shard), cmp.Compare(a.endpoint.N, b.endpoint.N), cmp.Compare(a.starts, b.starts))
	})
	for len(t.taken) > 0 {
		n := min(len(t.taken), flushRows)
		if err := t.write(ctx, t.begin(t.taken[:n])); err != nil {
			t.putBack(t.taken)
			return pg.Fault(fmt.Errorf("write figures: %w", err))
		}
		t.taken = t.taken[n:]
	}
	t.sweep(t.deps.Now())
	return nil
}

// swap takes the counts that there is more of. Others may gather meanwhile, where those of the last time stood.
func (t *Tally) swap() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = t.dirty
	t.dirty, t.idle = t.idle[:0], t.dirty
	for _, c := range t.taken {
		c.dirty = false
	}
}

// flush is what one transaction writes.
type flush struct {
	all, endpoints columns
	first          []byte // endpoints' rows that were never written before, as COPY takes them
}

// begin takes down some counts as they are now.
func (t *Tally) begin(some []*count) *flush {
	f := &flush{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range some {
		switch {
		case c.endpoint.IsZero():
			f.all.add(c)
		case c.stored:
			f.endpoints.add(c)
		default:
			f.first = c.appendCopy(f.first)
			c.stored = true
		}
	}
	return f
}

// write runs the transaction. What may or may not have been committed is written over when it is written next, also what was copied.
func (t *Tally) write(ctx context.Context, f *flush) error {
	return pgx.BeginFunc(ctx, t.deps.DB, func(tx pgx.Tx) error { //nolint:wrapcheck // by the caller
		b := &pgx.Batch{}
		// What a crash of the server loses of figures is no more than what one of ours does.
		b.Queue(`SET LOCAL synchronous_commit = off`)
		if len(f.all.ids) > 0 {
			b.Queue(writeTrafficSQL, f.all.args(pgx.StrictNamedArgs{"minutes": f.all.minutes}))
		}
		if len(f.endpoints.ids) > 0 {
			b.Queue(writeEndpointsSQL, f.endpoints.args(pgx.StrictNamedArgs{"shards": f.endpoints.shards, "endpoints": f.endpoints.endpoints}))
		}
		if err := tx.SendBatch(ctx, b).Close(); err != nil || len(f.first) == 0 {
			return err
		}
		_, err := tx.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(f.first), copyEndpointsSQL)
		return err
	})
}

// appendCopy adds the row to text for COPY.
func (c *count) appendCopy(to []byte) []byte {
	from, latency := pack(&c.latency)
	return fmt.Appendf(to, "%d\t%d\t%s\t%d\t%s\t%d\t%d\t%d\t\\\\x%x\n", c.endpoint.Shard, c.endpoint.N,
		time.Unix(c.starts, 0).UTC().Format(time.RFC3339), c.id, c.outcome, c.attempts, c.finished, from, latency)
}

// putBack has counts written again that may not have been.
func (t *Tally) putBack(some []*count) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range some {
		t.mark(c)
	}
}

// columns are counts by column, as unnest takes them.
type columns struct {
	minutes, shards    []int16
	endpoints          []int64
	starts             []time.Time
	ids                []int64
	outcomes           []string
	attempts, finished []int32
	froms              []int16
	latencies          [][]byte
}

func (c *columns) add(of *count) {
	c.minutes = append(c.minutes, int16(of.span/minute)) //nolint:gosec // 60 at most
	c.shards = append(c.shards, of.endpoint.Shard)
	c.endpoints = append(c.endpoints, of.endpoint.N)
	c.starts = append(c.starts, time.Unix(of.starts, 0))
	c.ids = append(c.ids, of.id)
	c.outcomes = append(c.outcomes, of.outcome.String())
	c.attempts = append(c.attempts, of.attempts)
	c.finished = append(c.finished, of.finished)
	from, packed := pack(&of.latency)
	c.froms = append(c.froms, from)
	c.latencies = append(c.latencies, packed)
}

func (c *columns) args(more pgx.StrictNamedArgs) pgx.StrictNamedArgs {
	more["starts"], more["ids"], more["outcomes"] = c.starts, c.ids, c.outcomes
	more["attempts"], more["finished"] = c.attempts, c.finished
	more["froms"], more["latencies"] = c.froms, c.latencies
	return more
}
