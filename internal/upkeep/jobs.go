package upkeep

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/metrics"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/subscriptions"
)

// Deps is what the jobs work with. Audit, Sessions, Stats, Keys, UIDs, Jobs and Schedules may be nil: somebody else sees to that.
type Deps struct {
	DB      *pgxpool.Pool
	Now     func() time.Time // the database's clock
	Log     zerolog.Logger
	Metrics *metrics.Metrics
	Store   *subscriptions.Store
	Desk    *dispatcher.Desk
	Alerts  *alert.Desk

	Audit     *audit.Log
	KeepAudit time.Duration // retention.audit_log

	// Sessions deletes those that have ended, and links that have.
	Sessions  func(ctx context.Context) (int64, error)
	Stats     *stats.Reader
	KeepStats time.Duration // retention.attempts

	// Keys deletes a bucket's Idempotency-Keys that are older than a time, and UIDs those of events that are gone.
	Keys, UIDs func(ctx context.Context, shard int16, olderThan time.Time) (int64, error)
	KeepKeys   time.Duration // retention.idempotency_keys
	KeepEvents time.Duration // retention.events

	// Retention drops old history; nil: it stays.
	Retention *Retention

	Jobs func(ctx context.Context, shard int16) (int64, error) // deletes a bucket's old jobs

	Schedules func(ctx context.Context) (int64, error) // deletes those of deleted tenants

	Erasures func(ctx context.Context) (int64, error) // goes on erasing tenants
}

// New lists every job with its pace.
func New(d Deps) *Upkeep {
	jobs := []*job{
		{name: "partitions", every: time.Hour, patience: 10 * time.Minute, run: d.partitions, lost: d.forgetPartitions},
		{name: "secrets", every: time.Minute, patience: time.Minute, run: d.secrets},
		{name: "closed endpoints", every: time.Minute, patience: 10 * time.Minute, run: d.closedEndpoints},
		{name: "orphaned alerts", every: time.Minute, patience: time.Minute, run: d.Alerts.ResolveDeleted},
		{name: "old alerts", every: day, patience: time.Hour, run: d.oldAlerts},
		{name: "gauges", every: 10 * time.Second, patience: 30 * time.Second, run: d.gauges, lost: d.forgetGauges},
		// On its own and with more time: it reads all the history there is, and the others must not wait for it.
		{name: "gauges of history", every: 10 * time.Second, patience: 5 * time.Minute, run: d.historyGauges, lost: d.forgetHistory},
	}
	if d.Retention != nil {
		// It tries for long where it has to wait for locks, and what it did not come to is done in the next run.
		jobs = append(jobs, &job{name: retentionJob, every: time.Hour, patience: 6 * time.Hour, run: d.Retention.Run})
	}
	if d.Audit != nil {
		jobs = append(jobs, &job{name: "old entries of the audit log", every: day, patience: time.Hour, run: d.auditLog})
	}
	if d.Sessions != nil {
		jobs = append(jobs, &job{name: "ended sessions", every: 10 * time.Minute, patience: time.Minute, run: d.Sessions})
	}
	if d.Stats != nil {
		jobs = append(jobs, &job{name: "old figures", every: 6 * time.Hour, patience: time.Hour, run: d.stats})
	}
	if d.Keys != nil {
		jobs = append(jobs, &job{name: "idempotency keys", every: 10 * time.Minute, patience: 5 * time.Minute, run: d.keys})
	}
	if d.UIDs != nil {
		jobs = append(jobs, &job{name: "uids of events that are gone", every: day, patience: time.Hour, run: d.uids})
	}
	if d.Jobs != nil {
		jobs = append(jobs, &job{name: "old jobs", every: day, patience: time.Hour, run: d.oldJobs})
	}
	if d.Schedules != nil {
		jobs = append(jobs, &job{name: "orphaned schedules", every: time.Minute, patience: time.Minute, run: d.Schedules})
	}
	if d.Erasures != nil {
		jobs = append(jobs, &job{name: "erasures", every: 5 * time.Second, patience: time.Hour, run: d.Erasures})
	}
	for _, j := range jobs {
		d.Metrics.ExpectUpkeep(j.label())
	}
	for _, table := range partitioned {
		d.Metrics.SetDefaultRows(table, 0)
	}
	return &Upkeep{log: d.Log, jobs: jobs, metrics: d.Metrics, now: d.Now, leases: newLeases(d.DB, d.Now)}
}

