package dispatcher

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Page is a part of what a filter means, the newest first. It may be short, even empty, with more to come: a search that
// finds little stops after some time and says how far it has looked.
type Page struct {
	Deliveries []Delivery
	// Next is where the next page begins. Zero: that was all.
	Next id.ID
	// SearchedTo is the time down to which all deliveries have been looked at. Zero: all that there are.
	SearchedTo time.Time
}

// searchBudget is the usual DeskDeps.SearchBudget.
const searchBudget = 30 * time.Millisecond

// Search gives the deliveries that the filter means, the newest first, at most limit of them, and only those that come
// after before in that order (zero: from the newest). Whatever the filter, it stops after some 30 ms with what it has found
// until then. Page for page it gives what List would give at once, each delivery once, even while it moves from one table to
// the other or new ones arrive.
func (k *Desk) Search(ctx context.Context, f Filter, limit int, before id.ID) (Page, error) {
	return k.search(ctx, f, limit, before, allowance{budget: k.deps.SearchBudget, first: firstWindow, most: pg.SearchPatience})
}

// allowance is how a search goes about it.
type allowance struct {
	budget time.Duration
	first  time.Duration // the size of the first window
	most   time.Duration // for a page's first window, if it has nothing yet
	// windows, if it is not 0, is how many of them a page may have, whatever the time.
	windows int
}

// search looks through window after window until the page is full, nothing is left or the budget is spent. At least one
// window is done, however long it takes up to pg.SearchPatience: no page leads to itself.
func (k *Desk) search(ctx context.Context, f Filter, limit int, before id.ID, p allowance) (Page, error) {
	now, limit := k.deps.Now(), max(limit, 1)
	s, ok, err := f.resolve(before)
	if !ok || err != nil {
		return Page{}, err
	}
	q := &looking{search: s, now: now, walk: s.walk(now, p.first), want: limit + 1, allowance: p} // one more tells whether any follows
	for ready := false; !ready; {
		again := false
		err := k.deps.Searches.Run(ctx, k.deps.DB, func(tx pgx.Tx) (err error) {
			again, err = q.run(ctx, tx)
			ready = err == nil // it only reads: how the transaction ends makes no difference
			return err
		})
		if err != nil && !again && !ready {
			return Page{}, err
		}
	}
	next, seen := q.cut(limit)
	if err := k.nameTypes(ctx, q.rows); err != nil {
		return Page{}, err
	}
	return q.page(next, seen)
}

// looking is a search under way. What it has is whole windows, so a transaction that is run again goes on where the last
// one stopped.
type looking struct {
	search
	*walk
	allowance

	now      time.Time
	stmt     *asking // nil: not made yet
	other    *asking // what the window of all that is left asks; nil: the same
	want     int
	rows     []deliveryRow
	deadline time.Time // zero: not begun
	done     int       // windows
}

// run does windows. again says of an error that it only ended this transaction.
func (q *looking) run(ctx context.Context, tx pgx.Tx) (again bool, err error) {
	if q.deadline.IsZero() {
		q.deadline = time.Now().Add(q.budget)
	}
	for len(q.rows) < q.want && q.more() && (q.done == 0 || q.mayGoOn()) {
		begun := time.Now()
		left := q.deadline.Sub(begun)
		patience := q.patience(left)
		got, err := q.window(ctx, tx, patience)
		switch {
		case err == nil:
			q.done++
			q.rows = append(q.rows, got...)
			q.next(len(got), q.want-len(q.rows), time.Since(begun), time.Until(q.deadline))
		case ctx.Err() == nil && pg.OutOfPatience(err) && (q.narrow() || q.done > 0):
			return true, err // PostgreSQL does nothing more in a transaction with an error
		default:
			return false, pg.SearchFault(fmt.Errorf("list deliveries: %w", err), "since and until, or by tenant, endpoint or event")
		}
	}
	return false, nil
}

// mayGoOn reports whether the page may have another window.
func (q *looking) mayGoOn() bool {
	return q.done != q.windows && time.Until(q.deadline) > leastPatience
}

// leastPatience is less than any statement is worth beginning for.
const leastPatience = 2 * time.Millisecond

// patience is how long the next window may take: one that reads all that is left half of what there is, so that smaller ones
// have the other half; the smallest as long as any search may take, if the page has nothing yet.
func (q *looking) patience(left time.Duration) time.Duration {
	switch {
	case q.whole && q.canNarrow():
		return max(left/2, leastPatience)
	case q.done == 0 && !q.canNarrow():
		return max(left, q.most)
	}
	return max(left, leastPatience)
}

