package api

import (
	"context"
	"encoding/json"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/schedules"
)

// ScheduleView is a schedule in a list. It is embedded, so it is exported.
type ScheduleView struct {
	ID          string   `json:"id" example:"sch_07xk9v0e8g0003f"`
	TenantID    string   `json:"tenant_id"`
	UID         *string  `json:"uid"`
	Description string   `json:"description"`
	Cron        string   `json:"cron" example:"30 9 * * 1-5"`
	Timezone    string   `json:"timezone" example:"Europe/Berlin"`
	Type        string   `json:"type"`
	ContentType string   `json:"content_type"`
	GroupKey    *string  `json:"group_key"`
	EndpointIDs []string `json:"endpoint_ids" nullable:"true" doc:"null: all that subscribe."`
	Metadata    metadata `json:"metadata"`
	Late        string   `json:"late" enum:"all,last,none"`
	Paused      bool     `json:"paused"`
	Status      string   `json:"status" enum:"active,failing,paused" doc:"failing: the last occurrence made no event, for the reason in last_error."`
	NextAt      *stamp   `json:"next_at" nullable:"true" doc:"When the next event is made; null while it is paused."`
	LastAt      *stamp   `json:"last_at" nullable:"true" doc:"The last occurrence that had its turn, or was run by hand."`
	LastEventID *string  `json:"last_event_id"`
	LastError   *string  `json:"last_error"`
	Skipped     int64    `json:"skipped" doc:"Occurrences that made no event because they were late."`
	CreatedAt   stamp    `json:"created_at"`
	UpdatedAt   stamp    `json:"updated_at"`
}

func viewSchedule(s schedules.Schedule) ScheduleView {
	return ScheduleView{
		ID: id.Schedule.Format(s.ID), TenantID: id.Tenant.Format(s.Tenant), UID: unlessEmpty(s.Terms.UID),
		Description: s.Terms.Description, Cron: s.Terms.Cron, Timezone: s.Terms.Timezone, Type: s.Terms.Type,
		ContentType: s.Terms.ContentType, GroupKey: unlessEmpty(s.Terms.GroupKey), EndpointIDs: s.Terms.EndpointIDs,
		Metadata: shown(s.Terms.Metadata), Late: string(s.Terms.Late), Paused: s.Terms.Paused, Status: string(s.Status()),
		NextAt: stampOf(s.NextAt), LastAt: stampOf(s.LastAt), LastEventID: eventIDOf(s.LastEvent), LastError: unlessEmpty(s.LastError),
		Skipped: s.Skipped, CreatedAt: stamp(s.CreatedAt()), UpdatedAt: stamp(s.UpdatedAt),
	}
}

func eventIDOf(event *id.ID) *string {
	if event == nil {
		return nil
	}
	text := id.Event.Format(*event)
	return &text
}

// fullScheduleView is one schedule by itself.
type fullScheduleView struct {
	ScheduleView
	Payload     json.RawMessage  `json:"payload" doc:"Delivered byte for byte as it was given."`
	Occurrences []occurrenceView `json:"occurrences" nullable:"false" doc:"The last ten, the newest first."`
}

// occurrenceView is what became of one time.
type occurrenceView struct {
	At      stamp   `json:"at"`
	ByHand  bool    `json:"by_hand" doc:"Somebody had it run beside its times."`
	EventID *string `json:"event_id" doc:"null: it made none."`
	Error   *string `json:"error"`
}

const shownOccurrences = 10

// ScheduleIn is the path of one schedule.
type ScheduleIn struct {
	TenantIn
	Schedule string `path:"sch" doc:"The schedule's id or uid." example:"sch_07xk9v0e8g0003f"`
}

type scheduleOut struct {
	Location string `header:"Location"`
	Body     fullScheduleView
}

