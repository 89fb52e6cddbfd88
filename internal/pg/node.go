package pg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
)

// Node is the number in this process's ids that no other living process has: a leased row of the table nodes. Who makes
// ids has to stop when Hold fails.
type Node struct {
	number  int
	mark    int64 // random; by which the row knows us again
	db      Querier
	clock   Timekeeper
	soon    chan struct{} // renew before its time
	renewed time.Time     // when the last renewal that went well began, by this process's monotonic clock
}

// Timekeeper is the database's clock as a process reads it: a Clock.
type Timekeeper interface {
	Now() time.Time
	Off() time.Duration // from what the database's clock shows; see Clock
}

// The column owner is the mark, and in its last offBits how far the process's clock is from the database's, in tenths of a
// second, for those that start meanwhile (Clock.Join).
const (
	offBits = 24
	offUnit = 100 * time.Millisecond
)

func (n *Node) owner() int64 {
	return n.mark<<offBits | int64(n.clock.Off().Round(offUnit)/offUnit)&(1<<offBits-1)
}

const (
	nodeLease = 5 * time.Minute
	nodeRenew = 30 * time.Second
	nodeTry   = 10 * time.Second // bounds one renewal
	// nodeLost is how long after the last renewal the number is given up. What is left of the lease, less a renewal that
	// is just being waited for, is for the process to stop in.
	nodeLost = nodeLease - 90*time.Second
	// nodeRest is how long a number that was given back stays unused: far more than two processes' readings of the
	// database's clock differ, or than a generator of ids runs ahead of it.
	nodeRest = 10 * time.Second
)

// The one that is free for longest. Two that take at the same time pass each other's row over.
const takeNodeSQL = `
WITH free AS MATERIALIZED (
    SELECT node FROM nodes WHERE leased_until IS NULL OR leased_until <= @now
    ORDER BY leased_until NULLS FIRST, node LIMIT 1 FOR UPDATE SKIP LOCKED)
UPDATE nodes n SET owner = @owner, leased_until = @until, described_by = @mark, roles = NULL, version = NULL, host = NULL,
    pid = NULL, started_at = NULL, seen_at = NULL, dispatcher_worked_at = NULL, scheduler_worked_at = NULL
FROM free WHERE n.node = free.node
RETURNING n.node`

// TakeNode takes a number, or is an unavailable fault when all 512 are in use.
func TakeNode(ctx context.Context, db Querier, clock Timekeeper) (*Node, error) {
	n := &Node{mark: rand.Int64N(1 << (63 - offBits)), db: db, clock: clock, soon: make(chan struct{}, 1)}
	start, at := time.Now(), clock.Now()
	err := db.QueryRow(ctx, takeNodeSQL, pgx.StrictNamedArgs{"now": at, "owner": n.owner(), "mark": n.mark, "until": at.Add(nodeLease)}).
		Scan(&n.number)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.New(fault.Unavailable, "all node numbers are in use: stop a process, or wait until the lease of one that died ends (%s)", nodeLease)
	}
	if err != nil {
		return nil, Fault(fmt.Errorf("take a node number: %w", err))
	}
	n.renewed = start
	return n, nil
}

// Number is the number, 0 to 511.
func (n *Node) Number() int { return n.number }

var errNodeLost = errors.New("another process has this one's node number")

// Hold renews the lease until ctx ends. It returns earlier, with an error, when the number is another's, or when it cannot
// be renewed and the lease is about to end: ids made from then on may not be unique. failed is told of each renewal that
// fails before that.
func (n *Node) Hold(ctx context.Context, failed func(error)) error {
	tick := time.NewTicker(nodeRenew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-n.soon:
		}
		err := n.renew(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errNodeLost):
			return err
		case time.Since(n.renewed) >= nodeLost:
			return fmt.Errorf("the lease of the node number is about to end: %w", err)
		default:
			failed(err)
		}
	}
}

// Tell has Hold renew the lease at once, and so tell others how far the clock is off. It never blocks.
func (n *Node) Tell() {
	select {
	case n.soon <- struct{}{}:
	default:
	}
}

const renewNodeSQL = `UPDATE nodes SET leased_until = @until, owner = @owner WHERE node = @node AND owner >> 24 = @mark`

func (n *Node) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, nodeTry)
	defer cancel()
	start := time.Now()
	tag, err := n.db.Exec(ctx, renewNodeSQL, pgx.StrictNamedArgs{
		"until": n.clock.Now().Add(nodeLease), "node": n.number, "owner": n.owner(), "mark": n.mark,
	})
	if err != nil {
		return Fault(fmt.Errorf("renew the node number's lease: %w", err))
	}
	if tag.RowsAffected() == 0 {
		return errNodeLost
	}
	n.renewed = start
	return nil
}

const giveBackNodeSQL = `
UPDATE nodes SET owner = NULL, leased_until = @until, described_by = NULL, roles = NULL, version = NULL, host = NULL, pid = NULL,
    started_at = NULL, seen_at = NULL, dispatcher_worked_at = NULL, scheduler_worked_at = NULL
WHERE node = @node AND owner >> 24 = @mark`

// GiveBack lets others have the number, after a short rest. Make no more ids. A number that is not given back is free again
// when its lease ends.
func (n *Node) GiveBack(ctx context.Context) error {
	_, err := n.db.Exec(ctx, giveBackNodeSQL, pgx.StrictNamedArgs{
		"until": n.clock.Now().Add(nodeRest), "node": n.number, "mark": n.mark,
	})
	if err != nil {
		return Fault(fmt.Errorf("give the node number back: %w", err))
	}
	return nil
}
