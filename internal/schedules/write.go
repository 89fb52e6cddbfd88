package schedules

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// settle fills defaults in and checks what needs no look into the database.
func (t *Terms) settle(faults *fault.Fields) Timetable {
	if t.Timezone == "" {
		t.Timezone = "UTC"
	}
	if t.Late == "" {
		t.Late = All
	}
	table, err := Parse(t.Cron, t.Timezone)
	faults.Add("", err)
	if t.UID != "" {
		faults.Add("/uid", subscriptions.CheckUID(t.UID))
	}
	faults.Add("/description", subscriptions.CheckDescription(t.Description))
	if !slices.Contains(Lates(), t.Late) {
		faults.Addf("/late", "is none of all, last and none")
	}
	if _, taken := t.Metadata[metadataName]; taken {
		faults.Addf("/metadata/"+metadataName, "is where each event says which schedule it is of")
	}
	return table
}

// try has intake judge an event of the schedule as it would each, and takes it back.
func (s *Schedules) try(ctx context.Context, tx pgx.Tx, sch Schedule, faults *fault.Fields) error {
	inner, err := tx.Begin(ctx)
	if err != nil {
		return fmt.Errorf("try a schedule: %w", err)
	}
	defer inner.Rollback(context.WithoutCancel(ctx))
	answers, _, err := s.deps.Intake.AcceptIn(ctx, inner, []intake.Call{sch.call(s.deps.Now())}, s.deps.Now())
	if err != nil {
		return err //nolint:wrapcheck // says it all
	}
	if err := answers[0].Err; fault.Is(err, fault.Invalid) {
		faults.Add("", err)
	} else if err != nil {
		return err
	}
	return faults.Err()
}

// check judges terms as a whole, and says when they come next. was is what they were; nil: there were none. Of a schedule that fails,
// be it for its type's schema, all that makes no event can be changed: that it is paused, above all.
func (s *Schedules) check(ctx context.Context, tx pgx.Tx, sch *Schedule, was *Terms) (Timetable, error) {
	var faults fault.Fields
	table := sch.Terms.settle(&faults)
	if was != nil && sch.Terms.sameEvent(*was) && (sch.Terms.Paused || !was.Paused) {
		return table, faults.Err()
	}
	return table, s.try(ctx, tx, *sch, &faults)
}

// sameEvent reports whether both make the same events.
func (t Terms) sameEvent(o Terms) bool {
	return t.Type == o.Type && t.ContentType == o.ContentType && slices.Equal(t.Payload, o.Payload) && t.GroupKey == o.GroupKey &&
		slices.Equal(t.EndpointIDs, o.EndpointIDs) && (len(t.Metadata)+len(o.Metadata) == 0 || reflect.DeepEqual(t.Metadata, o.Metadata))
}

// nextOf gives the first occurrence after now that is not dealt with. The database's clock may have stepped back behind the last
// one that is, when it was set or when a standby whose clock is behind took over.
func nextOf(t Timetable, paused bool, now time.Time, last *time.Time) *time.Time {
	if last != nil && last.After(now) {
		now = *last
	}
	next := t.Next(now)
	if paused || next.IsZero() {
		return nil
	}
	return &next
}

// columns are those that its owner says, of both statements.
func (t Terms) columns() (pgx.StrictNamedArgs, error) {
	args := pgx.StrictNamedArgs{
		"uid": t.UID, "description": t.Description, "cron": t.Cron, "timezone": t.Timezone, "type": t.Type,
		"content_type": t.ContentType, "payload": t.Payload, "group_key": t.GroupKey, "endpoint_ids": t.EndpointIDs,
		"metadata": nil, "late": string(t.Late), "paused": t.Paused,
	}
	if len(t.Metadata) > 0 {
		text, err := json.Marshal(t.Metadata)
		if err != nil {
			return nil, fmt.Errorf("spell a schedule's metadata: %w", err)
		}
		args["metadata"] = string(text)
	}
	return args, nil
}

const createSQL = `
INSERT INTO schedules (shard, id, tenant_id, uid, description, cron, timezone, type, content_type, payload, group_key, endpoint_ids,
    metadata, late, paused, next_at, updated_at)
VALUES (@shard, @id, @tenant, nullif(@uid, ''), @description, @cron, @timezone, @type, coalesce(nullif(@content_type, ''), 'application/json'),
    @payload, nullif(@group_key, ''), @endpoint_ids::text[], @metadata::text::jsonb, @late, @paused, @next, @now)`

// Create makes a schedule of a tenant. Its first occurrence is the first after now.
func (s *Schedules) Create(ctx context.Context, tenant id.ID, t Terms) (Schedule, error) {
	var made Schedule
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		now := s.deps.Now()
		sch := Schedule{ID: s.deps.IDs.In(tenant.Shard), Tenant: tenant, Terms: t}
		table, err := s.check(ctx, tx, &sch, nil)
		if err != nil {
			return err
		}
		args, err := sch.Terms.columns()
		if err != nil {
			return err
		}
		args["shard"], args["id"], args["tenant"] = tenant.Shard, sch.ID.N, tenant.N
		args["next"], args["now"] = nextOf(table, sch.Terms.Paused, now, nil), now
		b := &pgx.Batch{}
		b.Queue(createSQL, args)
		s.note(ctx, b, sch, audit.ScheduleCreated, audit.Details{
			"cron": sch.Terms.Cron, "timezone": sch.Terms.Timezone, "type": sch.Terms.Type, "late": sch.Terms.Late,
		})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		made, err = find(ctx, tx, tenant, id.Schedule.Format(sch.ID), "")
		return err
	})
	if err != nil {
		return Schedule{}, fmt.Errorf("make a schedule: %w", err)
	}
	s.tell()
	return made, nil
}