func (s *server) scheduleAnswer(ctx context.Context, sch schedules.Schedule) (*scheduleOut, error) {
	last, err := s.d.Schedules.Occurrences(ctx, sch.ID, shownOccurrences)
	if err != nil {
		return nil, err
	}
	out := &scheduleOut{Body: fullScheduleView{
		ScheduleView: viewSchedule(sch), Payload: sch.Terms.Payload, Occurrences: make([]occurrenceView, len(last)),
	}}
	for n, o := range last {
		out.Body.Occurrences[n] = occurrenceView{At: stamp(o.At), ByHand: o.ByHand, EventID: eventIDOf(o.Event), Error: unlessEmpty(o.Error)}
	}
	return out, nil
}

type newSchedule struct {
	Cron        string          `json:"cron" example:"30 9 * * 1-5" doc:"Minute, hour, day of the month, month and day of the week (0 to 6, from Sunday); or @hourly, @daily, @weekly, @monthly, @yearly."`
	Timezone    *string         `json:"timezone,omitempty" nullable:"true" example:"Europe/Berlin" doc:"Whose clock it is read by, an IANA name. Absent: UTC. A time that this clock skips comes as much later; one that it shows twice counts once, unless the expression is for every hour."`
	Type        string          `json:"type" example:"report.due"`
	Payload     json.RawMessage `json:"payload" doc:"Any JSON value. Its bytes are delivered as they stand here, blanks and digits included."`
	UID         *string         `json:"uid,omitempty" nullable:"true" doc:"Your own name for the schedule; it then stands in paths as well."`
	Description *string         `json:"description,omitempty" nullable:"true"`
	ContentType *string         `json:"content_type,omitempty" nullable:"true" doc:"application/json if absent."`
	GroupKey    *string         `json:"group_key,omitempty" nullable:"true" doc:"Of each event."`
	EndpointIDs []string        `json:"endpoint_ids,omitempty" nullable:"true" doc:"Only to these, ids or uids, as far as they want the type."`
	Metadata    metadata        `json:"metadata,omitempty" nullable:"true" doc:"Of each event. Under schedule each has the schedule's id and its own time beside."`
	Late        *string         `json:"late,omitempty" nullable:"true" example:"all" doc:"What becomes of occurrences that nobody dealt with within a minute, as over a stop of the service: all make their events (the default), only the last does, or none."`
	Paused      *bool           `json:"paused,omitempty" nullable:"true" doc:"It begins paused."`
}

func (newSchedule) example() string {
	return `{"cron":"30 9 * * 1-5","timezone":"Europe/Berlin","type":"report.due","payload":{"report":"daily"},"uid":"daily-report"}`
}

func (n newSchedule) read(faults *fault.Fields) schedules.Terms {
	if n.UID != nil && *n.UID == "" {
		faults.Addf("/uid", "is empty; leave it out or give one")
	}
	checkKept(faults, "", n.Metadata)
	return schedules.Terms{
		UID: text(n.UID), Description: text(n.Description), Cron: n.Cron, Timezone: text(n.Timezone), Type: n.Type,
		ContentType: text(n.ContentType), Payload: n.Payload, GroupKey: text(n.GroupKey), EndpointIDs: n.EndpointIDs,
		Metadata: n.Metadata, Late: schedules.Late(text(n.Late)), Paused: n.Paused != nil && *n.Paused,
	}
}

type createScheduleIn struct {
	TenantIn
	Body newSchedule
}

func (s *server) createSchedule(ctx context.Context, in *createScheduleIn) (*scheduleOut, error) {
	var faults fault.Fields
	terms := in.Body.read(&faults)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	sch, err := s.d.Schedules.Create(ctx, tenantOf(ctx).ID, terms)
	if err != nil {
		return nil, err
	}
	out, err := s.scheduleAnswer(ctx, sch)
	if err == nil {
		out.Location = "/v1/tenants/" + out.Body.TenantID + "/schedules/" + out.Body.ID
	}
	return out, err
}

type listSchedulesIn struct {
	TenantIn
	PageIn
}

func (s *server) listSchedules(ctx context.Context, in *listSchedulesIn) (*pageOut[ScheduleView], error) {
	return readPage(id.Schedule, in.PageIn, func(limit int, before id.ID) ([]schedules.Schedule, error) {
		return s.d.Schedules.List(ctx, tenantOf(ctx).ID, limit, before)
	}, viewSchedule, func(sch schedules.Schedule) id.ID { return sch.ID })
}

