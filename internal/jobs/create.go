package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// Count is how many a request means.
type Count struct {
	Matched int64
	AtLeast bool // there may be more
}

const (
	// countMost and countPatience bound what is counted before a job is made: whoever asks waits for it, and for the page that
	// has begun by then.
	countMost     = 100_000
	countPatience = 3 * time.Second
	countPage     = 1000
)

// Preview says how many a request means now, and makes nothing.
func (j *Jobs) Preview(ctx context.Context, r Request) (Count, error) {
	if err := j.check(ctx, &r); err != nil {
		return Count{}, err
	}
	return j.count(ctx, r, j.deps.IDs.Next())
}

// check settles the request, and asks after the things that it names.
func (j *Jobs) check(ctx context.Context, r *Request) error {
	if err := r.settle(j.deps.Now()); err != nil {
		return err
	}
	if r.Kind == Replay {
		w, err := r.spec().replay(*r.Tenant, 0)
		if err != nil {
			return err
		}
		return j.deps.Intake.CheckReplay(ctx, w) //nolint:wrapcheck // says it all
	}
	return j.checkIDs(ctx, r)
}

// Indexes deliveries_pkey and deliveries_finished_pkey: each name is looked up by itself, in the one partition that it lies in.
const tenantsOfSQL = `
SELECT coalesce((SELECT d.tenant_id FROM deliveries d WHERE d.shard = n.shard AND d.id = n.id),
    (SELECT f.tenant_id FROM deliveries_finished f WHERE f.shard = n.shard AND f.id = n.id), 0)
FROM unnest(@shards::smallint[], @ids::bigint[]) WITH ORDINALITY AS n (shard, id, place) ORDER BY n.place`

// checkIDs wants each delivery that is named to be there. Another tenant's is not.
func (j *Jobs) checkIDs(ctx context.Context, r *Request) error {
	if len(r.IDs) == 0 {
		return nil
	}
	shards, ns := apart(r.IDs)
	rows, err := j.deps.DB.Query(ctx, tenantsOfSQL, pgx.StrictNamedArgs{"shards": shards, "ids": ns})
	var tenants []int64
	if err == nil {
		tenants, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	}
	if err != nil {
		return pg.Fault(fmt.Errorf("look for deliveries: %w", err))
	}
	var faults fault.Fields
	for i, tenant := range tenants {
		if tenant == 0 || r.Filter.Tenant != nil && (r.Filter.Tenant.N != tenant || r.Filter.Tenant.Shard != shards[i]) {
			faults.Addf(fmt.Sprintf("/ids/%d", i), "there is no such delivery")
		}
	}
	if err := faults.Err(); err != nil {
		return err
	}
	slices.SortFunc(r.IDs, byAge)
	r.IDs = slices.Compact(r.IDs)
	return nil
}

// byAge puts the oldest first.
func byAge(a, b id.ID) int {
	if a.N != b.N {
		return int(min(max(a.N-b.N, -1), 1))
	}
	return int(a.Shard) - int(b.Shard)
}

func apart(ids []id.ID) (shards []int16, ns []int64) {
	for _, i := range ids {
		shards, ns = append(shards, i.Shard), append(ns, i.N)
	}
	return shards, ns
}

// count counts what is meant of what is older than an id.
func (j *Jobs) count(ctx context.Context, r Request, before int64) (Count, error) {
	switch {
	case len(r.IDs) > 0:
		return Count{Matched: int64(len(r.IDs))}, nil
	case r.Kind == Replay:
		return j.countReplay(ctx, r, before)
	}
	var c Count
	from := id.ID{N: before}
	for deadline := time.Now().Add(countPatience); ; {
		found, err := j.deps.Desk.List(ctx, r.Filter, countPage, from)
		if err != nil {
			return c, err //nolint:wrapcheck // says it all
		}
		c.Matched += int64(len(found))
		if len(found) < countPage {
			return c, nil
		}
		if c.Matched >= countMost || time.Now().After(deadline) {
			c.AtLeast = true
			return c, nil
		}
		from = found[len(found)-1].ID
	}
}

