package subscriptions

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// The pace of an endpoint is what all processes know together of how fast it can be sent to: its circuit breaker, the pause
// its receiver asked for, and the next slot of its rate limit. It is kept in the table endpoint_pace, which has a row only
// for an endpoint that needed one. Here is only what is stored: whether to open a breaker or for how long, and what a
// state means for a delivery, is decided by whoever sends.

// Breaker is the state of an endpoint's circuit breaker. Its value is what the API and the database show.
type Breaker string

// The states of a breaker.
const (
	BreakerClosed   Breaker = "closed"    // deliveries go out
	BreakerOpen     Breaker = "open"      // none does until a time, then one of them as a probe
	BreakerHalfOpen Breaker = "half_open" // a probe is on its way
)

// Pace is the part of an endpoint's pace that people are shown.
type Pace struct {
	Breaker     Breaker
	Since       *time.Time // when the breaker came into this state; nil: it was never anything but closed
	NextProbeAt *time.Time // not before; while half-open: when another may go if this one has told nothing by then
	PausedUntil *time.Time // nil as well once it has passed
}

// holds reports whether deliveries wait because of it.
func (p Pace) holds() bool { return p.Breaker != BreakerClosed || p.PausedUntil != nil }

// PaceChange is what a batch of attempts showed of one endpoint. At most one of Open, Reopen and Close is set.
type PaceChange struct {
	Endpoint int64
	Open     bool // closed → open, with one trip. A breaker that is open or half-open stays as it is
	Reopen   bool // a probe failed: half-open or open → open, with one trip more. A closed one stays as it is
	Close    bool // open or half-open → closed
	// Until is of Open and Reopen: no probe before.
	Until time.Time
	// PausedUntil is when the receiver wants to be asked again, zero if it said nothing. A pause is never made shorter.
	PausedUntil time.Time
	// Version of the Target that was tried: the change is left out if the endpoint has another one by now, since an answer
	// from before its owner changed the URL says nothing about what it is now. 0 does not ask.
	Version int
}

// move is a PaceChange's wish for the breaker, as the statement has it.
func (c PaceChange) move() string {
	switch {
	case c.Close:
		return "close"
	case c.Reopen:
		return "reopen"
	case c.Open:
		return "open"
	}
	return ""
}

// empty reports whether nothing is asked for.
func (c PaceChange) empty() bool { return c.move() == "" && c.PausedUntil.IsZero() }

// queuePaceSQL works with the primary keys of endpoints and endpoint_pace. What becomes of a row that is there is worked
// out from p, which is the row as it is once it is locked. A row is made only to hold an open breaker or a pause.
const queuePaceSQL = `
WITH c AS MATERIALIZED (
     SELECT e.id, x.move, x.until, x.paused
       FROM unnest(@ids::bigint[], @moves::text[], @untils::timestamptz[], @pauses::timestamptz[], @versions::integer[])
            AS x (id, move, until, paused, version)
       JOIN endpoints e ON e.shard = @shard AND e.id = x.id
      WHERE e.deleted_at IS NULL AND (x.version = 0 OR x.version = e.version))
INSERT INTO endpoint_pace AS p (shard, endpoint_id, breaker, trips, breaker_until, breaker_changed_at, paused_until)
SELECT @shard, c.id, CASE c.move WHEN 'open' THEN 'open' ELSE 'closed' END::breaker_state, (c.move = 'open')::integer,
       CASE c.move WHEN 'open' THEN c.until END, CASE c.move WHEN 'open' THEN @now::timestamptz END, c.paused
  FROM c
 WHERE c.move = 'open' OR c.paused IS NOT NULL
    OR EXISTS (SELECT FROM endpoint_pace o WHERE o.shard = @shard AND o.endpoint_id = c.id AND o.breaker <> 'closed')
 ORDER BY c.id
ON CONFLICT (shard, endpoint_id) DO UPDATE
   SET (breaker, trips, breaker_until, breaker_changed_at, paused_until) = (
       SELECT CASE WHEN m.moves AND c.move = 'close' THEN 'closed' WHEN m.moves THEN 'open' ELSE p.breaker END,
              CASE WHEN m.moves AND c.move = 'close' THEN 0 WHEN m.moves THEN p.trips + 1 ELSE p.trips END,
              CASE WHEN m.moves AND c.move = 'close' THEN NULL WHEN m.moves THEN c.until ELSE p.breaker_until END,
              CASE WHEN m.moves AND (p.breaker <> 'open' OR c.move = 'close') THEN @now ELSE p.breaker_changed_at END,
              greatest(p.paused_until, c.paused)
         FROM c, LATERAL (SELECT c.move = 'open' AND p.breaker = 'closed'
                                 OR c.move IN ('reopen', 'close') AND p.breaker <> 'closed' AS moves) m
        WHERE c.id = p.endpoint_id)
 WHERE EXISTS (
       SELECT FROM c
        WHERE c.id = p.endpoint_id
          AND (c.move = 'open' AND p.breaker = 'closed' OR c.move IN ('reopen', 'close') AND p.breaker <> 'closed'
               OR c.paused > coalesce(p.paused_until, '-infinity')))`

// QueuePace adds to b what books a batch's changes, at most one for each endpoint, in a bucket: one statement, none if there
// is nothing to book. It belongs into the transaction that records the attempts, after QueueHealth: an endpoint's row is
// locked before its pace, here as in a change by its owner. A deleted endpoint is left alone.
//
// Rows are locked in the order of their ids, so that two batches do not block each other crosswise.
func QueuePace(b *pgx.Batch, shard int16, changes []PaceChange, now time.Time) {
	var ids []int64
	var moves []string
	var untils, pauses []*time.Time
	var versions []int32
	for _, c := range changes {
		if c.empty() {
			continue
		}
		ids, moves = append(ids, c.Endpoint), append(moves, c.move())
		untils, pauses = append(untils, orNull(c.Until)), append(pauses, orNull(c.PausedUntil))
		versions = append(versions, int32(c.Version)) //nolint:gosec // it comes from an integer column
	}
	if len(ids) == 0 {
		return
	}
	b.Queue(queuePaceSQL, pgx.StrictNamedArgs{
		"shard": shard, "now": now, "ids": ids, "moves": moves, "untils": untils, "pauses": pauses, "versions": versions,
	})
}

// orNull makes the zero time null.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