func (d Deps) partitions(ctx context.Context) (int64, error) {
	made, err := ensurePartitions(ctx, d.DB, d.Now())
	return made, errors.Join(err, d.measurePartitions(ctx))
}

func (d Deps) secrets(ctx context.Context) (int64, error) {
	return everyBucket(ctx, d.Store.DropExpiredSecrets)
}

func (d Deps) keys(ctx context.Context) (int64, error) {
	before := d.Now().Add(-d.KeepKeys)
	return everyBucket(ctx, func(ctx context.Context, shard int16) (int64, error) { return d.Keys(ctx, shard, before) })
}

func (d Deps) uids(ctx context.Context) (int64, error) {
	before := d.Now().Add(-d.KeepEvents)
	return everyBucket(ctx, func(ctx context.Context, shard int16) (int64, error) { return d.UIDs(ctx, shard, before) })
}

func (d Deps) oldAlerts(ctx context.Context) (int64, error) {
	return everyBucket(ctx, d.Alerts.DropOld)
}

func (d Deps) oldJobs(ctx context.Context) (int64, error) { return everyBucket(ctx, d.Jobs) }

func (d Deps) auditLog(ctx context.Context) (int64, error) {
	before := d.Now().Add(-d.KeepAudit)
	return everyBucket(ctx, func(ctx context.Context, shard int16) (int64, error) { return d.Audit.DropOld(ctx, shard, before) })
}

// stats deletes the figures of attempts that are not to be kept any more.
func (d Deps) stats(ctx context.Context) (int64, error) {
	before := d.Now().Add(-d.KeepStats)
	all, err := d.Stats.DropOld(ctx, before)
	n, eerr := everyBucket(ctx, func(ctx context.Context, shard int16) (int64, error) {
		return d.Stats.DropOldOfEndpoints(ctx, shard, before)
	})
	return all + n, errors.Join(err, eerr)
}

// closedEndpoints cancels deliveries of endpoints that are dead or deleted. Whoever closes an endpoint cancels them at
// once; this is for those accepted at that same moment, and for a process that died in between.
func (d Deps) closedEndpoints(ctx context.Context) (int64, error) {
	return everyBucket(ctx, func(ctx context.Context, shard int16) (total int64, err error) {
		closed, err := d.Store.ClosedEndpoints(ctx, shard)
		if err != nil || len(closed) == 0 {
			return 0, err
		}
		waiting, err := d.Desk.Waiting(ctx, shard, closed)
		if err != nil || len(waiting) == 0 {
			return 0, err
		}
		targets, err := d.Store.Targets(ctx, waiting)
		if err != nil {
			return 0, err
		}
		for _, endpoint := range waiting {
			reason := dispatcher.ReasonEndpointDead
			if targets[endpoint].Deleted { // or its tenant was, which deleted it
				reason = dispatcher.ReasonEndpointDeleted
			}
			n, cerr := d.Desk.CancelUnfinished(ctx, endpoint, reason)
			total += n
			err = errors.Join(err, cerr)
		}
		return total, err
	})
}

// everyBucket does one thing in each bucket. A bucket that fails keeps none of the others waiting.
func everyBucket(ctx context.Context, act func(ctx context.Context, shard int16) (int64, error)) (total int64, err error) {
	for shard := range int16(id.Buckets) {
		if ctx.Err() != nil {
			return total, errors.Join(err, ctx.Err())
		}
		n, aerr := act(ctx, shard)
		total += n
		err = errors.Join(err, aerr)
	}
	return total, err
}
