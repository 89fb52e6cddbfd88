package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// About is what a process says of itself in the row of its node number, for those who watch over all of them.
type About struct {
	Roles     []string
	Version   string
	Host      string
	PID       int
	StartedAt time.Time
	// When the loops of these roles went round well last; nil: not a role of this process.
	DispatcherWorkedAt, SchedulerWorkedAt *time.Time
}

// Process is a process that has a node number, as it said itself.
type Process struct {
	Node int
	About
	SeenAt time.Time // when it said so
}

const sayNodeSQL = `
UPDATE nodes SET described_by = @mark, roles = @roles, version = @version, host = @host, pid = @pid, started_at = @started_at,
    seen_at = @now, dispatcher_worked_at = @dispatcher, scheduler_worked_at = @scheduler
WHERE node = @node AND owner >> 24 = @mark`

// Say writes down what there is to know about this process, and that it lives. The lease is Hold's to renew.
func (n *Node) Say(ctx context.Context, a About) error {
	ctx, cancel := context.WithTimeout(ctx, nodeTry)
	defer cancel()
	_, err := n.db.Exec(ctx, sayNodeSQL, pgx.StrictNamedArgs{
		"mark": n.mark, "node": n.number, "now": n.clock.Now(), "roles": a.Roles, "version": a.Version, "host": a.Host, "pid": a.PID,
		"started_at": a.StartedAt, "dispatcher": a.DispatcherWorkedAt, "scheduler": a.SchedulerWorkedAt,
	})
	if err != nil {
		return Fault(fmt.Errorf("say that the process lives: %w", err))
	}
	return nil
}

// A process of an older version renews the lease and says nothing: then the rest of the row is not its own. A command that makes ids
// says nothing either, but its row says that, too.
const processesSQL = `
SELECT node, described_by IS DISTINCT FROM owner >> 24 AS unknown, roles, coalesce(version, ''), coalesce(host, ''), coalesce(pid, 0),
    started_at, seen_at, dispatcher_worked_at, scheduler_worked_at
FROM nodes WHERE owner IS NOT NULL AND leased_until > @now AND (described_by IS DISTINCT FROM owner >> 24 OR seen_at IS NOT NULL)
ORDER BY node`

// Processes gives the processes that have a node number, dead ones as well until their leases end, and how many there are beside of
// which nothing is known, since they are of an older version.
func Processes(ctx context.Context, db Querier, now time.Time) (all []Process, unknown int, err error) {
	rows, err := db.Query(ctx, processesSQL, pgx.StrictNamedArgs{"now": now})
	if err != nil {
		return nil, 0, Fault(fmt.Errorf("list the processes: %w", err))
	}
	defer rows.Close()
	for rows.Next() {
		var p Process
		var other bool
		var started, seen *time.Time
		err := rows.Scan(&p.Node, &other, &p.Roles, &p.Version, &p.Host, &p.PID, &started, &seen, &p.DispatcherWorkedAt, &p.SchedulerWorkedAt)
		switch {
		case err != nil:
			return nil, 0, Fault(fmt.Errorf("list the processes: %w", err))
		case other || started == nil || seen == nil:
			unknown++
		default:
			p.StartedAt, p.SeenAt = *started, *seen
			all = append(all, p)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, 0, Fault(fmt.Errorf("list the processes: %w", err))
	}
	return all, unknown, nil
}
