package schedules

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pg"
)

// metadataName is what of an event's metadata says which schedule it is of.
const metadataName = "schedule"

// call accepts the events of some occurrences, all or none.
func (s Schedule) call(at ...time.Time) intake.Call {
	c := intake.Call{Tenant: s.Tenant}
	for _, moment := range at {
		about := map[string]any{"id": id.Schedule.Format(s.ID), "at": moment.UTC().Format("2006-01-02T15:04:05.000Z")}
		metadata := map[string]any{metadataName: about}
		maps.Copy(metadata, s.Terms.Metadata)
		c.Events = append(c.Events, intake.Event{
			Type: s.Terms.Type, Payload: s.Terms.Payload, ContentType: s.Terms.ContentType, GroupKey: s.Terms.GroupKey,
			EndpointIDs: s.Terms.EndpointIDs, Metadata: metadata,
		})
	}
	return c
}

// result is what came of a schedule in a transaction.
type result struct {
	Schedule
	occurrences []Occurrence
	skipped     int64
	next        *time.Time
}

// Primary keys. What made no event leaves the last one alone. last_at never goes back, though clocks may: see nextOf. A failure of an
// occurrence that is written down already adds nothing, so that no schedule is held up by the key for good.
const (
	advanceSQL = `
UPDATE schedules s SET next_at = r.next_at, skipped = s.skipped + r.skipped, last_at = greatest(r.last_at, s.last_at),
    last_event_id = coalesce(r.event_id, s.last_event_id),
    last_error = CASE WHEN r.last_at IS NULL THEN s.last_error ELSE r.error END
FROM unnest(@shards::smallint[], @ids::bigint[], @nexts::timestamptz[], @skipped::bigint[], @last_ats::timestamptz[],
    @events::bigint[], @errors::text[]) AS r (shard, id, next_at, skipped, last_at, event_id, error)
WHERE s.shard = r.shard AND s.id = r.id`
	occurredSQL = `
INSERT INTO schedule_occurrences (shard, schedule_id, at, by_hand, event_id, error)
SELECT * FROM unnest(@shards::smallint[], @ids::bigint[], @ats::timestamptz[], @by_hand::boolean[], @events::bigint[], @errors::text[])
    AS r (shard, id, at, by_hand, event_id, error)
WHERE r.event_id IS NOT NULL OR NOT EXISTS (SELECT FROM schedule_occurrences o
    WHERE o.shard = r.shard AND o.schedule_id = r.id AND o.at = r.at AND o.by_hand = r.by_hand)`
	trimSQL = `
DELETE FROM schedule_occurrences o USING unnest(@shards::smallint[], @ids::bigint[]) AS r (shard, id)
WHERE o.shard = r.shard AND o.schedule_id = r.id AND o.at < (
    SELECT k.at FROM schedule_occurrences k WHERE k.shard = r.shard AND k.schedule_id = r.id
    ORDER BY k.at DESC, k.by_hand DESC OFFSET @kept - 1 LIMIT 1)`
)

// record writes down how far schedules are, in the transaction of their events.
func record(ctx context.Context, tx pgx.Tx, results []result) error {
	var shards, oShards []int16
	var ids, skipped, oIDs []int64
	var nexts, lastAts []*time.Time
	var events, oEvents []*int64
	var errs, oErrs []*string
	var ats []time.Time
	var byHand []bool
	for _, r := range results {
		var lastAt *time.Time
		var event *int64
		var why *string
		for _, o := range r.occurrences {
			oShards, oIDs, ats, byHand = append(oShards, r.ID.Shard), append(oIDs, r.ID.N), append(ats, o.At), append(byHand, o.ByHand)
			lastAt, why = &o.At, nil
			if o.Event != nil {
				event = &o.Event.N
				oEvents, oErrs = append(oEvents, event), append(oErrs, nil)
			} else {
				why = &o.Error
				oEvents, oErrs = append(oEvents, nil), append(oErrs, why)
			}
		}
		shards, ids, nexts, skipped = append(shards, r.ID.Shard), append(ids, r.ID.N), append(nexts, r.next), append(skipped, r.skipped)
		lastAts, events, errs = append(lastAts, lastAt), append(events, event), append(errs, why)
	}
	b := &pgx.Batch{}
	b.Queue(advanceSQL, pgx.StrictNamedArgs{
		"shards": shards, "ids": ids, "nexts": nexts, "skipped": skipped, "last_ats": lastAts, "events": events, "errors": errs,
	})
	b.Queue(occurredSQL, pgx.StrictNamedArgs{
		"shards": oShards, "ids": oIDs, "ats": ats, "by_hand": byHand, "events": oEvents, "errors": oErrs,
	})
	b.Queue(trimSQL, pgx.StrictNamedArgs{"shards": shards, "ids": ids, "kept": KeptOccurrences})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("write down how far schedules are: %w", err)
	}
	return nil
}

// RunNow makes an event of a schedule at once, beside its times, also while it is paused.
func (s *Schedules) RunNow(ctx context.Context, tenant id.ID, ref string) (intake.Receipt, error) {
	var receipt intake.Receipt
	var accepted func()
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		now := s.deps.Now()
		sch, err := find(ctx, tx, tenant, ref, ` FOR UPDATE`)
		if err != nil {
			return err
		}
		var answers []intake.Answer
		answers, accepted, err = s.deps.Intake.AcceptIn(ctx, tx, []intake.Call{sch.call(now)}, now)
		if err != nil {
			return err //nolint:wrapcheck // says it all
		}
		if err := answers[0].Err; err != nil {
			return err
		}
		receipt = answers[0].Receipts[0]
		b := &pgx.Batch{}
		s.note(ctx, b, sch, audit.ScheduleRun, audit.Details{"event": id.Event.Format(receipt.ID)})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		return record(ctx, tx, []result{{
			Schedule: sch, next: sch.NextAt, occurrences: []Occurrence{{At: now, ByHand: true, Event: &receipt.ID}},
		}})
	})
	if err != nil {
		return intake.Receipt{}, fmt.Errorf("run a schedule: %w", err)
	}
	accepted()
	return receipt, nil
}
