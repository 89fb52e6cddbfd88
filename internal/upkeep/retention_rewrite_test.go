package upkeep

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A tenant is erased while a day is copied of which it has rows: they do not come back with the copy.
func TestWhatIsErasedMeanwhileStaysErased(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	more, other := p.ofTenant(400*day, 400*day), p.ofTenant(400*day, 400*day)
	p.made(other, 40, "succeeded")
	p.made(more, 40, "succeeded")
	var made []*rewriting
	for _, table := range []string{tableAttempts, tableFinished, tableEvents} {
		v := p.verdictOf(table, 40)
		w := &rewriting{verdict: v, kept: pgx.Identifier{v.Name + "_kept"}.Sanitize(), started: p.at.Add(-time.Minute)}
		if err := p.prepare(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		exec(t, p.DB, `INSERT INTO `+w.kept+` SELECT * FROM `+w.quoted())
		made = append(made, w)
	}
	exec(t, p.DB, `DELETE FROM attempts WHERE endpoint_id = $1`, more.ID.N)
	exec(t, p.DB, `DELETE FROM deliveries_finished WHERE endpoint_id = $1`, more.ID.N)
	exec(t, p.DB, `DELETE FROM events WHERE tenant_id = $1`, more.TenantID.N)
	exec(t, p.DB, `INSERT INTO jobs (shard, id, kind, state, spec, created_by, matched, gathered, next_at, finished_at)
		VALUES ($1, 1, 'erase', 'succeeded', '{}', 'me', 3, true, 'infinity', $2)`, more.ID.Shard, p.at)
	for _, w := range made {
		if err := p.locked(t.Context(), w.part, swapPatience, func(tx pgx.Tx) error { _, err := p.swap(t.Context(), tx, w, 0); return err }); err != nil {
			t.Fatal(err)
		}
	}
	p.wantRows(40, "1 1 1")
}

func (p *past) leftovers() []string {
	p.T.Helper()
	rows, err := p.DB.Query(p.T.Context(), `SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE '%\_kept'`)
	if err != nil {
		p.T.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		p.T.Fatal(err)
	}
	return names
}

// A run was killed in the middle of a copy, and then nothing of that day is needed any more, or it is to be kept after all.
func TestNothingIsLeftOfARunThatWasBrokenOff(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.made(p.ep, 40, "pending")
	p.made(p.ep, 35, "pending")
	for _, ago := range []int{40, 35} {
		v := p.verdictOf(tableEvents, ago)
		w := &rewriting{verdict: v, kept: pgx.Identifier{v.Name + "_kept"}.Sanitize(), started: p.at.Add(-time.Minute)}
		if err := p.prepare(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if err := p.copyNeeded(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, p.DB, `CREATE TABLE orders_kept ()`) // somebody else's
	exec(t, p.DB, `DELETE FROM deliveries`)
	p.keep = Keep{Events: 37 * day, Attempts: 37 * day}
	p.runs(-1)
	if left := p.leftovers(); !slices.Equal(left, []string{"orders_kept"}) {
		t.Errorf("%v are left", left)
	}
	p.wantRows(40, "0 0 0")
	p.wantRows(35, "1 0 1")
}

// A day that was put together anew, and of which nothing has changed, is left alone by the next run.
func TestADayIsNotPutTogetherAgainAndAgain(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.made(p.ep, 40, "pending")
	p.made(p.ep, 40, "succeeded")
	p.runs(-1)
	p.wantRows(40, "1 0 1")
	p.runs(0)
	exec(t, p.DB, `DELETE FROM deliveries`)
	p.runs(2)
	p.wantRows(40, "0 0 0")
}

// An endpoint was switched off, and much is held for it: under the lock, which everybody waits for, no more is copied than has come since.
func TestALotThatIsHeldHoldsUpNobody(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	for range 50 {
		p.made(p.ep, 40, "pending")
	}
	p.made(p.ep, 40, "succeeded")
	for _, table := range []string{tableAttempts, tableEvents} {
		v := p.verdictOf(table, 40)
		w := &rewriting{verdict: v, kept: pgx.Identifier{v.Name + "_kept"}.Sanitize(), started: p.at.Add(-time.Minute)}
		if err := p.prepare(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if err := p.copyNeeded(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		var before, after int64
		err := p.locked(t.Context(), w.part, swapPatience, func(tx pgx.Tx) error {
			const copied = `SELECT coalesce(pg_stat_get_xact_tuples_inserted(to_regclass($1)), 0)`
			if err := tx.QueryRow(t.Context(), copied, w.kept).Scan(&before); err != nil {
				return err
			}
			if _, err := p.swap(t.Context(), tx, w, 50); err != nil {
				return err
			}
			return tx.QueryRow(t.Context(), copied, v.quoted()).Scan(&after)
		})
		if err != nil || before != after {
			t.Errorf("under the lock %d rows of %s are copied, %v", after-before, table, err)
		}
	}
	p.wantRows(40, "50 1 50")
}

// A process that stood still writes into no table that another one makes by now.
func TestAProcessThatStoodStillCopiesNothing(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.made(p.ep, 40, "pending")
	l := newLeases(p.DB, p.Now)
	if _, _, err := l.renew(t.Context(), []string{retentionJob}); err != nil {
		t.Fatal(err)
	}
	led, exit, _ := l.enter(t.Context(), retentionJob)
	defer exit()
	led = context.WithoutCancel(led)
	v := p.verdictOf(tableEvents, 40)
	w := &rewriting{verdict: v, kept: pgx.Identifier{v.Name + "_kept"}.Sanitize(), started: p.at.Add(-time.Minute)}
	if err := p.prepare(led, w); err != nil {
		t.Fatal(err)
	}
	exec(t, p.DB, `UPDATE job_leases SET owner = 77, term = term + 1`)
	if err := p.copyNeeded(led, w); !errors.Is(err, errLost) {
		t.Errorf("it copies: %v", err)
	}
}
