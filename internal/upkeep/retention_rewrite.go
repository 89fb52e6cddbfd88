package upkeep

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// rewriting is a day that is put together anew.
type rewriting struct {
	verdict
	kept    string    // the new table, quoted
	started time.Time // before the first row was copied
	shards  []int16   // deliveries of that day which were unfinished by then, and may have been finished since
	ids     []int64
}

// rewrite puts a day together anew from what has to stay: that is copied into a table of its own while everybody works, some pages at a
// time; then that takes the day's place, in one short transaction, which first makes up for what has changed meanwhile. If it is
// broken off, nothing has happened, and it is begun again.
func (r *Retention) rewrite(ctx context.Context, v verdict, needed int64) error {
	w := &rewriting{verdict: v, kept: pgx.Identifier{v.Name + "_kept"}.Sanitize(), started: r.now().Add(-time.Minute)}
	if err := r.prepare(ctx, w); err != nil {
		return err
	}
	if len(v.tenants) > 0 {
		copySQL := `INSERT INTO ` + w.kept + ` SELECT t.* FROM ` + v.quoted() + ` t WHERE ` + pagesSQL + ` AND ` + ofTenantsSQL(v.Table) +
			` ON CONFLICT DO NOTHING`
		if _, err := r.walk(ctx, v.part, copySQL, pgx.StrictNamedArgs{"tenants": v.tenants}); err != nil {
			return fmt.Errorf("copy what is kept for longer: %w", err)
		}
	}
	if err := r.copyNeeded(ctx, w); err != nil {
		return err
	}
	if _, err := r.db.Exec(ctx, `ANALYZE `+w.kept); err != nil {
		return pg.Fault(fmt.Errorf("count what is kept: %w", err))
	}
	if err := r.spareDefault(ctx, w); err != nil {
		return err
	}
	var stay int64
	err := r.locked(ctx, v.part, swapPatience, func(tx pgx.Tx) (err error) {
		stay, err = r.swap(ctx, tx, w, needed)
		return err
	})
	if err == nil {
		r.dropped(v, stay)
	}
	return err
}

const unfinishedOfDaySQL = `
SELECT coalesce(array_agg(d.shard), '{}'), coalesce(array_agg(d.id), '{}') FROM generate_series(0, 255) s (n) CROSS JOIN LATERAL (
    SELECT x.shard, x.id FROM deliveries x WHERE x.shard = s.n::smallint AND x.id >= @low AND x.id < @high` + bucketByBucket + `) d`

// prepare makes the new table, with the condition that spares attaching it a look at each row.
func (r *Retention) prepare(ctx context.Context, w *rewriting) error {
	err := pg.InTx(ctx, r.db, func(tx pgx.Tx) error {
		if err := fence(ctx, tx); err != nil {
			return err
		}
		if err := pg.Indexed(ctx, tx); err != nil {
			return err
		}
		for _, sql := range []string{
			`DROP TABLE IF EXISTS ` + w.kept, // of a run that was broken off
			`CREATE TABLE ` + w.kept + ` (LIKE ` + w.Table + ` INCLUDING ALL)`,
			fmt.Sprintf(`ALTER TABLE %s ADD CONSTRAINT of_the_day CHECK (id IS NOT NULL AND id >= %d AND id < %d)`, w.kept, w.from, w.to),
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err //nolint:wrapcheck // wrapped below
			}
		}
		if w.Table != tableFinished {
			return nil
		}
		return tx.QueryRow(ctx, unfinishedOfDaySQL, pgx.StrictNamedArgs{"low": w.from, "high": w.to}).Scan(&w.shards, &w.ids) //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return fmt.Errorf("make a table for what stays: %w", err)
	}
	return nil
}