func (s *Schedules) note(ctx context.Context, b *pgx.Batch, sch Schedule, action audit.Action, details audit.Details) {
	audit.Queue(b, audit.ActorOf(ctx), s.deps.IDs.Next, audit.Entry{
		Action: action, Object: audit.Thing{Kind: id.Schedule, ID: sch.ID}, Tenant: &sch.Tenant, Details: details,
	})
}

// Index schedules_pkey.
const updateSQL = `
UPDATE schedules SET uid = nullif(@uid, ''), description = @description, cron = @cron, timezone = @timezone, type = @type,
    content_type = coalesce(nullif(@content_type, ''), 'application/json'), payload = @payload, group_key = nullif(@group_key, ''),
    endpoint_ids = @endpoint_ids::text[], metadata = @metadata::text::jsonb, late = @late, paused = @paused, next_at = @next,
    updated_at = @now
WHERE shard = @shard AND id = @id`

// Update changes a schedule's terms. Other times hold at once: the next occurrence is the first of theirs after now, as when a
// paused one goes on. What else is changed leaves the times alone.
func (s *Schedules) Update(ctx context.Context, tenant id.ID, ref string, change func(*Terms)) (Schedule, error) {
	var after Schedule
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		now := s.deps.Now()
		before, err := find(ctx, tx, tenant, ref, ` FOR UPDATE`)
		if err != nil {
			return err
		}
		sch := before
		change(&sch.Terms)
		table, err := s.check(ctx, tx, &sch, &before.Terms)
		if err != nil {
			return err
		}
		args, err := sch.Terms.columns()
		if err != nil {
			return err
		}
		args["shard"], args["id"], args["next"], args["now"] = tenant.Shard, sch.ID.N, before.NextAt, now
		if was, is := before.Terms, sch.Terms; was.Cron != is.Cron || was.Timezone != is.Timezone || was.Paused != is.Paused {
			args["next"] = nextOf(table, is.Paused, now, before.LastAt)
		}
		d := changes(before.Terms, sch.Terms)
		if d == nil {
			after = before
			return nil
		}
		b := &pgx.Batch{}
		b.Queue(updateSQL, args)
		s.note(ctx, b, sch, audit.ScheduleUpdated, d)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		after, err = find(ctx, tx, tenant, id.Schedule.Format(sch.ID), "")
		return err
	})
	if err != nil {
		return Schedule{}, fmt.Errorf("change a schedule: %w", err)
	}
	s.tell()
	return after, nil
}

// changes tells of settings by the names that the API has for them, and of what may be long or private only that it changed.
func changes(was, is Terms) (d audit.Details) {
	d.Changed("uid", was.UID, is.UID)
	d.Changed("description", was.Description, is.Description)
	d.Changed("cron", was.Cron, is.Cron)
	d.Changed("timezone", was.Timezone, is.Timezone)
	d.Changed("type", was.Type, is.Type)
	d.Changed("content_type", was.ContentType, is.ContentType)
	d.ChangedUnseen("payload", !slices.Equal(was.Payload, is.Payload))
	d.Changed("group_key", was.GroupKey, is.GroupKey)
	d.Changed("endpoint_ids", was.EndpointIDs, is.EndpointIDs)
	d.ChangedUnseen("metadata", (len(was.Metadata) > 0 || len(is.Metadata) > 0) && !reflect.DeepEqual(was.Metadata, is.Metadata))
	d.Changed("late", was.Late, is.Late)
	d.Changed("paused", was.Paused, is.Paused)
	return d
}

// Primary keys.
const deleteSQL = `
WITH gone AS (DELETE FROM schedule_occurrences WHERE shard = @shard AND schedule_id = @id)
DELETE FROM schedules WHERE shard = @shard AND id = @id`

// Delete ends a schedule. The events that it has made go their way.
func (s *Schedules) Delete(ctx context.Context, tenant id.ID, ref string) error {
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		sch, err := find(ctx, tx, tenant, ref, ` FOR UPDATE`)
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(deleteSQL, pgx.StrictNamedArgs{"shard": tenant.Shard, "id": sch.ID.N})
		s.note(ctx, b, sch, audit.ScheduleDeleted, audit.Details{"cron": sch.Terms.Cron, "type": sch.Terms.Type})
		return tx.SendBatch(ctx, b).Close() //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return fmt.Errorf("delete a schedule: %w", err)
	}
	return nil
}

// It reads all schedules, of which there are few, and their tenants by tenants_pkey.
const dropOrphansSQL = `
WITH orphans AS MATERIALIZED (
    SELECT s.shard, s.id FROM schedules s JOIN tenants t ON t.shard = s.shard AND t.id = s.tenant_id
    WHERE t.deleted_at IS NOT NULL FOR UPDATE OF s),
gone AS (DELETE FROM schedule_occurrences c USING orphans o WHERE c.shard = o.shard AND c.schedule_id = o.id)
DELETE FROM schedules s USING orphans o WHERE s.shard = o.shard AND s.id = o.id`

// DropOrphans deletes the schedules of tenants that are deleted: they make no events any more from that moment on.
func (s *Schedules) DropOrphans(ctx context.Context) (int64, error) {
	tag, err := s.deps.DB.Exec(ctx, dropOrphansSQL)
	if err != nil {
		return 0, pg.Fault(fmt.Errorf("delete schedules of deleted tenants: %w", err))
	}
	return tag.RowsAffected(), nil
}
