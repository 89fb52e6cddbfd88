package intake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// EnqueuedChannel is the NOTIFY channel of postrider.enqueue.
const EnqueuedChannel = "postrider_enqueued"

const (
	// fanOutEvery is how often a process looks for what was enqueued: a NOTIFY may go missing, and not every transaction sends one.
	fanOutEvery = 150 * time.Millisecond
	// fanOutPause is the first pause after a failure of the database; it doubles up to fanOutPauseMost.
	fanOutPause, fanOutPauseMost = 200 * time.Millisecond, 10 * time.Second
	// An event that breaks the fan-out is tried again after a minute at first, and after an hour at most: another version may do better.
	poisonPause, poisonPauseMost = time.Minute, time.Hour
	// wholeEvery is how often all markers are looked at, with those that were put aside, and not only those behind which nothing
	// more can come in.
	wholeEvery = 30 * time.Second
	// lookRest is how many times as long as a look took that found nothing it is until the next one: while somebody's old snapshot
	// keeps them, rows that are done with have to be read past.
	lookRest = 10
)

// fan is what the fan-out of this process remembers.
type fan struct {
	log   zerolog.Logger
	woken chan struct{}
	seen  *seen
}

// seen is how far the fan-out has come. A place in its order is drawn before the commit, so what was done may be followed by what
// stands before it, and goes before what stands behind it: places are out of the way only when all transactions have ended that
// ran when they were done.
type seen struct {
	sync.Mutex           // one round at a time
	past       int64     // up to here all is done, and nothing more can come in
	done       int64     // up to here all is done
	horizon    int64     // when all transactions below this one have ended, done is past
	whole      time.Time // when to look at all markers again
}

func newFan(log zerolog.Logger) fan {
	return fan{log: log, woken: make(chan struct{}, 1), seen: &seen{}}
}

// WakeFanOut hints that producers have enqueued something. It never blocks.
func (i *Intake) WakeFanOut() {
	select {
	case i.fan.woken <- struct{}{}:
	default:
	}
}

// RunFanOut makes deliveries of what producers enqueue within transactions, until ctx ends. Any number of processes may run it:
// one at a time works.
func (i *Intake) RunFanOut(ctx context.Context) error {
	for failed := 0; ; {
		begun := time.Now()
		n, err := i.RouteOnce(ctx)
		wait, woken := fanOutEvery, i.fan.woken
		if rest := lookRest * time.Since(begun); rest > wait {
			wait, woken = min(rest, fanOutPauseMost), nil
		}
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // asked to stop
		case err != nil:
			if failed == 0 { // once is enough
				i.fan.log.Warn().Err(err).Msg("fanout.failed")
			}
			wait, woken = min(fanOutPause<<min(failed, 10), fanOutPauseMost), nil
			wait += rand.N(wait / 10)
			failed++
		default:
			failed = 0
			if n > 0 { // there may be more
				continue
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-woken:
		case <-time.After(wait):
		}
	}
}

// Index events_unrouted_pkey.
const anyUnroutedSQL = `
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
    EXISTS (SELECT FROM events_unrouted WHERE n > @after AND (next_at IS NULL OR next_at <= @now) ORDER BY n LIMIT 1)`

// RouteOnce fans out some of what was enqueued, the oldest first, and says how many markers that took away, or put aside. None
// if another process is at it.
func (i *Intake) RouteOnce(ctx context.Context) (n int, err error) {
	s, now := i.fan.seen, time.Now()
	s.Lock()
	defer s.Unlock()
	r := &round{after: s.past}
	if whole := !now.Before(s.whole); whole {
		r.after, s.whole = -1, now.Add(wholeEvery)
	}
	var running int64
	var some bool
	err = i.db.QueryRow(ctx, anyUnroutedSQL, pgx.StrictNamedArgs{"after": r.after, "now": i.now()}).Scan(&running, &some)
	if err != nil {
		return 0, pg.Fault(fmt.Errorf("look for enqueued events: %w", err))
	}
	ended := running >= s.horizon
	if !some {
		if ended {
			s.past = s.done
		}
		return 0, nil
	}
	n, err = i.settleRound(ctx, r)
	taken := len(r.taken)
	if err != nil || taken == 0 || n < taken || r.taken[taken-1].N < s.done {
		return n, err // what is not done is not past
	}
	if ended {
		s.past = s.done
	}
	if s.past == s.done {
		s.done, s.horizon = r.taken[taken-1].N, r.horizon
	}
	return n, nil
}

