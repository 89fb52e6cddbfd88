package intake

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Page is a part of what a filter means, the newest first. It may be short, even empty, with more to come: a search that
// finds little stops after some time and says how far it has looked.
type Page struct {
	Events []Stored
	Next   id.ID // where the next page begins; zero: that was all
	// SearchedTo is the time down to which all events have been looked at. Zero: all that there are.
	SearchedTo time.Time
}

const (
	// searchBudget is how long a page may look for events, so that the whole answer takes no more than 50 ms: a step takes as
	// long as it was thought to take give or take half, and there is the page around it.
	searchBudget = 20 * time.Millisecond
	// firstLook is how many events are looked at first, lookGrowth how many times as many at most after them.
	firstLook, lookGrowth = 200, 8
)

// Search lists a tenant's events like Events. Whatever the filter, it stops after some 20 ms with what it has found until
// then. Page for page it gives what Events would give at once.
func (i *Intake) Search(ctx context.Context, tenant id.ID, f Filter, limit int, before id.ID) (Page, error) {
	return i.search(ctx, tenant, f, limit, before, allowance{i.searchBudget, firstLook, i.searchBudget / 2})
}

// allowance is what a page may take.
type allowance struct {
	budget time.Duration
	look   int           // how many are looked at first
	atOnce time.Duration // how long what a filter means is looked for all at once; 0: not at all
}

func (i *Intake) search(
	ctx context.Context, tenant id.ID, f Filter, limit int, before id.ID, a allowance,
) (Page, error) {
	s, err := f.searchOf(tenant, before, max(limit, 1)+1) // one more tells whether any follows
	if err != nil {
		return Page{}, err
	}
	s.look, s.deadline = a.look, time.Now().Add(a.budget)
	patience := pg.SearchPatience // without a filter this is all there is to do
	if f.Type != "" || f.Status != "" {
		patience = a.atOnce // what is rare may have an index
	}
	if patience > 0 {
		err = i.searches.Run(ctx, i.db, func(tx pgx.Tx) (err error) {
			s.events, err = list(ctx, tx, patience, s.sql, s.args, s.scan)
			return err
		})
		s.end = err == nil
		if err != nil && (ctx.Err() != nil || patience == pg.SearchPatience || !pg.OutOfPatience(err)) {
			return Page{}, pg.SearchFault(err, "since and until")
		}
	}
	if !s.end {
		if err := i.searches.Run(ctx, i.db, func(tx pgx.Tx) error { return s.walk(ctx, tx) }); err != nil {
			return Page{}, err
		}
	}
	return s.page(max(limit, 1)), nil
}

// searching is a search under way.
type searching struct {
	sql    string
	args   pgx.StrictNamedArgs
	scan   pgx.RowToFunc[Stored]
	tenant id.ID
	want   int
	since  int64 // the lowest id of all
	until  int64 // what is below has not been looked at
	events []Stored
	end    bool // all has been looked at

	look     int // how many are looked at next
	deadline time.Time
}

// Uses events_by_tenant, backwards.
const lookSQL = `
SELECT coalesce(min(id), 0), count(*) FROM (
    SELECT e.id FROM events e
    WHERE e.shard::integer = @shard AND e.tenant_id = @tenant AND e.id >= @since AND e.id < @until
    ORDER BY e.id DESC LIMIT @look) looked`

// walk looks at so many events at a time, the newest first, until the page is full or the time is up; at some at least. What
// it has is whole steps, so a transaction that is run again goes on where the last one stopped.
func (s *searching) walk(ctx context.Context, tx pgx.Tx) error {
	for done := 0; len(s.events) < s.want && !s.end; done++ {
		begun := time.Now()
		if done > 0 && s.deadline.Sub(begun) <= 0 {
			return nil
		}
		if err := pg.BoundSearch(ctx, tx, pg.SearchPatience, false); err != nil {
			return err
		}
		var lowest int64
		var n int
		err := tx.QueryRow(ctx, lookSQL, pgx.StrictNamedArgs{
			"shard": s.tenant.Shard, "tenant": s.tenant.N, "since": s.since, "until": s.until, "look": s.look,
		}).Scan(&lowest, &n)
		if err != nil {
			return pg.SearchFault(fmt.Errorf("look at events: %w", err), "since and until")
		}
		s.args["since"], s.args["until"], s.args["limit"] = max(lowest, s.since), s.until, s.want-len(s.events)
		found, err := list(ctx, tx, pg.SearchPatience, s.sql, s.args, s.scan)
		if err != nil {
			return pg.SearchFault(err, "since and until")
		}
		s.events, s.until, s.end = append(s.events, found...), lowest, n < s.look
		s.look = nextLook(s.look, time.Since(begun), time.Until(s.deadline))
	}
	return nil
}

// nextLook is how many to look at so that it should be done in the time that is left.
func nextLook(look int, took, left time.Duration) int {
	growth := min(0.7*float64(left)/float64(max(took, 1)), lookGrowth)
	return max(int(growth*float64(look)), 1)
}

func (s *searching) page(limit int) Page {
	p := Page{Events: s.events}
	switch {
	case len(p.Events) > limit:
		p.Events = p.Events[:limit]
		p.Next = p.Events[limit-1].ID
	case !s.end:
		p.Next = id.ID{Shard: s.tenant.Shard, N: s.until}
	default:
		return p
	}
	p.SearchedTo = p.Next.Time()
	return p
}
