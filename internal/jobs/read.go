package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

const columns = `shard, id, coalesce(tenant_id, 0) AS tenant_id, kind, state::text, spec, created_by, in_portal, matched,
    matched_at_least, done, skipped, coalesce(error, '') AS error, started_at, finished_at`

// jobRow is a row of a statement that shows jobs.
type jobRow struct {
	Shard          int16
	ID             int64
	TenantID       int64
	Kind           string
	State          string
	Spec           json.RawMessage
	CreatedBy      string
	InPortal       bool
	Matched        int64
	MatchedAtLeast bool
	Done, Skipped  int64
	Error          string
	StartedAt      *time.Time
	FinishedAt     *time.Time
}

func (r jobRow) job() Job {
	j := Job{
		ID: id.ID{Shard: r.Shard, N: r.ID}, Kind: Kind(r.Kind), State: State(r.State), Spec: r.Spec, CreatedBy: r.CreatedBy,
		InPortal: r.InPortal, Matched: r.Matched, MatchedAtLeast: r.MatchedAtLeast, Done: r.Done, Skipped: r.Skipped,
		Error: r.Error, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
	}
	if r.TenantID != 0 {
		j.Tenant = &id.ID{Shard: r.Shard, N: r.TenantID}
	}
	return j
}

// Index jobs_pkey.
const getSQL = `SELECT ` + columns + ` FROM jobs WHERE shard = @shard AND id = @id`

// Get gives one job, or a not_found fault.
func (j *Jobs) Get(ctx context.Context, job id.ID) (Job, error) {
	return get(ctx, j.deps.DB, getSQL, job)
}

func get(ctx context.Context, db pg.Querier, sql string, job id.ID) (Job, error) {
	rows, err := db.Query(ctx, sql, pgx.StrictNamedArgs{"shard": job.Shard, "id": job.N})
	if err != nil {
		return Job{}, pg.Fault(fmt.Errorf("read a job: %w", err))
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[jobRow])
	if err = pg.Fault(err); fault.Is(err, fault.NotFound) {
		return Job{}, fault.New(fault.NotFound, "no such job")
	}
	if err != nil {
		return Job{}, fmt.Errorf("read a job: %w", err)
	}
	return found.job(), nil
}

// Index jobs_pkey, backwards in one bucket; over all buckets the table, which has the jobs of a month.
const listSQL = `
SELECT ` + columns + ` FROM jobs
WHERE (@tenant::bigint = 0 OR shard = @shard AND tenant_id = @tenant) AND (id < @below OR id = @below AND shard < @below_shard)
ORDER BY id DESC, shard DESC LIMIT @limit`

// List gives jobs, the newest first, of all tenants or of one, at most limit and only those that come after before in that
// order (zero: from the newest).
func (j *Jobs) List(ctx context.Context, tenant *id.ID, limit int, before id.ID) ([]Job, error) {
	args := pgx.StrictNamedArgs{
		"tenant": int64(0), "shard": int16(0), "below": before.N, "below_shard": before.Shard, "limit": max(limit, 1),
	}
	if before.IsZero() {
		args["below"] = int64(math.MaxInt64)
	}
	if tenant != nil {
		args["tenant"], args["shard"] = tenant.N, tenant.Shard
	}
	rows, err := j.deps.DB.Query(ctx, listSQL, args)
	var found []jobRow
	if err == nil {
		found, err = pgx.CollectRows(rows, pgx.RowToStructByName[jobRow])
	}
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("list jobs: %w", err))
	}
	out := make([]Job, len(found))
	for i, r := range found {
		out[i] = r.job()
	}
	return out, nil
}

const cancelSQL = `
UPDATE jobs SET state = 'cancelled', finished_at = @now, lease_owner = NULL, leased_until = NULL
WHERE shard = @shard AND id = @id AND state IN ('queued', 'running')`

const dropChunksSQL = `DELETE FROM job_chunks WHERE shard = @shard AND job_id = @id`

// Cancel stops a job: what it has done stays done, and nothing more is. It waits for the transaction that is under way. It is a
// conflict when the job is finished.
func (j *Jobs) Cancel(ctx context.Context, job id.ID) (Job, error) {
	var after Job
	err := pg.InTx(ctx, j.deps.DB, func(tx pgx.Tx) error {
		before, err := get(ctx, tx, getSQL+` FOR UPDATE`, job)
		if err != nil {
			return err
		}
		if before.State.Finished() {
			return fault.New(fault.Conflict, "the job is finished already: it %s",
				map[State]string{Succeeded: "succeeded", Failed: "failed", Cancelled: "was cancelled"}[before.State])
		}
		b := &pgx.Batch{}
		b.Queue(cancelSQL, pgx.StrictNamedArgs{"shard": job.Shard, "id": job.N, "now": j.deps.Now()})
		b.Queue(dropChunksSQL, pgx.StrictNamedArgs{"shard": job.Shard, "id": job.N})
		audit.Queue(b, audit.ActorOf(ctx), j.deps.IDs.Next, audit.Entry{
			Action: audit.JobCancelled, Object: audit.Thing{Kind: id.Job, ID: job}, Tenant: before.Tenant,
			Details: audit.Details{"kind": before.Kind, "done": before.Done},
		})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		after, err = get(ctx, tx, getSQL, job)
		return err
	})
	if err != nil {
		return Job{}, fmt.Errorf("cancel a job: %w", err)
	}
	return after, nil
}

// Keep is how long finished jobs are kept.
const Keep = 30 * 24 * time.Hour

// The bucket's few jobs, by jobs_pkey.
const dropOldSQL = `DELETE FROM jobs WHERE shard = @shard AND finished_at < @before`

// DropOld deletes a bucket's jobs that have been finished for long.
func (j *Jobs) DropOld(ctx context.Context, shard int16) (int64, error) {
	tag, err := j.deps.DB.Exec(ctx, dropOldSQL, pgx.StrictNamedArgs{"shard": shard, "before": j.deps.Now().Add(-Keep)})
	if err != nil {
		return 0, pg.Fault(fmt.Errorf("delete old jobs: %w", err))
	}
	return tag.RowsAffected(), nil
}
