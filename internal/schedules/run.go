package schedules

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pulse"
)

const (
	// stepPatience bounds a transaction.
	stepPatience = 20 * time.Second
	// lookEvery is how often is looked for schedules that other processes have made; leastRest is the shortest rest.
	lookEvery = time.Second
	leastRest = 10 * time.Millisecond
	// What a transaction takes on.
	stepSchedules = 100
	stepEvents    = 1000
	stepBytes     = 8 << 20 // of payloads
)

// Run makes the events of schedules as their times come, until ctx ends.
func (s *Schedules) Run(ctx context.Context) error {
	s.going.Begin()
	defer s.going.Rest()
	for ctx.Err() == nil {
		done, err := s.RunOnce(ctx)
		if err == nil {
			s.going.Work()
		} else if s.going.Turn(); ctx.Err() == nil {
			s.deps.Log.Warn().Err(err).Msg("schedules.failed")
		}
		if done.Schedules > 0 && err == nil {
			continue
		}
		rest := time.NewTimer(s.rest(ctx))
		select {
		case <-rest.C:
		case <-s.news:
		case <-ctx.Done():
		}
		rest.Stop()
	}
	return nil
}

// Index schedules_due.
const nextSQL = `SELECT min(next_at) FROM schedules WHERE next_at IS NOT NULL`

// Still says for how long the loop of Run has stood still.
func (s *Schedules) Still() pulse.Still { return s.going.Still() }

// rest is how long nothing is to be done.
func (s *Schedules) rest(ctx context.Context) time.Duration {
	var next *time.Time
	if err := s.deps.DB.QueryRow(ctx, nextSQL).Scan(&next); err != nil || next == nil {
		return lookEvery
	}
	left := next.Sub(s.deps.Now())
	if left <= 0 {
		return lookEvery / 4 // another process is at it, or it could not be done
	}
	return max(min(left, lookEvery), leastRest)
}

// Done counts what a step has come to.
type Done struct {
	Schedules int // that were due
	Made      int // events
	Failed    int // occurrences that made none
	Skipped   int64
}

// RunOnce deals with schedules that are due, some hundred at most, in one transaction. What breaks it is looked for by halves, and
// costs its own schedule that occurrence.
func (s *Schedules) RunOnce(ctx context.Context) (Done, error) { return s.step(ctx, nil) }

func (s *Schedules) step(ctx context.Context, only []int64) (Done, error) {
	inner, cancel := context.WithTimeout(ctx, stepPatience)
	defer cancel()
	st, err := s.attempt(inner, only, nil)
	switch {
	case err == nil:
		return s.finish(st), nil
	case len(st.due) == 0 || ctx.Err() != nil || !intake.Spoilt(err):
		return Done{}, fmt.Errorf("run schedules: %w", err)
	case len(st.due) > 1:
		var ids []int64
		for _, d := range st.due {
			ids = append(ids, d.ID.N)
		}
		first, ferr := s.step(ctx, ids[:len(ids)/2])
		second, serr := s.step(ctx, ids[len(ids)/2:])
		return first.and(second), errors.Join(ferr, serr)
	}
	why := err
	if st, err = s.attempt(inner, []int64{st.due[0].ID.N}, why); err != nil {
		return Done{}, errors.Join(why, err)
	}
	for _, r := range st.results {
		s.deps.Log.Error().Str("schedule", id.Schedule.Format(r.ID)).Err(why).Msg("schedule.broken")
	}
	return s.finish(st), nil
}

func (d Done) and(o Done) Done {
	return Done{d.Schedules + o.Schedules, d.Made + o.Made, d.Failed + o.Failed, d.Skipped + o.Skipped}
}

// step is a transaction on its way.
type step struct {
	due      []Schedule
	results  []result
	gone     []id.ID // their tenants are
	accepted func()
}

// attempt deals with schedules that are due in one transaction; only these, unless nil. broken is what came of the last try: then
// none is made, and the occurrences have failed for it. A panic is an error of its own.
func (s *Schedules) attempt(ctx context.Context, only []int64, broken error) (st step, err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("panic: %v\n%s", what, debug.Stack())
		}
	}()
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		st = step{accepted: func() {}}
		if err := pg.Indexed(ctx, tx); err != nil {
			return err //nolint:wrapcheck // says it all
		}
		now := s.deps.Now()
		var err error
		if st.due, err = claim(ctx, tx, now, only); err != nil || len(st.due) == 0 {
			return err
		}
		return s.deal(ctx, tx, &st, now, broken)
	})
	return st, err //nolint:wrapcheck // wrapped by the caller
}

// Index schedules_due. Rows that another process is at are passed by; what it has moved on is read as it is now, for all comes from
// the rows that were locked.
const claimSQL = `
WITH due AS MATERIALIZED (
    SELECT ` + columns + ` FROM schedules s
    WHERE s.next_at <= @now AND (@only::bigint[] IS NULL OR s.id = ANY (@only))
    ORDER BY s.next_at, s.id LIMIT @limit FOR UPDATE SKIP LOCKED)
SELECT shard, id, tenant_id, uid, description, cron, timezone, type, content_type, group_key, endpoint_ids, metadata, late, paused,
    next_at, last_at, last_event_id, last_error, skipped, updated_at, payload
FROM (SELECT d.*, sum(octet_length(d.payload)) OVER (ORDER BY d.next_at, d.id) - octet_length(d.payload) AS before FROM due d) d
WHERE before < @bytes ORDER BY next_at, id`