// copyNeeded copies what something unfinished needs and is not copied yet.
func (r *Retention) copyNeeded(ctx context.Context, w *rewriting) error {
	err := pg.InTx(ctx, r.db, func(tx pgx.Tx) error {
		if err := pg.Indexed(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO `+w.kept+` `+neededSQL(w.part)+` ON CONFLICT DO NOTHING`, r.stretch(w.verdict)); err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		return fence(ctx, tx) // whoever has the job by now may make a table of that name
	})
	if err != nil {
		return fmt.Errorf("copy what is unfinished: %w", err)
	}
	return nil
}

// swap puts the new table in the day's place, or drops the day if nothing stays. The caller has locked the day.
func (r *Retention) swap(ctx context.Context, tx pgx.Tx, w *rewriting, needed int64) (stay int64, err error) {
	if err := w.makeUp(ctx, tx); err != nil {
		return 0, fmt.Errorf("make up for what has changed: %w", err)
	}
	if err := w.leaveErased(ctx, tx); err != nil {
		return 0, fmt.Errorf("leave out what was erased: %w", err)
	}
	late, err := r.copyLate(ctx, tx, w)
	if err != nil {
		return 0, fmt.Errorf("copy what is unfinished: %w", err)
	}
	// An estimate, from ANALYZE; exact is only whether there are any at all.
	const count = `SELECT greatest(CASE WHEN EXISTS (SELECT FROM %s) THEN 1 ELSE 0 END,
		(SELECT c.reltuples::bigint FROM pg_class c WHERE c.oid = to_regclass($1)))`
	if err := tx.QueryRow(ctx, fmt.Sprintf(count, w.kept), w.kept).Scan(&stay); err != nil {
		return 0, fmt.Errorf("count what stays: %w", err)
	}
	if err := dropPart(ctx, tx, w.part); err != nil {
		return 0, err
	}
	sqls := []string{`DROP TABLE ` + w.kept}
	if stay > 0 {
		sqls = []string{
			`ALTER TABLE ` + w.kept + ` RENAME TO ` + w.quoted(),
			fmt.Sprintf(`ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%d) TO (%d)`, w.Table, w.quoted(), w.from, w.to),
			`ALTER TABLE ` + w.quoted() + ` DROP CONSTRAINT of_the_day`,
		}
	}
	sqls = append(sqls, roomAgainSQL(w.Table))
	for _, sql := range sqls {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return 0, fmt.Errorf("put the new table in the day's place: %w", err)
		}
	}
	if stay == 0 {
		return 0, nil
	}
	return stay, noteDone(ctx, tx, w.verdict, needed+late, r.now())
}

// copyLate copies what has come to be needed since the copy was made, and no more: everybody waits meanwhile, and much may be held.
func (r *Retention) copyLate(ctx context.Context, tx pgx.Tx, w *rewriting) (n int64, err error) {
	late := lateSQL(w.Table)
	if late == "" {
		return 0, nil
	}
	// OFFSET 0: what is copied already is passed over before its row is looked up.
	fresh := `SELECT * FROM (` + late + `) l WHERE NOT EXISTS (SELECT FROM ` + w.kept + ` k WHERE k.shard = l.shard AND k.id = l.id) OFFSET 0`
	tag, err := tx.Exec(ctx, `INSERT INTO `+w.kept+` `+rowsOfSQL(w.part, fresh), r.stretch(w.verdict))
	return tag.RowsAffected(), err //nolint:wrapcheck // by the caller
}

// Rows of a day that is over still change, though rarely: deliveries that have waited since then finish, finished ones are brought back,
// and a replay adds to an event's deliveries. Each of these leaves a trace that is found by an index.
const (
	// deliveries_late, deliveries_finished_late
	changedEventsSQL = `
SELECT d.shard, d.event_id AS id FROM deliveries d
 WHERE abs(d.id - d.event_id) > 20971520000 AND d.id >= @since AND d.event_id >= @low AND d.event_id < @high
UNION
SELECT f.shard, f.event_id FROM deliveries_finished f
 WHERE abs(f.id - f.event_id) > 20971520000 AND f.id >= @since AND f.event_id >= @low AND f.event_id < @high`

	// Those that were unfinished and are no more (deliveries_pkey), those that had an attempt since, and those that were brought back and
	// cancelled (deliveries_finished_unhappy).
	changedFinishedSQL = `
SELECT u.shard, u.id FROM unnest(@shards::smallint[], @ids::bigint[]) AS u (shard, id)
 WHERE NOT EXISTS (SELECT FROM deliveries d WHERE d.shard = u.shard AND d.id = u.id)
UNION
` + attemptedSQL + `
UNION
SELECT f.shard, f.id FROM %s f WHERE f.state <> 'succeeded' AND f.state = 'cancelled' AND f.finished_at >= @moment`

	// What is unfinished now is in no copy (deliveries_pkey).
	broughtBackSQL = `DELETE FROM %s k WHERE EXISTS (SELECT FROM deliveries d WHERE d.shard = k.shard AND d.id = k.id)`
)

// makeUp copies what has changed since it was copied once more. Nothing changes of attempts.
func (w *rewriting) makeUp(ctx context.Context, tx pgx.Tx) error {
	args := pgx.StrictNamedArgs{"low": w.from, "high": w.to, "since": id.Floor(w.started)}
	var changed string
	switch w.Table {
	case tableEvents:
		changed = changedEventsSQL
	case tableFinished:
		changed = fmt.Sprintf(changedFinishedSQL, w.quoted())
		args["shards"], args["ids"], args["moment"] = w.shards, w.ids, w.started
		if _, err := tx.Exec(ctx, fmt.Sprintf(broughtBackSQL, w.kept)); err != nil {
			return err //nolint:wrapcheck // by the caller
		}
	default:
		return nil
	}
	for _, sql := range []string{
		`DELETE FROM ` + w.kept + ` k USING (` + changed + `) c WHERE k.shard = c.shard AND k.id = c.id`,
		`INSERT INTO ` + w.kept + ` SELECT t.* FROM ` + w.quoted() + ` t JOIN (` + changed + `) c ON t.shard = c.shard AND t.id = c.id`,
	} {
		if _, err := tx.Exec(ctx, sql, args); err != nil {
			return err //nolint:wrapcheck // by the caller
		}
	}
	return nil
}

// Index jobs_unfinished, and of those that are done there are few.
const erasedLatelySQL = `
SELECT coalesce(array_agg(DISTINCT shard), '{}') FROM jobs
 WHERE kind = 'erase' AND (state IN ('queued', 'running') OR finished_at >= $1)`

// leaveErased takes rows out of the new table that the day has no more: an erasure deletes rows and leaves no trace of them. Only the
// buckets of tenants that were being erased are looked at.
func (w *rewriting) leaveErased(ctx context.Context, tx pgx.Tx) error {
	var shards []int16
	if err := tx.QueryRow(ctx, erasedLatelySQL, w.started).Scan(&shards); err != nil || len(shards) == 0 {
		return err //nolint:wrapcheck // by the caller
	}
	same := `t.shard = k.shard AND t.id = k.id`
	if w.Table == tableAttempts {
		same += ` AND t.delivery_id = k.delivery_id`
	}
	_, err := tx.Exec(ctx, `DELETE FROM `+w.kept+` k WHERE k.shard = ANY ($1::smallint[]) AND NOT EXISTS (SELECT FROM `+w.quoted()+` t WHERE `+same+`)`,
		shards)
	return err //nolint:wrapcheck // by the caller
}

// Tables of copies have the name of their partition, and are none.
const leftoversSQL = `
SELECT c.relname FROM pg_class c
 WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND NOT c.relispartition
   AND c.relname ~ '^(attempts|deliveries_finished|events)_[0-9]{8}_kept$'`

// sweep drops what is left of runs that were broken off. Their days may not be put together anew any more, and tenants be erased of whom it
// has rows.
func (r *Retention) sweep(ctx context.Context) error {
	rows, err := r.db.Query(ctx, leftoversSQL)
	if err != nil {
		return pg.Fault(fmt.Errorf("look for what is left of earlier runs: %w", err))
	}
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return pg.Fault(fmt.Errorf("look for what is left of earlier runs: %w", err))
	}
	for _, name := range left {
		err := pg.InTx(ctx, r.db, func(tx pgx.Tx) error {
			if err := fence(ctx, tx); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `DROP TABLE IF EXISTS `+pgx.Identifier{name}.Sanitize())
			return err //nolint:wrapcheck // wrapped below
		})
		if err != nil {
			return fmt.Errorf("drop %s, which is left of an earlier run: %w", name, err)
		}
	}
	return nil
}

// roomAgainSQL takes spareDefault's condition away, which would refuse rows of a day that is gone.
func roomAgainSQL(table string) string {
	return `ALTER TABLE ` + table + `_default DROP CONSTRAINT IF EXISTS not_of_the_day`
}

// manyBlocks is from how many blocks on the default partition is read before the lock and not under it.
const manyBlocks = 1024

// spareDefault has attaching the new table not read the default partition, if that is large: a condition says, and has been found to
// hold while everybody worked, that it has nothing of the day.
func (r *Retention) spareDefault(ctx context.Context, w *rewriting) error {
	blocks, err := r.blocks(ctx, w.Table+"_default")
	if err != nil || blocks < manyBlocks {
		return err
	}
	err = r.locked(ctx, w.part, swapPatience, func(tx pgx.Tx) error {
		for _, sql := range []string{
			roomAgainSQL(w.Table),
			fmt.Sprintf(`ALTER TABLE %s_default ADD CONSTRAINT not_of_the_day CHECK (NOT (id IS NOT NULL AND id >= %d AND id < %d)) NOT VALID`,
				w.Table, w.from, w.to),
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err //nolint:wrapcheck // wrapped below
			}
		}
		return nil
	})
	if err == nil {
		_, err = r.db.Exec(ctx, fmt.Sprintf(`ALTER TABLE %s_default VALIDATE CONSTRAINT not_of_the_day`, w.Table))
	}
	if err != nil {
		return fmt.Errorf("make room in the default partition: %w", err)
	}
	return nil
}