func (s *server) readSchedule(ctx context.Context, in *ScheduleIn) (*scheduleOut, error) {
	sch, err := s.d.Schedules.Get(ctx, tenantOf(ctx).ID, in.Schedule)
	if err != nil {
		return nil, err
	}
	return s.scheduleAnswer(ctx, sch)
}

type schedulePatch struct {
	Cron        optional[string]   `json:"cron,omitempty" doc:"Holds at once, as timezone does: the next occurrence is the first of the new times."`
	Timezone    optional[string]   `json:"timezone,omitempty" nullable:"true"`
	Type        optional[string]   `json:"type,omitempty"`
	Payload     json.RawMessage    `json:"payload,omitempty" doc:"Any JSON value, null included."`
	UID         optional[string]   `json:"uid,omitempty" nullable:"true"`
	Description optional[string]   `json:"description,omitempty" nullable:"true"`
	ContentType optional[string]   `json:"content_type,omitempty" nullable:"true"`
	GroupKey    optional[string]   `json:"group_key,omitempty" nullable:"true"`
	EndpointIDs optional[[]string] `json:"endpoint_ids,omitempty" nullable:"true" doc:"Replaced as a whole."`
	Metadata    optional[metadata] `json:"metadata,omitempty" nullable:"true" doc:"Replaced as a whole."`
	Late        optional[string]   `json:"late,omitempty" nullable:"true"`
	Paused      optional[bool]     `json:"paused,omitempty" nullable:"true" doc:"true pauses it: it makes nothing, and misses nothing. false has it go on with the next time after now."`
}

func (schedulePatch) example() string { return `{"cron":"0 8 * * *","paused":false}` }

// put puts a field's value in place, or for null its default.
func put[T any](o optional[T], into *T) {
	if !o.Given {
		return
	}
	var none T
	if *into = none; o.Value != nil {
		*into = *o.Value
	}
}

func (p schedulePatch) change(t *schedules.Terms) {
	late, meta := string(t.Late), metadata(t.Metadata)
	put(p.Cron, &t.Cron)
	put(p.Timezone, &t.Timezone)
	put(p.Type, &t.Type)
	put(p.UID, &t.UID)
	put(p.Description, &t.Description)
	put(p.ContentType, &t.ContentType)
	put(p.GroupKey, &t.GroupKey)
	put(p.EndpointIDs, &t.EndpointIDs)
	put(p.Metadata, &meta)
	put(p.Late, &late)
	put(p.Paused, &t.Paused)
	t.Late, t.Metadata = schedules.Late(late), meta
	if p.Payload != nil {
		t.Payload = p.Payload
	}
}

type updateScheduleIn struct {
	ScheduleIn
	Body schedulePatch
}

func (s *server) updateSchedule(ctx context.Context, in *updateScheduleIn) (*scheduleOut, error) {
	if m := in.Body.Metadata; m.Value != nil {
		var faults fault.Fields
		checkKept(&faults, "", *m.Value)
		if err := faults.Err(); err != nil {
			return nil, err
		}
	}
	sch, err := s.d.Schedules.Update(ctx, tenantOf(ctx).ID, in.Schedule, in.Body.change)
	if err != nil {
		return nil, err
	}
	return s.scheduleAnswer(ctx, sch)
}

func (s *server) deleteSchedule(ctx context.Context, in *ScheduleIn) (*struct{}, error) {
	if err := s.d.Schedules.Delete(ctx, tenantOf(ctx).ID, in.Schedule); err != nil {
		return nil, err
	}
	return &struct{}{}, nil
}

func (s *server) runSchedule(ctx context.Context, in *ScheduleIn) (*receiptOut, error) {
	tenant := tenantOf(ctx).ID
	receipt, err := s.d.Schedules.RunNow(ctx, tenant, in.Schedule)
	if err != nil {
		return nil, err
	}
	return accepted(tenant, receipt, false), nil
}
