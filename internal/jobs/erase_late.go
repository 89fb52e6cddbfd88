package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

const (
	// latePatience is how long whoever may have found the tenant before it was deleted is waited for at once, and lateLook how often is looked.
	latePatience, lateLook = 3 * time.Second, 20 * time.Millisecond

	// Whoever has read the table of tenants keeps a lock on it to the end of its transaction. One that begins later finds the tenant deleted.
	readersSQL = `
SELECT DISTINCT l.virtualtransaction FROM pg_locks l
 WHERE l.locktype = 'relation' AND l.relation = 'tenants'::regclass AND l.pid IS DISTINCT FROM pg_backend_pid()
   AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())`

	// lateSQL counts those of them that are still there, and those that have written events.
	lateSQL = `
SELECT count(DISTINCT l.virtualtransaction), count(DISTINCT l.virtualtransaction) FILTER (
        WHERE l.locktype = 'relation' AND l.relation = 'events'::regclass AND l.mode = 'RowExclusiveLock')
  FROM pg_locks l WHERE l.virtualtransaction = ANY (@readers::text[])`
)

// awaitLate waits for transactions that may have found the tenant before it was deleted, and says whether one is under way that may still
// leave an event of it: a producer's own may go on for long (postrider.enqueue). One that has written no event by the end of our patience, such
// as a backup, will not.
func (j *Jobs) awaitLate(ctx context.Context) (late bool, err error) {
	rows, err := j.deps.DB.Query(ctx, readersSQL)
	if err != nil {
		return false, pg.Fault(fmt.Errorf("look for who knows the tenant: %w", err))
	}
	readers, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return false, pg.Fault(fmt.Errorf("look for who knows the tenant: %w", err))
	}
	for begun := time.Now(); len(readers) > 0; {
		var there, writing int
		if err := j.deps.DB.QueryRow(ctx, lateSQL, pgx.StrictNamedArgs{"readers": readers}).Scan(&there, &writing); err != nil {
			return false, pg.Fault(fmt.Errorf("look for who knows the tenant: %w", err))
		}
		if there == 0 || time.Since(begun) > latePatience {
			return writing > 0, nil
		}
		select {
		case <-time.After(lateLook):
		case <-ctx.Done():
			return true, ctx.Err() //nolint:wrapcheck // by the caller
		}
	}
	return false, nil
}
