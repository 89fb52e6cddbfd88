package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Retention drops what of history is older than it is to be kept, and is the one that does. A day that is over for everybody is dropped as
// a whole. One that holds what has to stay, because it is unfinished or because its tenant keeps it for longer, is put together anew
// from that and takes the day's place. Of a tenant that keeps less than the others rows are deleted, some pages at a time.
type Retention struct {
	db   *pgxpool.Pool
	now  func() time.Time
	log  zerolog.Logger
	keep Keep

	// patience is how long it tries for one lock. What it does not get has its turn in the next run.
	patience    time.Duration
	longestRest time.Duration // between two partitions
}

// NewRetention makes it. It starts nothing.
func NewRetention(db *pgxpool.Pool, now func() time.Time, log zerolog.Logger, keep Keep) *Retention {
	return &Retention{db: db, now: now, log: log, keep: keep, patience: 2 * time.Minute, longestRest: longestLockRest}
}

// outlook is what a run goes by.
type outlook struct {
	parts []part
	owns  []own
	busy  []int64
	done  map[string]done
	now   time.Time
}

func (r *Retention) look(ctx context.Context) (o outlook, err error) {
	o.now = r.now()
	if o.parts, err = readParts(ctx, r.db); err != nil {
		return o, err
	}
	if o.owns, err = readOwn(ctx, r.db, r.keep); err != nil {
		return o, err
	}
	if o.busy, err = readReplaying(ctx, r.db); err != nil {
		return o, err
	}
	o.done, err = readDone(ctx, r.db)
	return o, err
}

// Run does what is to be done now, and says in how many partitions that was anything. A partition that cannot be dealt with keeps none of
// the others from it.
func (r *Retention) Run(ctx context.Context) (count int64, err error) {
	o, err := r.look(ctx)
	if err != nil {
		return 0, err
	}
	err = r.sweep(ctx) // which keeps no day from its turn
	for _, p := range o.parts {
		if ctx.Err() != nil {
			return count, errors.Join(err, ctx.Err())
		}
		did, perr := r.part(ctx, o, p)
		if perr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.Name, perr))
		}
		if did {
			count++
		}
	}
	return count, errors.Join(err, r.forget(ctx, o))
}

func (r *Retention) part(ctx context.Context, o outlook, p part) (did bool, err error) {
	if p.isDefault {
		return r.clearDefault(ctx, o, p)
	}
	v := judge(p, r.keep, o.owns, o.busy, o.now)
	was, known := o.done[p.Name]
	if !v.over {
		gone := []int64{}
		if known && !was.IsOver {
			gone = was.Tenants
		}
		return r.deleteTenants(ctx, v, gone, o.now)
	}
	needed, err := r.countNeeded(ctx, v)
	if err != nil {
		return false, err
	}
	switch {
	case len(v.tenants) == 0 && needed == 0:
		err := r.drop(ctx, v)
		if !errors.Is(err, errNeeded) {
			return err == nil, err
		}
	case known && was.IsOver && slices.Equal(was.Tenants, v.tenants) && (needed >= was.Needed || len(v.tenants) > 0):
		return false, nil // it holds what has to stay, and hardly anything else
	}
	return true, r.rewrite(ctx, v, needed)
}

// forget drops what is known of partitions that are no longer there.
func (r *Retention) forget(ctx context.Context, o outlook) error {
	for name := range o.done {
		if slices.ContainsFunc(o.parts, func(p part) bool { return p.Name == name }) {
			continue
		}
		if _, err := r.db.Exec(ctx, forgetDoneSQL, name); err != nil {
			return pg.Fault(fmt.Errorf("forget %s: %w", name, err))
		}
	}
	return nil
}

// neededSQL gives the rows of a partition that something unfinished needs.
func neededSQL(p part) string {
	switch p.Table {
	case tableEvents:
		return rowsOfSQL(p, neededEventsSQL)
	case tableFinished:
		return rowsOfSQL(p, neededFinishedSQL)
	}
	return fmt.Sprintf(neededAttemptsSQL, p.quoted())
}

// rowsOfSQL looks up the rows of a partition that a statement gives the keys of, one by one: how many they are no planner knows.
func rowsOfSQL(p part, keys string) string {
	return `SELECT t.* FROM (` + keys + `) n CROSS JOIN LATERAL (SELECT * FROM ` + p.quoted() + ` x WHERE x.shard = n.shard AND x.id = n.id OFFSET 0) t`
}

// ofTenantsSQL is the condition on a row t that it is one of @tenants. An attempt's is its endpoint's.
func ofTenantsSQL(table string) string {
	if table == tableAttempts {
		return `EXISTS (SELECT FROM endpoints e WHERE e.shard = t.shard AND e.id = t.endpoint_id AND e.tenant_id = ANY (@tenants::bigint[]))`
	}
	return `t.tenant_id = ANY (@tenants::bigint[])`
}

// lately is for how long the end of a delivery is shown that is older than what is kept.
const lately = day

// stretch is what a statement about the rows that something needs is asked with.
func (r *Retention) stretch(v verdict) pgx.StrictNamedArgs {
	args := pgx.StrictNamedArgs{"low": v.from, "high": v.to}
	if v.Table == tableFinished {
		args["since"] = id.Floor(r.now().Add(-lately))
	}
	return args
}

