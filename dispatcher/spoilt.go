package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// A delivery can be spoilt: the database does not give its event away (a damaged page, say), or our own code panics over
// it. It must cost itself alone. Each try that fails so is counted like one whose process died, and the fifth parks it.

// baggage says what a claim brings along.
type baggage bool

const (
	withEvents baggage = false
	bare       baggage = true // deliveries alone, for when one of their events cannot be read
)

// spoiltWait is how long a spoilt delivery waits before it is tried again.
const spoiltWait = time.Second

// errPanicked is what a delivery fails with over which our code has panicked; the log has the rest.
var errPanicked = errors.New("our own code failed on it")

// refused reports whether the database did not do what it was asked to, though it is there: something in the rows is wrong.
func refused(ctx context.Context, err error) bool {
	return err != nil && !fault.Is(err, fault.Unavailable) && !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
}

// claimApart claims bucket by bucket where a claim for all was refused. In the bucket that it was refused for, it claims
// without events, and reads these one by one. An endpoint whose deliveries cannot even be leased is left alone, and no other.
func (d *Dispatcher) claimApart(
	ctx context.Context, wishes map[int16][]wish, claim func(context.Context, map[int16][]wish, baggage) ([]claimed, error),
) (got []claimed, failed error) {
	for shard, list := range wishes {
		some, err := claim(ctx, map[int16][]wish{shard: list}, withEvents)
		got = append(got, some...)
		for _, w := range list {
			if !refused(ctx, err) {
				break
			}
			some, alone := claim(ctx, map[int16][]wish{shard: {w}}, bare)
			got = append(got, d.readEvents(ctx, some)...)
			if refused(ctx, alone) {
				d.leaveAlone(id.ID{Shard: shard, N: w.endpoint}, alone)
			} else if alone != nil {
				err = alone
			}
		}
		if err != nil && !refused(ctx, err) {
			failed = err
		}
	}
	return leasedOr(got, failed)
}

// leasedOr gives what was claimed, which has to go out whatever came after, or if nothing was, why.
func leasedOr(got []claimed, err error) ([]claimed, error) {
	if len(got) > 0 {
		err = nil
	}
	return got, err
}

// eventSQL reads one event as a claim does. Index events_pkey.
const eventSQL = `
SELECT ` + eventColumns + `
  FROM events e WHERE e.shard = @shard AND e.id = @id`

// readEvents adds their events to deliveries that were claimed without, and to each whose event cannot be read, why.
func (d *Dispatcher) readEvents(ctx context.Context, got []claimed) []claimed {
	for i := range got {
		c := &got[i]
		row := d.deps.Queue.QueryRow(ctx, eventSQL, pgx.StrictNamedArgs{"shard": c.Shard, "id": c.EventID, "inline": inlinePayload})
		err := row.Scan(&c.EventType, &c.ContentType, &c.Size, &c.Payload, &c.Trace)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			c.spoilt = pg.Fault(fmt.Errorf("read an event: %w", err))
		}
	}
	return got
}

// spoil puts a delivery back that is spoilt, or parks it. If its request may have gone out, its attempt is kept, with nothing
// of what came back: that may be what it failed on.
func (d *Dispatcher) spoil(r result, err error) result {
	now := d.deps.Now()
	r.made = !r.begun.IsZero()
	r.noAttempt, r.endedAt, r.outcome, r.answer = !r.made, now, Unknown, answer{err: err}
	r.decision = Decide(Facts{Outcome: Unknown, Failures: r.claimed.Failures, Rescues: r.claimed.Rescues, Now: now})
	if !r.decision.State.Finished() {
		r.decision.NextAt = now.Add(spoiltWait)
	}
	return r
}

// survive ends a delivery over which our code panics, instead of the process with all that is in flight.
func (d *Dispatcher) survive(r *result) {
	what := recover()
	if what == nil {
		return
	}
	d.log.Error().Str("delivery", r.deliveryID()).Str("panic", fmt.Sprint(what)).Bytes("stack", debug.Stack()).Msg("delivery.panicked")
	d.finish(d.spoil(*r, errPanicked))
}

// surviveRecord makes an error of a panic over a batch of results: it is halved then, until the one stands alone.
func (d *Dispatcher) surviveRecord(err *error) {
	if what := recover(); what != nil {
		d.log.Error().Str("panic", fmt.Sprint(what)).Bytes("stack", debug.Stack()).Msg("record.panicked")
		*err = errPanicked
	}
}
