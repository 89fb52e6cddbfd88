package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// erasing is what a job of the kind Erase is shown with. The job is the operator's: of the tenant nothing else stays.
type erasing struct {
	Tenant string `json:"tenant"`
}

const (
	lockDeletedSQL = `SELECT deleted_at IS NOT NULL FROM tenants WHERE shard = @shard AND id = @id FOR UPDATE`

	// Index jobs_unfinished.
	erasingSQL = `
SELECT ` + columns + ` FROM jobs
 WHERE shard = @shard AND kind = 'erase' AND state IN ('queued', 'running') AND spec ->> 'tenant' = @tenant`

	// Whose turn is by next_at never has such a job: older binaries do not know its kind.
	createErasureSQL = `
INSERT INTO jobs (shard, id, kind, spec, created_by, matched, matched_at_least, gathered, next_at)
VALUES (@shard, @id, 'erase', @spec::json, @by, 0, true, true, 'infinity')`

	// All endpoints that it ever had: deleted ones have no index, and the bucket's are read by endpoints_pkey.
	eraseChunkSQL = `
INSERT INTO job_chunks (shard, job_id, n, shards, ids)
SELECT @shard, @id, 1, coalesce(array_agg(e.shard), '{}'), coalesce(array_agg(e.id), '{}') FROM endpoints e
 WHERE e.shard = @shard AND e.tenant_id = @tenant`
)

// Erase makes the job that erases a tenant, which has to be deleted, or gives the one that is at it. The context's actor is who made it.
func (j *Jobs) Erase(ctx context.Context, tenant id.ID) (job Job, err error) {
	name := id.Tenant.Format(tenant)
	err = pg.InTx(ctx, j.deps.DB, func(tx pgx.Tx) error {
		var deleted bool
		err := tx.QueryRow(ctx, lockDeletedSQL, pgx.StrictNamedArgs{"shard": tenant.Shard, "id": tenant.N}).Scan(&deleted)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return fault.New(fault.NotFound, "no such tenant")
		case err != nil:
			return err //nolint:wrapcheck // wrapped below
		case !deleted:
			return fault.New(fault.Conflict, "the tenant is not deleted")
		}
		rows, err := tx.Query(ctx, erasingSQL, pgx.StrictNamedArgs{"shard": tenant.Shard, "tenant": name})
		if err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		under, err := pgx.CollectRows(rows, pgx.RowToStructByName[jobRow])
		if err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		if len(under) > 0 {
			job = under[0].job()
			return nil
		}
		job, err = j.createErasure(ctx, tx, tenant, name)
		return err
	})
	if err != nil {
		return Job{}, fmt.Errorf("erase a tenant: %w", err)
	}
	return job, nil
}

func (j *Jobs) createErasure(ctx context.Context, tx pgx.Tx, tenant id.ID, name string) (Job, error) {
	spec, err := json.Marshal(erasing{Tenant: name})
	if err != nil {
		return Job{}, err //nolint:wrapcheck // by the caller
	}
	job := Job{
		ID: id.ID{Shard: tenant.Shard, N: j.deps.IDs.Next()}, Kind: Erase, State: Queued, Spec: spec, MatchedAtLeast: true,
		CreatedBy: audit.ActorOf(ctx).Name,
	}
	b := &pgx.Batch{}
	b.Queue(createErasureSQL, pgx.StrictNamedArgs{"shard": job.ID.Shard, "id": job.ID.N, "spec": string(spec), "by": job.CreatedBy})
	b.Queue(eraseChunkSQL, pgx.StrictNamedArgs{"shard": job.ID.Shard, "id": job.ID.N, "tenant": tenant.N})
	// Not as one of the tenant's entries, which are erased.
	audit.Queue(b, audit.ActorOf(ctx), j.deps.IDs.Next, audit.Entry{
		Action: audit.TenantErased, Object: audit.Thing{Kind: id.Tenant, ID: tenant},
	})
	return job, tx.SendBatch(ctx, b).Close() //nolint:wrapcheck // by the caller
}

