package pg

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/fault"
)

// SearchPatience is how long a search through history may take: about as long as a person waits.
const SearchPatience = 5 * time.Second

// Searches lets only some searches through history run at the same time. They share the pool with enqueues and with
// what dispatchers read, and each may hold a connection for SearchPatience: without a bound, one caller who lists and lists
// stops both.
type Searches struct{ places chan struct{} }

// mostSearches leaves most of the connections that a pool has by default to everything else.
const mostSearches = 4

// NewSearches makes the bound for a pool of so many connections: a quarter of them, and 4 at most.
func NewSearches(conns int) *Searches {
	return &Searches{make(chan struct{}, min(max(conns/4, 1), mostSearches))}
}

// Run runs a search in a transaction when there is a place for it, for which it waits as long as ctx lasts. It binds
// itself by BoundSearch; like any act of InTx it may be run again.
func (s *Searches) Run(ctx context.Context, db Beginner, search func(tx pgx.Tx) error) error {
	select {
	case s.places <- struct{}{}:
	case <-ctx.Done():
		return fault.Wrap(fault.Unavailable, ctx.Err(), "too many searches are running: try again in some seconds")
	}
	defer func() { <-s.places }()
	return InTx(ctx, db, search)
}

// For the transaction of a search only: each statement is bound in time; it is planned for its own values, since what one
// filter wants is wrong for the next; and no time goes into compiling it.
const boundSearchSQL = `SELECT set_config('statement_timeout', @patience, true),
    set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true),
    set_config('enable_sort', @gather, true), set_config('enable_bitmapscan', @gather, true)`

// BoundSearch gives each statement that follows in the transaction patience, from its parsing on, which may wait for a lock.
// Without gather, rows come in their order from an index: the planner cannot know how many rows one bucket or endpoint has,
// takes them to be few, and would rather gather and sort all of a large tenant's than read the newest fifty.
func BoundSearch(ctx context.Context, tx pgx.Tx, patience time.Duration, gather bool) error {
	args := pgx.StrictNamedArgs{
		"patience": strconv.FormatInt(max(patience.Milliseconds(), 1), 10), // in ms; 0 would mean for ever
		"gather":   "off",
	}
	if gather {
		args["gather"] = "on"
	}
	if _, err := tx.Exec(ctx, boundSearchSQL, args); err != nil {
		return fmt.Errorf("settle a search: %w", err)
	}
	return nil
}

const queryCanceled = "57014" // PostgreSQL's manual, appendix A; a statement_timeout has no code of its own

// SearchFault makes of a statement that ran out of its patience the fault that says by what to narrow the search. Any other
// error stays as it is.
func SearchFault(err error, by string) error {
	if OutOfPatience(err) {
		return fault.Wrap(fault.Invalid, err, "the search takes too long: narrow it by %s", by)
	}
	return err
}

// OutOfPatience reports whether a statement took longer than BoundSearch gave it.
func OutOfPatience(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == queryCanceled
}