// settleRound carries a round out. When something in it breaks the transaction, each half is tried by itself, as those of Accept
// are, and the one at fault is put aside.
func (i *Intake) settleRound(ctx context.Context, r *round) (n int, err error) {
	err = i.tryRound(ctx, r)
	switch {
	case err == nil:
		return len(r.taken), nil
	case ctx.Err() != nil || blame(err) != itsContent || len(r.taken) == 0:
		return 0, err
	case len(r.taken) == 1:
		return i.putAside(ctx, r.taken[0], err)
	}
	all := make([]int64, len(r.taken))
	for m := range r.taken {
		all[m] = r.taken[m].N
	}
	half := len(all) / 2
	for _, some := range [][]int64{all[:half], all[half:]} {
		m, err := i.settleRound(ctx, &round{after: some[0] - 1, some: some})
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

// tryRound takes a panic of our own code over an event for that event's fault.
func (i *Intake) tryRound(ctx context.Context, r *round) (err error) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("fan out events: panic: %v\n%s", what, debug.Stack())
		}
	}()
	return i.carry(ctx, r)
}

// Index events_unrouted_pkey.
const putAsideSQL = `UPDATE events_unrouted SET tries = least(tries + 1, 100), next_at = @next WHERE n = @n`

// putAside has an event that cannot be fanned out wait apart from the others. It is not lost: it is tried again, and told of each time.
func (i *Intake) putAside(ctx context.Context, u unrouted, why error) (int, error) {
	next := i.now().Add(min(poisonPause<<min(u.Tries, 10), poisonPauseMost))
	tag, err := i.db.Exec(ctx, putAsideSQL, pgx.StrictNamedArgs{"n": u.N, "next": next})
	if err != nil {
		return 0, pg.Fault(fmt.Errorf("put an event aside: %w", err))
	}
	if tag.RowsAffected() > 0 {
		i.fan.log.Error().Str("event", id.Event.Format(id.ID{Shard: u.Shard, N: u.Event})).Time("next_try", next).Err(why).
			Msg("fanout.put_aside")
	}
	return 1, nil
}

// Indexes events_pkey, in the one partition that the event lies in, and events_unrouted: it has no index for this, and few rows.
const markerSQL = `
SELECT u.n FROM events e JOIN events_unrouted u ON u.shard = e.shard AND u.event_id = e.id
WHERE e.shard = @shard AND e.id = @event AND e.delivery_ids IS NULL`

// FanOut makes an event's deliveries now if its fan-out is still to come, ahead of what was enqueued before it. It is for who is
// about to do something to them.
func (i *Intake) FanOut(ctx context.Context, event id.ID) error {
	var n int64
	err := i.db.QueryRow(ctx, markerSQL, pgx.StrictNamedArgs{"shard": event.Shard, "event": event.N}).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return pg.Fault(fmt.Errorf("look whether an event is fanned out: %w", err))
	}
	err = i.tryRound(ctx, &round{after: n - 1, some: []int64{n}, wait: true})
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "55P03" { // lock_not_available
		return fault.Wrap(fault.Unavailable, err, "the event's deliveries are still to be made; nothing was done, try again")
	}
	return err
}

// Index intake_settings_pkey.
const tellLimitsSQL = `
INSERT INTO intake_settings (name, value) VALUES ('max_payload', @max)
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE intake_settings.value <> excluded.value`

// TellLimits has postrider.enqueue take payloads as large as this process does.
func (i *Intake) TellLimits(ctx context.Context) error {
	if _, err := i.db.Exec(ctx, tellLimitsSQL, pgx.StrictNamedArgs{"max": i.maxPayload}); err != nil {
		return pg.Fault(fmt.Errorf("write down events.max_payload: %w", err))
	}
	return nil
}