func (j *Jobs) countReplay(ctx context.Context, r Request, before int64) (Count, error) {
	w, err := r.spec().replay(*r.Tenant, before)
	if err != nil {
		return Count{}, err
	}
	var c Count
	after, seen := int64(0), 0
	for deadline := time.Now().Add(countPatience); ; {
		step, err := j.deps.Intake.CountReplay(ctx, w, after, countPage)
		if err != nil {
			return c, err //nolint:wrapcheck // says it all
		}
		c.Matched += int64(step.Matched)
		if step.End {
			return c, nil
		}
		if seen += countPage; seen >= countMost || time.Now().After(deadline) {
			c.AtLeast = true
			return c, nil
		}
		after = step.Last
	}
}

const createSQL = `
INSERT INTO jobs (shard, id, tenant_id, kind, spec, created_by, in_portal, matched, matched_at_least, gathered, chunks, cursor_shard,
    cursor_id, next_at)
VALUES (@shard, @id, nullif(@tenant::bigint, 0), @kind, @spec::json, @by, @in_portal, @matched, @at_least, @gathered, @chunks, 0,
    @cursor, @now)`

// Create makes a job and gives it back at once. The context's actor is who made it.
func (j *Jobs) Create(ctx context.Context, r Request) (Job, error) {
	if err := j.check(ctx, &r); err != nil {
		return Job{}, err
	}
	text, err := json.Marshal(r.spec())
	if err != nil {
		return Job{}, fmt.Errorf("spell what a job is to do: %w", err)
	}
	job := Job{ID: id.ID{N: j.deps.IDs.Next()}, Tenant: r.Tenant, Kind: r.Kind, State: Queued, Spec: text}
	if r.Tenant != nil {
		job.ID.Shard = r.Tenant.Shard
	}
	c, err := j.count(ctx, r, job.ID.N)
	if err != nil {
		return Job{}, err
	}
	by := audit.ActorOf(ctx)
	job.Matched, job.MatchedAtLeast, job.CreatedBy, job.InPortal = c.Matched, c.AtLeast, by.Name, by.Kind == audit.ByPortal
	err = pg.InTx(ctx, j.deps.DB, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		j.queueCreate(ctx, b, job, r.IDs)
		return tx.SendBatch(ctx, b).Close() //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return Job{}, fmt.Errorf("make a job: %w", err)
	}
	select {
	case j.news <- struct{}{}:
	default:
	}
	return job, nil
}

func (j *Jobs) queueCreate(ctx context.Context, b *pgx.Batch, job Job, named []id.ID) {
	tenant, cursor := int64(0), int64(0)
	if job.Tenant != nil {
		tenant = job.Tenant.N
	}
	if job.Kind != Replay {
		cursor = job.ID.N // it gathers what is older than itself, from the newest on
	}
	chunks := slices.Collect(slices.Chunk(named, j.deps.Batch))
	slices.Reverse(chunks) // the last is worked off first
	b.Queue(createSQL, pgx.StrictNamedArgs{
		"shard": job.ID.Shard, "id": job.ID.N, "tenant": tenant, "kind": string(job.Kind), "spec": string(job.Spec),
		"by": job.CreatedBy, "in_portal": job.InPortal, "matched": job.Matched, "at_least": job.MatchedAtLeast,
		"gathered": job.Kind == Replay || len(named) > 0, "chunks": len(chunks), "cursor": cursor, "now": j.deps.Now(),
	})
	for n, some := range chunks {
		queueChunk(b, job.ID, n+1, some)
	}
	audit.Queue(b, audit.ActorOf(ctx), j.deps.IDs.Next, audit.Entry{
		Action: audit.JobCreated, Object: audit.Thing{Kind: id.Job, ID: job.ID}, Tenant: job.Tenant,
		Details: audit.Details{"kind": job.Kind, "spec": job.Spec, "matched": job.Matched},
	})
}

const chunkSQL = `
INSERT INTO job_chunks (shard, job_id, n, shards, ids) VALUES (@shard, @job, @n, @shards::smallint[], @ids::bigint[])`

// queueChunk keeps some deliveries, oldest first.
func queueChunk(b *pgx.Batch, job id.ID, n int, some []id.ID) {
	shards, ids := apart(some)
	b.Queue(chunkSQL, pgx.StrictNamedArgs{"shard": job.Shard, "job": job.N, "n": n, "shards": shards, "ids": ids})
}
