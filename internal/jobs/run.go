package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

const (
	// lease is how long a job is a process's after each step: when that process dies, another goes on then.
	lease = 30 * time.Second
	// stepPatience bounds a step, well within its lease.
	stepPatience = 20 * time.Second
	// lookEvery is how often is looked for jobs that other processes have made; leastRest is the shortest rest.
	lookEvery = time.Second
	leastRest = 10 * time.Millisecond
	// mostTries is how often in a row a job may fail at a step before it is given up, after a minute or two.
	mostTries = 8
)

// Run works jobs off until ctx ends, and then lets go of them, so that another process goes on at once.
func (j *Jobs) Run(ctx context.Context) error {
	defer j.letGo(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		did, err := j.RunOnce(ctx)
		if err != nil && ctx.Err() == nil {
			j.deps.Log.Warn().Err(err).Msg("jobs.failed")
		}
		if did && err == nil {
			continue
		}
		rest := time.NewTimer(j.rest(ctx))
		select {
		case <-rest.C:
		case <-j.news:
		case <-ctx.Done():
		}
		rest.Stop()
	}
	return nil
}

// Index jobs_unfinished.
const nextSQL = `SELECT min(next_at) FROM jobs WHERE state IN ('queued', 'running')`

// rest is how long nothing is to be done.
func (j *Jobs) rest(ctx context.Context) time.Duration {
	var next *time.Time
	if err := j.deps.DB.QueryRow(ctx, nextSQL).Scan(&next); err != nil || next == nil {
		return lookEvery
	}
	left := next.Sub(j.deps.Now())
	if left <= 0 {
		return lookEvery // it is another process's
	}
	return max(min(left, lookEvery), leastRest)
}

const letGoSQL = `UPDATE jobs SET lease_owner = NULL, leased_until = NULL WHERE lease_owner = @owner AND state IN ('queued', 'running')`

func (j *Jobs) letGo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := j.deps.DB.Exec(ctx, letGoSQL, pgx.StrictNamedArgs{"owner": j.owner}); err != nil {
		j.deps.Log.Warn().Err(err).Msg("jobs.failed") // their leases end
	}
}

// progress is how far a job has come.
type progress struct {
	Shard       int16
	ID          int64
	TenantID    int64
	Kind        string
	Spec        []byte
	Gathered    bool
	Chunks      int
	CursorShard int16
	CursorID    int64
	Tries       int
}

func (p progress) id() id.ID     { return id.ID{Shard: p.Shard, N: p.ID} }
func (p progress) tenant() id.ID { return id.ID{Shard: p.Shard, N: p.TenantID} }

const progressColumns = `j.shard, j.id, coalesce(j.tenant_id, 0) AS tenant_id, j.kind, j.spec, j.gathered, j.chunks, j.cursor_shard,
    j.cursor_id, j.tries`

// takeSQL leases the job whose turn it is: the one that may go on for the longest time. Index jobs_unfinished.
const takeSQL = `
WITH next AS (
    SELECT j.shard, j.id FROM jobs j
    WHERE j.state IN ('queued', 'running') AND j.next_at <= @now
        AND (j.lease_owner IS NULL OR j.lease_owner = @owner OR j.leased_until <= @now)
    ORDER BY j.next_at, j.id LIMIT 1 FOR UPDATE SKIP LOCKED)
UPDATE jobs j SET state = 'running', started_at = coalesce(j.started_at, @now), lease_owner = @owner, leased_until = @until
FROM next n WHERE j.shard = n.shard AND j.id = n.id
RETURNING ` + progressColumns

// holdSQL locks the job for a step, if it is still ours to work on, and says how far it has come. Index jobs_pkey.
const holdSQL = `
SELECT ` + progressColumns + ` FROM jobs j
WHERE j.shard = @shard AND j.id = @id AND j.state = 'running' AND j.lease_owner = @owner FOR UPDATE`

// errLost is a step of a job that has been cancelled, or is another process's by now.
var errLost = errors.New("the job is somebody else's by now")

// RunOnce takes one step of one job, if there is one whose time has come, and says whether it did.
func (j *Jobs) RunOnce(ctx context.Context) (did bool, err error) {
	process := ctx
	ctx, cancel := context.WithTimeout(ctx, stepPatience)
	defer cancel()
	now := j.deps.Now()
	p, err := one(ctx, j.deps.DB, takeSQL, pgx.StrictNamedArgs{"now": now, "owner": j.owner, "until": now.Add(lease)})
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("take a job: %w", err)
	}
	err = j.step(ctx, p)
	switch {
	case errors.Is(err, errLost):
		return true, nil
	case err != nil && process.Err() != nil: // it was interrupted, which is not the job's failure
		return true, fmt.Errorf("work on %s: %w", id.Job.Format(p.id()), err)
	case err != nil:
		return true, errors.Join(fmt.Errorf("work on %s: %w", id.Job.Format(p.id()), err), j.stumble(ctx, p, err))
	}
	return true, nil
}

