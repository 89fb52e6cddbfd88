package stats

import (
	"context"
	"fmt"
	"strconv"
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
SELECT c.minutes, c.starts, c.id, c.outcome::outcome, c.attempts, c.finished, c.latency_from, c.latency::integer[]
  FROM unnest(@minutes::smallint[], @starts::timestamptz[], @ids::bigint[], @outcomes::text[], @attempts::integer[],
        @finished::integer[], @froms::smallint[], @latencies::text[])
      AS c (minutes, starts, id, outcome, attempts, finished, latency_from, latency)
ON CONFLICT (minutes, starts, id) DO UPDATE
   SET attempts = excluded.attempts, finished = excluded.finished, latency_from = excluded.latency_from,
       latency = excluded.latency`

	writeEndpointsSQL = `
INSERT INTO endpoint_traffic (shard, endpoint_id, starts, id, outcome, attempts, finished, latency_from, latency)
SELECT c.shard, c.endpoint_id, c.starts, c.id, c.outcome::outcome, c.attempts, c.finished, c.latency_from, c.latency::integer[]
  FROM unnest(@shards::smallint[], @endpoints::bigint[], @starts::timestamptz[], @ids::bigint[], @outcomes::text[],
        @attempts::integer[], @finished::integer[], @froms::smallint[], @latencies::text[])
      AS c (shard, endpoint_id, starts, id, outcome, attempts, finished, latency_from, latency)
ON CONFLICT (shard, endpoint_id, starts, id) DO UPDATE
   SET attempts = excluded.attempts, finished = excluded.finished, latency_from = excluded.latency_from,
       latency = excluded.latency`
)

// Flush writes down what was counted since it was last. What cannot be written is kept for the next time.
func (t *Tally) Flush(ctx context.Context) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.swap()
	t.written = len(t.taken)
	for len(t.taken) > 0 {
		n := min(len(t.taken), flushRows)
		if err := t.deps.DB.SendBatch(ctx, t.begin(t.taken[:n])).Close(); err != nil {
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

// begin gives the statements that write counts as they are now, one transaction.
func (t *Tally) begin(some []*count) *pgx.Batch {
	var all, endpoints columns
	t.mu.Lock()
	for _, c := range some {
		if c.endpoint.IsZero() {
			all.add(c)
		} else {
			endpoints.add(c)
		}
	}
	t.mu.Unlock()
	b := &pgx.Batch{}
	// What a crash of the server loses of figures is no more than what one of ours does.
	b.Queue(`SELECT set_config('synchronous_commit', 'off', true)`)
	if len(all.ids) > 0 {
		b.Queue(writeTrafficSQL, all.args(pgx.StrictNamedArgs{"minutes": all.minutes}))
	}
	if len(endpoints.ids) > 0 {
		b.Queue(writeEndpointsSQL, endpoints.args(pgx.StrictNamedArgs{"shards": endpoints.shards, "endpoints": endpoints.endpoints}))
	}
	return b
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
	latencies          []string // each an array of its own, which unnest would take apart as well
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
	from, text := spell(&of.latency)
	c.froms = append(c.froms, from)
	c.latencies = append(c.latencies, text)
}

func (c *columns) args(more pgx.StrictNamedArgs) pgx.StrictNamedArgs {
	more["starts"], more["ids"], more["outcomes"] = c.starts, c.ids, c.outcomes
	more["attempts"], more["finished"] = c.attempts, c.finished
	more["froms"], more["latencies"] = c.froms, c.latencies
	return more
}

// spell gives the buckets that have something, and those between them, as an array of SQL, and which is the first.
func spell(latency *[buckets]int32) (from int16, array string) {
	first, end := 0, buckets
	for end > 0 && latency[end-1] == 0 {
		end--
	}
	for first < end && latency[first] == 0 {
		first++
	}
	if first == end {
		return 0, "{}"
	}
	text := []byte{'{'}
	for i, n := range latency[first:end] {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(n), 10)
	}
	return int16(first), string(append(text, '}'))
}