func claim(ctx context.Context, tx pgx.Tx, now time.Time, only []int64) ([]Schedule, error) {
	return collect(tx.Query(ctx, claimSQL, pgx.StrictNamedArgs{
		"now": now, "only": only, "limit": stepSchedules, "bytes": stepBytes,
	}))
}

// deal makes what is due.
func (s *Schedules) deal(ctx context.Context, tx pgx.Tx, st *step, now time.Time, broken error) error {
	var calls []intake.Call
	var of []int // the result that each is for
	events, bytes := 0, 0
	for _, sch := range st.due {
		table, err := Parse(sch.Terms.Cron, sch.Terms.Timezone)
		if err != nil { // no version of ours has let it in, or this machine knows fewer zones
			if err := s.halt(ctx, tx, sch, err); err != nil {
				return err
			}
			continue
		}
		room := min(mostMade, stepEvents-events)
		if size := len(sch.Terms.Payload); size > 0 {
			room = min(room, (stepBytes-bytes)/size)
		}
		if events == 0 {
			room = max(room, 1)
		}
		if room <= 0 {
			break // the next step goes on with it
		}
		d := table.due(*sch.NextAt, now, sch.Terms.Late, room)
		r := result{Schedule: sch, skipped: d.skipped}
		if !d.next.IsZero() {
			r.next = &d.next
		}
		for _, at := range d.made {
			r.occurrences = append(r.occurrences, Occurrence{At: at})
		}
		if len(d.made) > 0 && broken == nil {
			calls, of = append(calls, sch.call(d.made...)), append(of, len(st.results))
		}
		events, bytes = events+len(d.made), bytes+len(d.made)*len(sch.Terms.Payload)
		st.results = append(st.results, r)
	}
	if broken != nil {
		for n := range st.results {
			st.results[n].fail(broken)
		}
		return record(ctx, tx, st.results)
	}
	return s.accept(ctx, tx, st, calls, of, now)
}

func (s *Schedules) accept(ctx context.Context, tx pgx.Tx, st *step, calls []intake.Call, of []int, now time.Time) error {
	answers, accepted, err := s.deps.Intake.AcceptIn(ctx, tx, calls, now)
	if err != nil {
		return err //nolint:wrapcheck // says it all
	}
	st.accepted = accepted
	for n, a := range answers {
		r := &st.results[of[n]]
		if a.Err != nil {
			if fault.Is(a.Err, fault.NotFound) { // the tenant was deleted
				st.gone, r.occurrences = append(st.gone, r.ID), nil
			}
			r.fail(a.Err)
			continue
		}
		for m := range r.occurrences {
			r.occurrences[m].Event = &a.Receipts[m].ID
		}
	}
	if err := record(ctx, tx, st.results); err != nil {
		return err
	}
	for _, g := range st.gone {
		if _, err := tx.Exec(ctx, deleteSQL, pgx.StrictNamedArgs{"shard": g.Shard, "id": g.N}); err != nil {
			return fmt.Errorf("delete a deleted tenant's schedule: %w", err)
		}
	}
	return nil
}

// fail has all occurrences fail.
func (r *result) fail(err error) {
	for n := range r.occurrences {
		r.occurrences[n].Error = reason(err)
	}
}

// reason is what people are told of an occurrence that failed: what is wrong with the schedule, and of our own faults only that.
func reason(err error) string {
	var f *fault.Error
	if !errors.As(err, &f) || f.Detail == "" && len(f.Fields) == 0 {
		return "an internal fault: the log has more"
	}
	if len(f.Fields) > 0 {
		return f.Fields[0].String()
	}
	return f.Detail
}

// Index schedules_pkey.
const haltSQL = `UPDATE schedules SET paused = true, next_at = NULL, last_error = @why WHERE shard = @shard AND id = @id`

// halt pauses a schedule whose times cannot be told.
func (s *Schedules) halt(ctx context.Context, tx pgx.Tx, sch Schedule, why error) error {
	s.deps.Log.Error().Str("schedule", id.Schedule.Format(sch.ID)).Err(why).Msg("schedule.broken")
	if _, err := tx.Exec(ctx, haltSQL, pgx.StrictNamedArgs{"shard": sch.ID.Shard, "id": sch.ID.N, "why": reason(why)}); err != nil {
		return fmt.Errorf("pause a schedule: %w", err)
	}
	return nil
}

// finish is for after the commit.
func (s *Schedules) finish(st step) (d Done) {
	if len(st.due) == 0 {
		return d
	}
	st.accepted()
	d.Schedules = len(st.due)
	for _, r := range st.results {
		d.Skipped += r.skipped
		for _, o := range r.occurrences {
			if o.Event != nil {
				d.Made++
				continue
			}
			d.Failed++
			if o.Error != r.LastError { // else it was told
				s.deps.Log.Warn().Str("schedule", id.Schedule.Format(r.ID)).Str("tenant", id.Tenant.Format(r.Tenant)).Time("at", o.At).
					Str("why", o.Error).Msg("schedule.failed")
				r.LastError = o.Error
			}
		}
		if r.skipped > 0 {
			s.deps.Log.Info().Str("schedule", id.Schedule.Format(r.ID)).Int64("skipped", r.skipped).Msg("schedule.late")
		}
	}
	return d
}