func one(ctx context.Context, db pg.Querier, sql string, args pgx.StrictNamedArgs) (progress, error) {
	rows, err := db.Query(ctx, sql, args)
	if err != nil {
		return progress{}, pg.Fault(err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[progress])
	return p, pg.Fault(err)
}

// step does some of the job. All that it does and how far it has come are one transaction, in which the job is locked: a second
// process that takes it for its own, whatever the clocks say, finds it further on.
func (j *Jobs) step(ctx context.Context, p progress) error {
	s, err := readSpec(p.Spec)
	if err != nil {
		return err
	}
	if !p.Gathered {
		return j.gather(ctx, p, s)
	}
	var w work
	do := j.act
	if Kind(p.Kind) == Replay {
		do = j.replay
	}
	err = j.inStep(ctx, p, func(tx pgx.Tx, p progress) (err error) {
		if w, err = do(ctx, tx, p, s); err != nil {
			return err
		}
		return j.advance(ctx, tx, p, w)
	})
	if err != nil {
		return err
	}
	for _, shard := range w.woken {
		j.deps.Wake(shard)
	}
	if w.end {
		j.deps.Log.Info().Str("job", id.Job.Format(p.id())).Str("kind", p.Kind).Msg("job.finished")
	}
	return nil
}

func (j *Jobs) inStep(ctx context.Context, p progress, do func(tx pgx.Tx, p progress) error) error {
	return pg.InTx(ctx, j.deps.DB, func(tx pgx.Tx) error { //nolint:wrapcheck // says it all
		if err := pg.Indexed(ctx, tx); err != nil {
			return err
		}
		held, err := one(ctx, tx, holdSQL, pgx.StrictNamedArgs{"shard": p.Shard, "id": p.ID, "owner": j.owner})
		if fault.Is(err, fault.NotFound) {
			return errLost
		}
		if err != nil {
			return err
		}
		return do(tx, held)
	})
}

// work is what a step has done.
type work struct {
	done, skipped int
	chunk         int   // the one that is worked off; 0: none
	cursor        int64 // of a replay
	end           bool
	woken         []int16
}

const advanceSQL = `
UPDATE jobs j SET done = j.done + @done, skipped = j.skipped + @skipped, cursor_id = @cursor, tries = 0, next_at = @next,
    chunks = CASE WHEN @chunk::integer > 0 THEN @chunk - 1 ELSE j.chunks END,
    matched = CASE WHEN @end THEN j.done + j.skipped + @done + @skipped
        ELSE greatest(j.matched, j.done + j.skipped + @done + @skipped) END,
    matched_at_least = j.matched_at_least AND NOT @end,
    state = CASE WHEN @end THEN 'succeeded' ELSE j.state END, finished_at = CASE WHEN @end THEN @now::timestamptz END,
    lease_owner = CASE WHEN NOT @end THEN j.lease_owner END, leased_until = CASE WHEN NOT @end THEN j.leased_until END
WHERE j.shard = @shard AND j.id = @id`

const dropChunkSQL = `DELETE FROM job_chunks WHERE shard = @shard AND job_id = @id AND n = @n`

// advance writes down how far the job is after a step, and when it may go on: so that it does Rate a second and no more,
// whichever processes work on it.
func (j *Jobs) advance(ctx context.Context, tx pgx.Tx, p progress, w work) error {
	now := j.deps.Now()
	pause := time.Duration(w.done+w.skipped) * time.Second / time.Duration(j.deps.Rate)
	b := &pgx.Batch{}
	if w.chunk > 0 {
		b.Queue(dropChunkSQL, pgx.StrictNamedArgs{"shard": p.Shard, "id": p.ID, "n": w.chunk})
	}
	b.Queue(advanceSQL, pgx.StrictNamedArgs{
		"shard": p.Shard, "id": p.ID, "done": w.done, "skipped": w.skipped, "cursor": w.cursor, "chunk": w.chunk,
		"end": w.end, "now": now, "next": now.Add(pause),
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("write down how far a job is: %w", err)
	}
	return nil
}

const dropFailedSQL = dropChunksSQL + `
    AND EXISTS (SELECT FROM jobs j WHERE j.shard = @shard AND j.id = @id AND j.state = 'failed')`

const stumbleSQL = `
UPDATE jobs j SET tries = j.tries + 1, next_at = @next,
    state = CASE WHEN @final THEN 'failed' ELSE j.state END, error = CASE WHEN @final THEN @error::text END,
    finished_at = CASE WHEN @final THEN @now::timestamptz END,
    lease_owner = CASE WHEN NOT @final THEN j.lease_owner END, leased_until = CASE WHEN NOT @final THEN j.leased_until END
WHERE j.shard = @shard AND j.id = @id AND j.state = 'running' AND j.lease_owner = @owner`

// stumble puts a job off that a step failed of, or ends it: at once if it cannot be done any more.
func (j *Jobs) stumble(ctx context.Context, p progress, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	now := j.deps.Now()
	final := fault.Is(why, fault.NotFound) || fault.Is(why, fault.Conflict) || p.Tries+1 >= mostTries
	b := &pgx.Batch{}
	b.Queue(stumbleSQL, pgx.StrictNamedArgs{
		"shard": p.Shard, "id": p.ID, "owner": j.owner, "final": final, "error": reason(why), "now": now,
		"next": now.Add(time.Second << min(p.Tries, 5)),
	})
	if final {
		b.Queue(dropFailedSQL, pgx.StrictNamedArgs{"shard": p.Shard, "id": p.ID})
	}
	err := pg.InTx(ctx, j.deps.DB, func(tx pgx.Tx) error {
		return tx.SendBatch(ctx, b).Close() //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return fmt.Errorf("put a job off: %w", err)
	}
	return nil
}

// reason is what people are told of a job that failed: what was wrong with the request, and of our own faults only that.
func reason(err error) string {
	var f *fault.Error
	if errors.As(err, &f) && f.Detail != "" {
		return f.Detail
	}
	return "an internal fault: the log has more"
}