// window runs the statement for the window.
func (q *looking) window(ctx context.Context, tx pgx.Tx, patience time.Duration) ([]deliveryRow, error) {
	if err := q.ask(ctx, tx, patience); err != nil {
		return nil, err
	}
	a := q.stmt
	if q.whole && q.other != nil {
		a = q.other
	}
	if err := pg.BoundSearch(ctx, tx, patience, a.gather); err != nil {
		return nil, err
	}
	a.args["from"], a.args["to"], a.args["limit"] = q.walk.from, q.walk.to, q.want-len(q.rows)
	boundEvents(a.args)
	rows, err := tx.Query(ctx, a.sql, a.args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[deliveryRow])
}

// asking is a statement with its arguments; gather is of pg.BoundSearch.
type asking struct {
	sql    string
	args   pgx.StrictNamedArgs
	gather bool
}

func (s *search) asking(now time.Time) *asking {
	sql, args := s.sql(now)
	return &asking{sql, args, s.gather()}
}

// ask makes the statements, once. What a type narrows further, which the index of something else has not found enough of in
// its first window, may be found by the type alone in all that is left: if it is rare.
func (q *looking) ask(ctx context.Context, tx pgx.Tx, patience time.Duration) error {
	if q.stmt != nil {
		return nil
	}
	byEvents := q.way == byType || q.way == byPayload
	leaps := q.EventType != "" && q.text == "" && (q.way == byUnhappy || q.way == byEndpoint)
	if byEvents || leaps {
		if err := pg.BoundSearch(ctx, tx, patience, false); err != nil {
			return err
		}
		if err := q.findLate(ctx, tx); err != nil {
			return err
		}
	}
	if leaps {
		other := q.search
		other.way = byType
		q.other = other.asking(q.now)
	}
	q.stmt = q.search.asking(q.now)
	return nil
}

// cut makes the page as long as it is to be, and says where the next one begins and how far all was looked at.
func (q *looking) cut(limit int) (next id.ID, seen time.Time) {
	switch {
	case len(q.rows) > limit:
		q.rows = q.rows[:limit]
		last := q.rows[limit-1]
		return id.ID{Shard: last.Shard, N: last.ID}, id.TimeOf(last.ID)
	case q.more():
		// Bucket 0 comes last among those of the same number, so what follows is all below.
		return id.ID{N: q.walk.to + 1}, id.TimeOf(q.walk.to + 1)
	}
	return id.ID{}, time.Time{}
}

func (q *looking) page(next id.ID, seen time.Time) (Page, error) {
	p := Page{Deliveries: make([]Delivery, 0, len(q.rows)), Next: next, SearchedTo: seen}
	for _, r := range q.rows {
		d, err := r.delivery()
		if err != nil {
			return Page{}, err
		}
		p.Deliveries = append(p.Deliveries, d)
	}
	return p, nil
}

// By events_pkey; the bounds leave out the partitions of days that the page has nothing of.
const typesSQL = `
SELECT ev.type FROM unnest(@shards::smallint[], @ids::bigint[]) WITH ORDINALITY AS k(shard, id, n) LEFT JOIN LATERAL (
    SELECT e.type FROM events e WHERE e.shard = k.shard AND e.id = k.id AND e.id >= @from AND e.id <= @to LIMIT 1) ev ON true
ORDER BY k.n`

// nameTypes fills in the types of the deliveries' events, as far as they are kept.
func (k *Desk) nameTypes(ctx context.Context, rows []deliveryRow) error {
	if len(rows) == 0 {
		return nil
	}
	shards, ids := make([]int16, len(rows)), make([]int64, len(rows))
	for i, r := range rows {
		shards[i], ids[i] = r.Shard, r.EventID
	}
	found, err := k.deps.DB.Query(ctx, typesSQL, pgx.StrictNamedArgs{
		"shards": shards, "ids": ids, "from": slices.Min(ids), "to": slices.Max(ids),
	})
	if err != nil {
		return pg.Fault(fmt.Errorf("read events' types: %w", err))
	}
	types, err := pgx.CollectRows(found, pgx.RowTo[*string])
	if err != nil {
		return pg.Fault(fmt.Errorf("read events' types: %w", err))
	}
	for i, t := range types {
		rows[i].EventType = value(t)
	}
	return nil
}
