package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// searchPatience is how long a search may take: about as long as a person waits.
const searchPatience = 5 * time.Second

// For the transaction of a search only: each statement gets what is left of searchPatience, in milliseconds; it is planned
// for its own values, since what one filter wants is wrong for the next; and no time goes into compiling it. Where rows
// come in their order from an index, @gather is off: the planner cannot know how many rows one bucket or endpoint has,
// takes them to be few, and would rather gather and sort all of a large tenant's than read the newest fifty.
const searchSettings = `SELECT set_config('statement_timeout', @patience, true),
    set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true),
    set_config('enable_sort', @gather, true), set_config('enable_bitmapscan', @gather, true)`

// List gives the deliveries that the filter means, the newest first, at most limit of them, and only those that come
// after before in that order (zero: from the newest). Each statement reads both tables in one snapshot and asks for ids
// that no other one asks for, so a delivery comes once even while it moves from one table to the other, and pages stay
// stable while new ones arrive. A search that takes longer than searchPatience is an invalid fault that says to narrow it.
func (k *Desk) List(ctx context.Context, f Filter, limit int, before id.ID) ([]Delivery, error) {
	now, limit := k.deps.Now(), max(limit, 1)
	s, ok, err := f.resolve(before)
	if !ok || err != nil {
		return nil, err
	}
	sql, args := s.sql(now)
	var rows []deliveryRow
	err = pg.InTx(ctx, k.deps.DB, func(tx pgx.Tx) error {
		rows = nil
		deadline := time.Now().Add(searchPatience)
		for w := s.windows(now); len(rows) < limit && w.more(); {
			args["from"], args["to"], args["limit"] = w.from, w.to, limit-len(rows)
			got, err := s.run(ctx, tx, time.Until(deadline), sql, args)
			if err != nil {
				return err
			}
			rows = append(rows, got...)
			w.next(len(got), limit-len(rows))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]Delivery, 0, len(rows))
	for _, r := range rows {
		d, err := r.delivery()
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

const queryCanceled = "57014" // PostgreSQL's manual, appendix A; a statement_timeout has no code of its own

// run runs the statement for one window, within patience.
func (s *search) run(ctx context.Context, tx pgx.Tx, patience time.Duration, sql string, args pgx.StrictNamedArgs) (
	[]deliveryRow, error,
) {
	// On its own and first: what follows is only then bound in time, from its parsing on, which may wait for a lock.
	ms := max(patience.Milliseconds(), 1) // 0 would mean for ever
	_, err := tx.Exec(ctx, searchSettings, pgx.StrictNamedArgs{"patience": strconv.FormatInt(ms, 10), "gather": s.gather()})
	if err != nil {
		return nil, fmt.Errorf("settle a search: %w", err)
	}
	rows, err := tx.Query(ctx, sql, args)
	var found []deliveryRow
	if err == nil {
		found, err = pgx.CollectRows(rows, pgx.RowToStructByName[deliveryRow])
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == queryCanceled {
		return nil, fault.Wrap(fault.Invalid, err,
			"the search takes too long: narrow it by since and until, or by tenant, endpoint or event")
	}
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	return found, nil
}

// gather says whether sorting what an index finds may be right: an event's few deliveries are found by the event, and held
// ones by their endpoints. All else is read in the order of ids.
func (s *search) gather() string {
	if s.Event != nil || s.delivery != nil || s.someUnfinishedStates() && !s.wants(finishedStates...) {
		return "on"
	}
	return "off"
}

// window is a range of ids, both ends included, that walks back in time.
type window struct {
	from, to int64
	size     time.Duration
	end      int64 // the lowest id of all
}

const (
	firstWindow = time.Second
	maxGrowth   = 16 // 1s, 16s, 4m, 1h, 18h, 12d, …
	// aheadOfClock is more than any id can be ahead of the database's clock.
	aheadOfClock = time.Hour
)

// windows splits a search over all buckets into ranges of time, newest first. A page of everybody's deliveries is full
// after minutes, and then neither the partitions of other days are opened nor 256 buckets asked for a page each of what
// is not needed. Within one bucket an index gives the page at once, so there one range does.
func (s *search) windows(now time.Time) *window {
	w := &window{from: s.from, to: s.to, end: s.from, size: firstWindow}
	if len(s.shards) > 1 {
		w.to = min(s.to, id.Floor(now.Add(aheadOfClock)))
		w.from = max(s.from, id.Floor(earlier(id.TimeOf(w.to), now).Add(-w.size)))
	}
	return w
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (w *window) more() bool { return w.to >= w.end && w.from <= w.to }

// next moves the window back after it has given so many, with so many still missing, to a size that should have them.
func (w *window) next(given, missing int) {
	growth := maxGrowth
	if given > 0 {
		growth = min(2*missing/given+1, maxGrowth)
	}
	w.size *= time.Duration(growth)
	w.to = w.from - 1
	if w.to >= w.end {
		w.from = max(w.end, id.Floor(id.TimeOf(w.to).Add(-w.size)))
	}
}
