package intake

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/fault"
)

const (
	// groupPatience is how long a group waits for a key that another transaction holds, and lonePatience a request alone.
	// A producer may enqueue within a long transaction of its own; others must not wait for that.
	groupPatience = 100 * time.Millisecond
	lonePatience  = 10 * time.Second
	// lane is how many requests may wait alone at once, each with a connection.
	lane = 4
	// commitTimeout ends a transaction whose database hangs.
	commitTimeout = 30 * time.Second
)

// commitFunc writes requests in one transaction.
type commitFunc func(ctx context.Context, reqs []*request, patience time.Duration) ([]verdict, error)

// settler carries groups out and finds the one whose fault it is when a group fails.
type settler struct {
	ctx    context.Context //nolint:containedctx // a job outlives the call that brought it; close ends it
	commit commitFunc
	alone  chan struct{}
	tell   func(events int) // how many went into a transaction; may be nil
}

func newQueue(commit commitFunc) *queue {
	ctx, cancel := context.WithCancel(context.Background())
	return &queue{
		settler: settler{ctx: ctx, commit: commit, alone: make(chan struct{}, lane)},
		cancel:  cancel,
		same:    map[sameness]*job{}, busy: map[keyRef]bool{}, held: map[groupRef]int{},
	}
}

// settle carries a group out. When something in it breaks the transaction, each half is tried by itself, so the good ones
// are stored in a few transactions and the one at fault fails alone.
func (q *queue) settle(group []*job) {
	verdicts, err := q.try(group, groupPatience)
	switch {
	case err == nil:
		q.committed(group)
		q.finish(group, func(n int) verdict { return verdicts[n] })
	case blame(err) == everybody:
		q.finish(group, func(int) verdict { return verdict{err: err} })
	case len(group) > 1:
		half := len(group) / 2
		q.settle(group[:half])
		q.settle(group[half:])
	case blame(err) == itsKey:
		q.wait(group[0])
	default:
		q.finishOne(group[0], verdict{err: unstorable(err)})
	}
}

// committed tells how many events went into a transaction together.
func (q *queue) committed(group []*job) {
	if q.tell == nil {
		return
	}
	n := 0
	for _, j := range group {
		n += len(j.items)
	}
	q.tell(n)
}

// try commits a group. Should our own code panic over it, that is a fault of something in it, and the process lives on: it
// has other callers.
func (q *queue) try(group []*job, patience time.Duration) (verdicts []verdict, err error) {
	ctx, cancel := context.WithTimeout(q.ctx, commitTimeout)
	defer cancel()
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("store events: panic: %v\n%s", what, debug.Stack())
		}
	}()
	reqs := make([]*request, len(group))
	for n, j := range group {
		reqs[n] = j.request
	}
	verdicts, err = q.commit(ctx, reqs, patience)
	if err != nil && q.ctx.Err() != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "shutting down")
	}
	return verdicts, err
}

// wait lets a request whose key another transaction holds wait by itself, off the flushers.
func (q *queue) wait(j *job) {
	select {
	case q.alone <- struct{}{}:
	default:
		q.finishOne(j, verdict{err: fault.New(fault.Unavailable, "another transaction uses the same key or uid; nothing was done")})
		return
	}
	q.work.Go(func() {
		defer func() { <-q.alone }()
		verdicts, err := q.try([]*job{j}, lonePatience)
		switch {
		case err == nil:
			q.finishOne(j, verdicts[0])
		case blame(err) == itsKey:
			q.finishOne(j, verdict{err: fault.Wrap(fault.Unavailable, err,
				"another transaction uses the same key or uid and does not end; nothing was done")})
		default:
			q.finishOne(j, verdict{err: unstorable(err)})
		}
	})
}

type culprit uint8

const (
	everybody  culprit = iota // the store: trying again one by one would only make it worse
	itsContent                // a value of one request cannot be stored
	itsKey                    // another transaction holds a key of one request
)

// blame says whose fault a failed transaction is. SQLSTATEs: PostgreSQL's manual, appendix A.
func blame(err error) culprit {
	var pgErr *pgconn.PgError
	switch {
	case !errors.As(err, &pgErr):
		if fault.CodeOf(err) == fault.Internal && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			return itsContent // the driver could not encode a value
		}
		return everybody
	case pgErr.Code == "55P03": // lock_not_available
		return itsKey
	case strings.HasPrefix(pgErr.Code, "22"), strings.HasPrefix(pgErr.Code, "23"), strings.HasPrefix(pgErr.Code, "54"):
		return itsContent
	}
	return everybody
}

// unstorable says of a value that PostgreSQL refuses (classes 22, data exception, and 54, program limit exceeded) that it
// is the caller's. What checks let through and a constraint refuses is our own fault.
func unstorable(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && (strings.HasPrefix(pgErr.Code, "22") || strings.HasPrefix(pgErr.Code, "54")) {
		return fault.Wrap(fault.Invalid, err, "a value of the event cannot be stored")
	}
	return err
}
