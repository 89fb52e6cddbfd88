package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// DB is where partitions are made: a pool, or anything else that runs statements and transactions.
type DB interface {
	pg.Beginner
	pg.Querier
}

// partitioned are the tables of history. An id's number begins with its time, so a day is a range of ids.
var partitioned = []string{"events", "deliveries_finished", "attempts"}

const (
	day = 24 * time.Hour
	// daysAhead is how long partitions last if nobody makes new ones. After that rows go to the default partition, where
	// all works but dropping a day.
	daysAhead = 7
	// lockPatience is how long making one may stand in the queue for a lock, and others behind it.
	lockPatience = 2 * time.Second
	// lockTries is how often that is tried in one run.
	lockTries = 3
	// movable is how many rows of a day may be in the default partition for it to be emptied into the new one, during
	// which nobody can read it: some seconds' worth.
	movable = 200_000
)

// EnsurePartitions makes the daily partitions of history from yesterday to a week ahead, as far as they are missing.
// Several processes may do so at once. An error about one day does not keep the others from being made, and delivering
// goes on without any of them.
func EnsurePartitions(ctx context.Context, db DB, now time.Time) error {
	_, err := ensurePartitions(ctx, db, now)
	return err
}

func ensurePartitions(ctx context.Context, db DB, now time.Time) (made int64, err error) {
	today := now.UTC().Truncate(day)
	for _, table := range partitioned {
		have, lerr := partitionsOf(ctx, db, table)
		if lerr != nil {
			return made, errors.Join(err, lerr)
		}
		for n := -1; n <= daysAhead; n++ {
			p := partition{table: table, day: today.Add(time.Duration(n) * day)}
			if slices.Contains(have, p.name()) {
				continue
			}
			if perr := p.ensure(ctx, db); perr != nil {
				err = errors.Join(err, fmt.Errorf("make partition %s: %w", p.name(), perr))
				continue
			}
			made++
		}
	}
	return made, err
}

const partitionsSQL = `
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass(@table)`

func partitionsOf(ctx context.Context, db pg.Querier, table string) ([]string, error) {
	rows, err := db.Query(ctx, partitionsSQL, pgx.StrictNamedArgs{"table": table})
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("list the partitions of %s: %w", table, err))
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("list the partitions of %s: %w", table, err))
	}
	return names, nil
}

// partition is one day of one table.
type partition struct {
	table string
	day   time.Time
}

func (p partition) name() string { return p.table + "_" + p.day.Format("20060102") }

// bounds are the lowest number of the day and of the next one.
func (p partition) bounds() (from, to int64) { return id.Floor(p.day), id.Floor(p.day.Add(day)) }

// ensure makes the partition, unless another process just has. A lock that does not come is asked for again, a little
// later, since whoever holds it may be done by then.
func (p partition) ensure(ctx context.Context, db DB) error {
	for try := 1; ; try++ {
		err := pg.InTx(ctx, db, func(tx pgx.Tx) error { return p.make(ctx, tx) })
		if err == nil || try == lockTries || !sqlstate(err, "55P03") { // lock_not_available
			return err
		}
		select {
		case <-time.After(lockPatience / 4):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// make is one transaction. The table is made by itself and attached then, because that leaves everybody writing: making
// it as a partition would lock the parent against all others. Attaching locks the default partition, which must be shown
// to hold nothing of that day; what it does hold is moved, under the same lock.
//
// The advisory lock keeps processes from meeting in the catalogue. It is a courtesy: without it one of them would fail on
// a duplicate name and find the partition there the next time.
func (p partition) make(ctx context.Context, tx pgx.Tx) error {
	const settle = `SELECT set_config('lock_timeout', $1, true)`
	if _, err := tx.Exec(ctx, settle, fmt.Sprint(lockPatience.Milliseconds())); err != nil {
		return fmt.Errorf("limit the wait for locks: %w", err)
	}
	if err := alone(ctx, tx); err != nil {
		return err
	}
	have, err := partitionsOf(ctx, tx, p.table)
	if err != nil || slices.Contains(have, p.name()) {
		return err
	}
	from, to := p.bounds()
	// Identifiers and bounds cannot be parameters; both are made of our own names and numbers.
	for _, sql := range []string{
		fmt.Sprintf(`LOCK TABLE %s_default IN ACCESS EXCLUSIVE MODE`, p.table),
		fmt.Sprintf(`CREATE TABLE %s (LIKE %s INCLUDING ALL)`, p.name(), p.table),
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := p.moveFromDefault(ctx, tx, from, to); err != nil {
		return err
	}
	attach := fmt.Sprintf(`ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%d) TO (%d)`, p.table, p.name(), from, to)
	_, err = tx.Exec(ctx, attach)
	return err
}

// alone keeps other processes from the catalogue until the transaction ends.
func alone(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('postrider.partitions', 0))`); err != nil {
		return fmt.Errorf("wait for other processes: %w", err)
	}
	return nil
}

func (p partition) moveFromDefault(ctx context.Context, tx pgx.Tx, from, to int64) error {
	var stray int
	count := fmt.Sprintf(`SELECT count(*) FROM (SELECT FROM %s_default WHERE id >= $1 AND id < $2 LIMIT $3) s`, p.table)
	if err := tx.QueryRow(ctx, count, from, to, movable+1).Scan(&stray); err != nil {
		return fmt.Errorf("look into the default partition: %w", err)
	}
	if stray > movable {
		return fmt.Errorf("the default partition holds more than %d rows of that day: they stay there, where all works "+
			"but dropping the day", movable)
	}
	if stray == 0 {
		return nil
	}
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO %s SELECT * FROM %s_default WHERE id >= $1 AND id < $2`, p.name(), p.table),
		fmt.Sprintf(`DELETE FROM %s_default WHERE id >= $1 AND id < $2`, p.table),
	} {
		if _, err := tx.Exec(ctx, sql, from, to); err != nil {
			return fmt.Errorf("move rows out of the default partition: %w", err)
		}
	}
	return nil
}

func sqlstate(err error, code string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == code
}

// fewBlocks is up to how many blocks the default partition's rows are counted; beyond, the estimate of the last ANALYZE does.
const fewBlocks = 128

// measurePartitions shows how far partitions reach, and what lies in none.
func (d Deps) measurePartitions(ctx context.Context) error {
	parts, err := readParts(ctx, d.DB)
	if err != nil {
		return err
	}
	today := d.Now().UTC().Truncate(day)
	ahead := daysAhead
	for _, table := range partitioned {
		n := 0
		for slices.ContainsFunc(parts, func(p part) bool {
			return p.Table == table && !p.isDefault && p.day().Equal(today.Add(time.Duration(n+1)*day))
		}) {
			n++
		}
		ahead = min(ahead, n)
	}
	d.Metrics.SetDaysAhead(ahead)
	for _, p := range parts {
		if !p.isDefault {
			continue
		}
		rows := p.Rows
		if p.Blocks <= fewBlocks {
			if err := d.DB.QueryRow(ctx, `SELECT count(*) FROM `+p.quoted()).Scan(&rows); err != nil {
				return pg.Fault(fmt.Errorf("count what lies in %s: %w", p.Name, err))
			}
		}
		d.Metrics.SetDefaultRows(p.Table, rows)
	}
	return nil
}

func (d Deps) forgetPartitions() {
	d.Metrics.SetDaysAhead(0)
	for _, table := range partitioned {
		d.Metrics.SetDefaultRows(table, 0)
	}
}