func (r *Retention) countNeeded(ctx context.Context, v verdict) (n int64, err error) {
	err = pg.InTx(ctx, r.db, func(tx pgx.Tx) error {
		if err := pg.Indexed(ctx, tx); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT count(*) FROM (`+neededSQL(v.part)+`) x`, r.stretch(v)).Scan(&n) //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return 0, fmt.Errorf("look for what is unfinished: %w", err)
	}
	return n, nil
}

const (
	// lockWait is how long it stands in the queue for a lock, and everybody behind it.
	lockWait = 100 * time.Millisecond
	// A statement may take dropPatience under that lock, or swapPatience if it puts a day together anew, which few days need: whoever
	// writes waits for it.
	dropPatience, swapPatience = time.Second, 3 * time.Second
	// lockPause is the first pause after a lock that did not come; each is twice as long as the one before, to a bound.
	lockPause, longestLockPause = 500 * time.Millisecond, 30 * time.Second
	// lockRest is how many times as long as it had the lock it keeps away afterwards, up to longestLockRest: history goes in some minutes
	// just as well.
	lockRest, longestLockRest = 50, time.Second
)

const lockNotAvailable, statementTimedOut = "55P03", "57014"

// errNeeded is a partition that something has come to need since it was looked at.
var errNeeded = errors.New("something needs it by now")

// locked runs a transaction in which nobody else touches a table of history and one of its partitions. It waits for that lock no longer than
// others can wait behind it, and asks again later: whoever holds it, such as a long report, goes on, and so do deliveries.
func (r *Retention) locked(ctx context.Context, p part, patience time.Duration, act func(tx pgx.Tx) error) error {
	begun, told := time.Now(), false
	for pause := lockPause; ; pause = min(2*pause, longestLockPause) {
		tried := time.Now()
		err := pg.InTx(ctx, r.db, func(tx pgx.Tx) error {
			if err := r.lock(ctx, tx, p, patience); err != nil {
				return err
			}
			return act(tx)
		})
		if err == nil {
			return rest(ctx, min(lockRest*time.Since(tried), r.longestRest))
		}
		if !sqlstate(err, lockNotAvailable) && !sqlstate(err, statementTimedOut) || time.Since(begun)+pause > r.patience {
			return err //nolint:wrapcheck // says it all
		}
		if !told {
			told = true
			r.log.Warn().Str("table", p.Table).Str("partition", p.Name).Msg("retention.waiting")
		}
		if rest(ctx, pause) != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}

func rest(ctx context.Context, pause time.Duration) error {
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the context's
	}
}

func (*Retention) lock(ctx context.Context, tx pgx.Tx, p part, patience time.Duration) error {
	if err := pg.Indexed(ctx, tx); err != nil {
		return err
	}
	const settle = `SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true)`
	if _, err := tx.Exec(ctx, settle, fmt.Sprint(lockWait.Milliseconds()), fmt.Sprint(patience.Milliseconds())); err != nil {
		return fmt.Errorf("limit the wait for locks: %w", err)
	}
	if err := fence(ctx, tx); err != nil {
		return err
	}
	if err := alone(ctx, tx); err != nil {
		return err
	}
	// The table first, as whoever reads it does. By itself: its other partitions are nobody's business here, but for the default one, in
	// which a new partition of the day must find nothing.
	for _, name := range []string{p.Table, p.quoted(), p.Table + "_default"} {
		if _, err := tx.Exec(ctx, `LOCK TABLE ONLY `+name+` IN ACCESS EXCLUSIVE MODE`); err != nil {
			return fmt.Errorf("lock %s: %w", name, err)
		}
	}
	return nil
}

// drop drops a day that nothing needs, which is looked at once more under the lock: a delivery may have been brought back meanwhile.
func (r *Retention) drop(ctx context.Context, v verdict) error {
	err := r.locked(ctx, v.part, dropPatience, func(tx pgx.Tx) error {
		if late := lateSQL(v.Table); late != "" {
			var isNeeded bool
			if err := tx.QueryRow(ctx, `SELECT EXISTS (`+rowsOfSQL(v.part, late)+`)`, r.stretch(v)).Scan(&isNeeded); err != nil {
				return fmt.Errorf("look for what is unfinished: %w", err)
			}
			if isNeeded {
				return errNeeded
			}
		}
		if _, err := tx.Exec(ctx, roomAgainSQL(v.Table)); err != nil {
			return fmt.Errorf("make room in the default partition: %w", err)
		}
		return dropPart(ctx, tx, v.part)
	})
	if err == nil {
		r.dropped(v, 0)
	}
	return err
}

func dropPart(ctx context.Context, tx pgx.Tx, p part) error {
	if _, err := tx.Exec(ctx, `DROP TABLE `+p.quoted()); err != nil {
		return fmt.Errorf("drop the partition: %w", err)
	}
	if _, err := tx.Exec(ctx, forgetDoneSQL, p.Name); err != nil {
		return fmt.Errorf("forget the partition: %w", err)
	}
	return nil
}

// dropped writes the line about a day that is gone, or of which that many rows stay.
func (r *Retention) dropped(v verdict, stay int64) {
	r.log.Info().Str("table", v.Table).Str("partition", v.Name).Str("day", v.day().Format(time.DateOnly)).
		Int64("rows", v.Rows).Int64("bytes", v.Bytes).Int64("stay", stay).Msg("retention.dropped")
}

// cutoff is the lowest number of an id that is not over, at a moment.
func (k Keep) cutoff(table string, now time.Time) int64 { return id.Floor(now.Add(-k.of(table))) }