const (
	nextErasureSQL = `
SELECT j.shard, j.id, j.spec ->> 'tenant' AS tenant, coalesce((SELECT c.ids FROM job_chunks c WHERE c.shard = j.shard AND c.job_id = j.id), '{}') AS endpoints
  FROM jobs j WHERE j.kind = 'erase' AND j.state IN ('queued', 'running') ORDER BY j.id`

	// It waits for a cancellation, and finds the job no longer unfinished then.
	erasedBitSQL = `
UPDATE jobs SET state = 'running', started_at = coalesce(started_at, @now), done = done + @rows, matched = done + @rows
 WHERE shard = @shard AND id = @id AND state IN ('queued', 'running')`

	erasedSQL = `
UPDATE jobs SET state = 'succeeded', finished_at = @now, matched = done, matched_at_least = false
 WHERE shard = @shard AND id = @id AND state = 'running'`
)

// erasure is one tenant's.
type erasure struct {
	Shard     int16
	ID        int64
	Tenant    string
	Endpoints []int64

	tenant id.ID
}

// RunErasures goes on erasing what is to be erased, for as long as it may, and says how many rows that were. What a tenant has in flight,
// and who may still enqueue for it, is waited for until the next time. It may be broken off anywhere, and begun again: each bit deletes what is still there.
func (j *Jobs) RunErasures(ctx context.Context) (rows int64, err error) {
	found, err := j.deps.DB.Query(ctx, nextErasureSQL)
	var all []erasure
	if err == nil {
		all, err = pgx.CollectRows(found, pgx.RowToStructByNameLax[erasure])
	}
	if err != nil {
		return 0, pg.Fault(fmt.Errorf("look for tenants to erase: %w", err))
	}
	for _, e := range all {
		tenant, perr := id.Tenant.Parse(e.Tenant)
		if perr == nil {
			var n int64
			e.tenant = tenant
			n, perr = j.erase(ctx, e)
			rows += n
		}
		if perr != nil {
			err = errors.Join(err, fmt.Errorf("erase %s: %w", e.Tenant, perr))
		}
	}
	return rows, err
}

// erase does all bits of a tenant in their order.
func (j *Jobs) erase(ctx context.Context, e erasure) (total int64, err error) {
	if late, err := j.awaitLate(ctx); late || err != nil {
		return 0, err
	}
	for _, act := range erasureActs {
		for {
			begun := time.Now()
			n, gone, err := j.eraseBit(ctx, e, act)
			total += n
			if err != nil || gone {
				return total, err
			}
			select { // half of a core, and of a disk, is for others
			case <-time.After(time.Since(begun)):
			case <-ctx.Done():
				return total, ctx.Err() //nolint:wrapcheck // by the caller
			}
			if n < act.full {
				break
			}
		}
	}
	b := &pgx.Batch{}
	b.Queue(dropChunksSQL, pgx.StrictNamedArgs{"shard": e.Shard, "id": e.ID})
	b.Queue(erasedSQL, pgx.StrictNamedArgs{"shard": e.Shard, "id": e.ID, "now": j.deps.Now()})
	err = pg.InTx(ctx, j.deps.DB, func(tx pgx.Tx) error {
		return tx.SendBatch(ctx, b).Close() //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return total, fmt.Errorf("end the job: %w", err)
	}
	j.deps.Log.Info().Str("job", id.Job.Format(id.ID{Shard: e.Shard, N: e.ID})).Str("kind", string(Erase)).Msg("job.finished")
	return total, nil
}

// eraseBit is one transaction. gone says that the tenant's turn is over for now: the job was cancelled, or something is in flight.
func (j *Jobs) eraseBit(ctx context.Context, e erasure, act erasureAct) (n int64, gone bool, err error) {
	err = pg.InTx(ctx, j.deps.DB, func(tx pgx.Tx) error {
		n, gone = 0, false
		if err := pg.Indexed(ctx, tx); err != nil {
			return err
		}
		for _, sql := range act.sql {
			tag, err := tx.Exec(ctx, sql, e.args(sql))
			if err != nil {
				return fmt.Errorf("%s: %w", act.what, err)
			}
			n += tag.RowsAffected()
		}
		if act.waits != "" && n < act.full {
			if err := tx.QueryRow(ctx, act.waits, e.args(act.waits)).Scan(&gone); err != nil {
				return fmt.Errorf("%s: %w", act.what, err)
			}
		}
		tag, err := tx.Exec(ctx, erasedBitSQL, pgx.StrictNamedArgs{"shard": e.Shard, "id": e.ID, "rows": n, "now": j.deps.Now()})
		if err != nil {
			return fmt.Errorf("write down how far it is: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return errLost
		}
		return nil
	})
	if errors.Is(err, errLost) {
		return 0, true, nil
	}
	return n, gone, err //nolint:wrapcheck // by the caller
}
