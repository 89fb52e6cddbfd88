package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// List gives the deliveries that the filter means, the newest first, at most limit of them, and only those that come
// after before in that order (zero: from the newest). Each statement reads both tables in one snapshot and asks for ids
// that no other one asks for, so a delivery comes once even while it moves from one table to the other, and pages stay
// stable while new ones arrive. A search that takes longer than pg.SearchPatience is an invalid fault that says to narrow it.
func (k *Desk) List(ctx context.Context, f Filter, limit int, before id.ID) ([]Delivery, error) {
	now, limit := k.deps.Now(), max(limit, 1)
	s, ok, err := f.resolve(before)
	if !ok || err != nil {
		return nil, err
	}
	sql, args := s.sql(now)
	var rows []deliveryRow
	err = k.deps.Searches.Run(ctx, k.deps.DB, func(tx pgx.Tx) error {
		rows = nil
		deadline := time.Now().Add(pg.SearchPatience)
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

// run runs the statement for one window, within patience.
func (s *search) run(ctx context.Context, tx pgx.Tx, patience time.Duration, sql string, args pgx.StrictNamedArgs) (
	[]deliveryRow, error,
) {
	if err := pg.BoundSearch(ctx, tx, patience, s.gather()); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, sql, args)
	var found []deliveryRow
	if err == nil {
		found, err = pgx.CollectRows(rows, pgx.RowToStructByName[deliveryRow])
	}
	if err != nil {
		return nil, pg.SearchFault(fmt.Errorf("list deliveries: %w", err), "since and until, or by tenant, endpoint or event")
	}
	return found, nil
}

// gather says whether sorting what an index finds may be right: an event's few deliveries are found by the event, and held
// ones by their endpoints. All else is read in the order of ids.
func (s *search) gather() bool {
	return s.Event != nil || s.delivery != nil || s.someUnfinishedStates() && !s.wants(finishedStates...)
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
