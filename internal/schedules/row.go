package schedules

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/subscriptions"
)

// row is a row of a statement that reads schedules.
type row struct {
	Shard       int16
	ID          int64
	TenantID    int64
	UID         string
	Description string
	Cron        string
	Timezone    string
	Type        string
	ContentType string
	Payload     []byte
	GroupKey    string
	EndpointIDs []string
	Metadata    *string
	Late        string
	Paused      bool
	NextAt      *time.Time
	LastAt      *time.Time
	LastEventID *int64
	LastError   string
	Skipped     int64
	UpdatedAt   time.Time
}

const (
	columnsBut = `s.shard, s.id, s.tenant_id, coalesce(s.uid, '') AS uid, s.description, s.cron, s.timezone, s.type, s.content_type,
    coalesce(s.group_key, '') AS group_key, s.endpoint_ids, s.metadata::text AS metadata, s.late, s.paused, s.next_at,
    s.last_at, s.last_event_id, coalesce(s.last_error, '') AS last_error, s.skipped, s.updated_at`
	columns = columnsBut + `, s.payload`
)

func (r row) id() id.ID     { return id.ID{Shard: r.Shard, N: r.ID} }
func (r row) tenant() id.ID { return id.ID{Shard: r.Shard, N: r.TenantID} }

func (r row) schedule() (Schedule, error) {
	s := Schedule{
		ID: r.id(), Tenant: r.tenant(), NextAt: r.NextAt, LastAt: r.LastAt, LastError: r.LastError, Skipped: r.Skipped,
		UpdatedAt: r.UpdatedAt,
		Terms: Terms{
			UID: r.UID, Description: r.Description, Cron: r.Cron, Timezone: r.Timezone, Type: r.Type, ContentType: r.ContentType,
			Payload: r.Payload, GroupKey: r.GroupKey, EndpointIDs: r.EndpointIDs, Late: Late(r.Late), Paused: r.Paused,
		},
	}
	if r.LastEventID != nil {
		s.LastEvent = &id.ID{Shard: r.Shard, N: *r.LastEventID}
	}
	if r.Metadata != nil {
		dec := json.NewDecoder(strings.NewReader(*r.Metadata))
		dec.UseNumber() // a float64 would lose the digits of large ones
		if err := dec.Decode(&s.Terms.Metadata); err != nil {
			return Schedule{}, fmt.Errorf("read a schedule's metadata: %w", err)
		}
	}
	return s, nil
}

func collect(rows pgx.Rows, err error) ([]Schedule, error) {
	var found []row
	if err == nil {
		found, err = pgx.CollectRows(rows, pgx.RowToStructByName[row])
	}
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read schedules: %w", err))
	}
	all := make([]Schedule, len(found))
	for n, r := range found {
		if all[n], err = r.schedule(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Indexes schedules_pkey and schedules_uid_key.
const getSQL = `
SELECT ` + columns + ` FROM schedules s
WHERE s.shard = @shard AND s.tenant_id = @tenant AND CASE WHEN @id::bigint <> 0 THEN s.id = @id ELSE s.uid = @uid END`

// Get gives one schedule of a tenant by its id or uid, or a not_found fault.
func (s *Schedules) Get(ctx context.Context, tenant id.ID, ref string) (Schedule, error) {
	return find(ctx, s.deps.DB, tenant, ref, "")
}

func find(ctx context.Context, db pg.Querier, tenant id.ID, ref, lock string) (Schedule, error) {
	missing := fault.New(fault.NotFound, "no such schedule")
	at, err := id.Schedule.Parse(ref)
	if err == nil && at.Shard != tenant.Shard || err != nil && subscriptions.CheckUID(ref) != nil {
		return Schedule{}, missing
	}
	found, err := collect(db.Query(ctx, getSQL+lock, pgx.StrictNamedArgs{
		"shard": tenant.Shard, "tenant": tenant.N, "id": at.N, "uid": ref,
	}))
	if err != nil {
		return Schedule{}, err
	}
	if len(found) == 0 {
		return Schedule{}, missing
	}
	return found[0], nil
}

// Index schedules_pkey.
const byIDSQL = `SELECT ` + columns + ` FROM schedules s WHERE s.shard = @shard AND s.id = @id`

// ByID gives one schedule of whichever tenant, or a not_found fault.
func (s *Schedules) ByID(ctx context.Context, schedule id.ID) (Schedule, error) {
	found, err := collect(s.deps.DB.Query(ctx, byIDSQL, pgx.StrictNamedArgs{"shard": schedule.Shard, "id": schedule.N}))
	if err == nil && len(found) == 0 {
		err = fault.New(fault.NotFound, "no such schedule")
	}
	if err != nil {
		return Schedule{}, err
	}
	return found[0], nil
}

// Index schedules_by_tenant, backwards. Payloads are left out: a page of them could be large.
const listSQL = `
SELECT ` + columnsBut + `, ''::bytea AS payload FROM schedules s
WHERE s.shard = @shard AND s.tenant_id = @tenant AND s.id < @below ORDER BY s.id DESC LIMIT @limit`

// List gives a tenant's schedules without their payloads, the newest first, at most limit and only those older than before (zero:
// from the newest).
func (s *Schedules) List(ctx context.Context, tenant id.ID, limit int, before id.ID) ([]Schedule, error) {
	below := before.N
	if before.IsZero() {
		below = math.MaxInt64
	}
	return collect(s.deps.DB.Query(ctx, listSQL, pgx.StrictNamedArgs{
		"shard": tenant.Shard, "tenant": tenant.N, "below": below, "limit": max(limit, 1),
	}))
}

// KeptOccurrences is how many occurrences of a schedule are kept, the newest.
const KeptOccurrences = 100

// Index schedule_occurrences_pkey, backwards.
const occurrencesSQL = `
SELECT at, by_hand, event_id, coalesce(error, '') FROM schedule_occurrences
WHERE shard = @shard AND schedule_id = @schedule ORDER BY at DESC, by_hand DESC LIMIT @limit`

// Occurrences gives a schedule's last ones, the newest first.
func (s *Schedules) Occurrences(ctx context.Context, schedule id.ID, limit int) ([]Occurrence, error) {
	rows, err := s.deps.DB.Query(ctx, occurrencesSQL, pgx.StrictNamedArgs{
		"shard": schedule.Shard, "schedule": schedule.N, "limit": limit,
	})
	var all []Occurrence
	if err == nil {
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o Occurrence, err error) {
			var event *int64
			if err = row.Scan(&o.At, &o.ByHand, &event, &o.Error); err == nil && event != nil {
				o.Event = &id.ID{Shard: schedule.Shard, N: *event}
			}
			return o, err
		})
	}
	if err != nil {
		return nil, pg.Fault(fmt.Errorf("read a schedule's occurrences: %w", err))
	}
	return all, nil
}
