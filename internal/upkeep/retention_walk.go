package upkeep

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

const (
	// walkBlocks is how many blocks of a partition one transaction reads at most: 2 MiB, and with them the payloads that lie apart, which may
	// be a thousand times as much. So it begins with few, and takes twice as many as long as it is quick.
	walkBlocks, firstBlocks = 256, 8
	// One that takes less than quickly is followed by a larger one, one that takes more than slowly by a smaller one. Some of that is looking for
	// what is unfinished, which is the same for a small one.
	quickly, slowly = 2 * time.Second, 10 * time.Second
	// walkPatience bounds it.
	walkPatience = time.Minute

	pagesSQL = `t.ctid >= @first::text::tid AND t.ctid < @after::text::tid`
)

// walk goes through a partition from its first block to the last, some at a time, with a statement over the rows t of those. It rests
// after each for as long as that took, so that it takes half of one core and of one disk at most. Which block is the last is looked up now:
// the run may have begun hours ago, and the day have got rows since.
func (r *Retention) walk(ctx context.Context, p part, sql string, args pgx.StrictNamedArgs) (rows int64, err error) {
	blocks, err := r.blocks(ctx, p.quoted())
	if err != nil {
		return 0, err
	}
	for at, some := int64(0), int64(firstBlocks); at < blocks; {
		step := maps.Clone(args)
		step["first"], step["after"] = fmt.Sprintf("(%d,0)", at), fmt.Sprintf("(%d,0)", at+some)
		begun := time.Now()
		n, err := r.bit(ctx, sql, step)
		if err != nil {
			return rows, err
		}
		rows, at = rows+n, at+some
		took := time.Since(begun)
		select {
		case <-time.After(took):
		case <-ctx.Done():
			return rows, ctx.Err() //nolint:wrapcheck // by the caller
		}
		switch {
		case took < quickly:
			some = min(2*some, walkBlocks)
		case took > slowly:
			some = max(some/2, 1)
		}
	}
	return rows, nil
}

// bit is one transaction of a walk.
func (r *Retention) bit(ctx context.Context, sql string, args pgx.StrictNamedArgs) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, walkPatience)
	defer cancel()
	err = pg.InTx(ctx, r.db, func(tx pgx.Tx) error {
		if err := pg.Indexed(ctx, tx); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, sql, args)
		if n = tag.RowsAffected(); err != nil {
			return err //nolint:wrapcheck // by the caller
		}
		// Last, since nobody can renew the lease behind it, not even we: a bit may take longer than a lease can wait.
		return fence(ctx, tx)
	})
	return n, err //nolint:wrapcheck // by the caller
}

// blocks is how large a table is now, without its indexes and what lies apart.
func (r *Retention) blocks(ctx context.Context, table string) (n int64, err error) {
	const sql = `SELECT coalesce(pg_relation_size(to_regclass($1)), 0) / current_setting('block_size')::bigint`
	if err := r.db.QueryRow(ctx, sql, table).Scan(&n); err != nil {
		return 0, pg.Fault(fmt.Errorf("measure %s: %w", table, err))
	}
	return n, nil
}

// unneededSQL is the condition on a row t that nothing unfinished needs it.
func unneededSQL(table string) string {
	switch table {
	case tableEvents:
		return `(t.shard, t.id) NOT IN (SELECT n.shard, n.id FROM (` + neededEventsSQL + `) n)`
	case tableFinished:
		return `(t.shard, t.id) NOT IN (SELECT n.shard, n.id FROM (` + neededFinishedSQL + `) n)`
	}
	return `t.id >= @low AND t.id < @high AND NOT EXISTS (SELECT FROM deliveries d WHERE d.shard = t.shard AND d.id = t.delivery_id)`
}

// deleteTenants deletes, of a day that is not over for most, the rows of those for whom it is. gone are those whose were deleted already.
func (r *Retention) deleteTenants(ctx context.Context, v verdict, gone []int64, now time.Time) (did bool, err error) {
	fresh := slices.DeleteFunc(slices.Clone(v.tenants), func(t int64) bool { return slices.Contains(gone, t) })
	if len(fresh) == 0 {
		if slices.Equal(gone, v.tenants) {
			return false, nil
		}
		return false, noteDone(ctx, r.db, v, 0, now) // one keeps more than it did, and may keep less again
	}
	args := r.stretch(v)
	args["tenants"] = fresh
	rows, err := r.walk(ctx, v.part, `DELETE FROM `+v.quoted()+` t WHERE `+pagesSQL+` AND `+ofTenantsSQL(v.Table)+` AND `+unneededSQL(v.Table), args)
	if err != nil {
		return rows > 0, fmt.Errorf("delete what some tenants keep for less long: %w", err)
	}
	r.deleted(v.part, rows)
	return rows > 0, noteDone(ctx, r.db, v, 0, now)
}

func (r *Retention) deleted(p part, rows int64) {
	if rows > 0 {
		r.log.Info().Str("table", p.Table).Str("partition", p.Name).Int64("rows", rows).Msg("retention.deleted")
	}
}

// overSQL is the condition on a row t of the default partition, which has no day, that its own time is over.
func overSQL(table string) string {
	theirs := `u.tenant = t.tenant_id`
	if table == tableAttempts {
		theirs = `u.tenant = (SELECT e.tenant_id FROM endpoints e WHERE e.shard = t.shard AND e.id = t.endpoint_id)`
	}
	return `t.id < coalesce((SELECT u.cutoff FROM unnest(@tenants::bigint[], @cutoffs::bigint[]) AS u (tenant, cutoff) WHERE ` + theirs +
		` LIMIT 1), @cutoff::bigint)`
}

func (r *Retention) overArgs(o outlook, table string) pgx.StrictNamedArgs {
	tenants, cutoffs := []int64{}, []int64{}
	for _, own := range o.owns {
		tenants, cutoffs = append(tenants, own.Tenant), append(cutoffs, own.cutoff(table, o.now))
	}
	for _, tenant := range o.busy { // nothing of theirs is over while they replay
		tenants, cutoffs = append([]int64{tenant}, tenants...), append([]int64{0}, cutoffs...)
	}
	args := r.stretch(verdict{part: part{Table: table, from: 0, to: id.Floor(o.now)}})
	args["tenants"], args["cutoffs"], args["cutoff"] = tenants, cutoffs, r.keep.cutoff(table, o.now)
	return args
}

// clearDefault deletes what is over of the rows that no day's partition took. Usually there are none.
func (r *Retention) clearDefault(ctx context.Context, o outlook, p part) (did bool, err error) {
	if p.Blocks == 0 {
		return false, nil
	}
	rows, err := r.walk(ctx, p, `DELETE FROM `+p.quoted()+` t WHERE `+pagesSQL+` AND `+overSQL(p.Table)+` AND `+unneededSQL(p.Table),
		r.overArgs(o, p.Table))
	if err != nil {
		return rows > 0, fmt.Errorf("delete what is over: %w", err)
	}
	r.deleted(p, rows)
	return rows > 0, nil
}
