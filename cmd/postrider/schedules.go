package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/internal/schedules"
)

// schedule is what of a schedule is shown to people.
type schedule struct {
	ID          string          `json:"id"`
	UID         *string         `json:"uid"`
	Description string          `json:"description"`
	Cron        string          `json:"cron"`
	Timezone    string          `json:"timezone"`
	Type        string          `json:"type"`
	ContentType string          `json:"content_type"`
	GroupKey    *string         `json:"group_key"`
	EndpointIDs []string        `json:"endpoint_ids"`
	Late        string          `json:"late"`
	Status      string          `json:"status"`
	NextAt      *time.Time      `json:"next_at"`
	LastAt      *time.Time      `json:"last_at"`
	LastEventID *string         `json:"last_event_id"`
	LastError   *string         `json:"last_error"`
	Skipped     int64           `json:"skipped"`
	CreatedAt   time.Time       `json:"created_at"`
	Payload     json.RawMessage `json:"payload"`
	Occurrences []struct {
		At      time.Time `json:"at"`
		ByHand  bool      `json:"by_hand"`
		EventID *string   `json:"event_id"`
		Error   *string   `json:"error"`
	} `json:"occurrences"`
}

func newSchedules(w world) *cobra.Command {
	return group("schedules", "Make events again and again, by a cron expression",
		newSchedulesCreate(w), newSchedulesList(w), newSchedulesShow(w), newSchedulesUpdate(w), newSchedulesDelete(w), newSchedulesRun(w))
}

func schedulePath(tenant string, more ...string) []string {
	return append([]string{"tenants", tenant, "schedules"}, more...)
}

// scheduleFlags are the fields of a schedule that can be set.
type scheduleFlags struct {
	payloadFlags
	cron, timezone, eventType, uid, description, groupKey, contentType, late string
	endpoints                                                                []string
	paused                                                                   bool
}

func (f *scheduleFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.payloadFlags.flags(cmd)
	flags.StringVar(&f.cron, "cron", "", "when, as `'minute hour day month weekday'`, or @hourly, @daily, @weekly, @monthly, @yearly")
	flags.StringVar(&f.timezone, "timezone", "", "by whose clock, such as `Europe/Berlin` (default UTC)")
	flags.StringVar(&f.eventType, "type", "", "the events' `type`, such as report.due")
	flags.StringVar(&f.uid, "uid", "", "your own `name` for the schedule, to use wherever its id is asked for")
	flags.StringVar(&f.description, "description", "", "what it is for")
	flags.StringVar(&f.groupKey, "group-key", "", "what the events belong to")
	flags.StringVar(&f.contentType, "content-type", "", "what the payload is (default application/json)")
	flags.StringSliceVar(&f.endpoints, "endpoint", nil, "only to these endpoints (ids or uids), as far as they want the type")
	flags.StringVar(&f.late, "late", "", "what becomes of times that a stop of the service made late: "+join(schedules.Lates())+" of them (default all)")
	flags.BoolVar(&f.paused, "paused", false, "it makes nothing until --paused=false")
	judge(cmd, "late", among(schedules.Lates()...))
}

// body makes a request's body of the flags that were given. An empty value takes a field back to its default.
func (f *scheduleFlags) body(cmd *cobra.Command, w world) (body []byte, empty bool, err error) {
	fields := map[string]any{}
	for _, one := range []struct {
		flag, field string
		value       any
		empty       bool
	}{
		{"cron", "cron", f.cron, false},
		{"timezone", "timezone", f.timezone, f.timezone == ""},
		{"type", "type", f.eventType, false},
		{"uid", "uid", f.uid, f.uid == ""},
		{"description", "description", f.description, f.description == ""},
		{"group-key", "group_key", f.groupKey, f.groupKey == ""},
		{"content-type", "content_type", f.contentType, f.contentType == ""},
		{"endpoint", "endpoint_ids", f.endpoints, len(f.endpoints) == 0},
		{"late", "late", f.late, f.late == ""},
		{"paused", "paused", f.paused, false},
	} {
		switch {
		case !cmd.Flags().Changed(one.flag):
		case one.empty:
			fields[one.field] = nil
		default:
			fields[one.field] = one.value
		}
	}
	payload, err := f.read(cmd, w.stdin)
	if err != nil {
		return nil, false, err
	}
	body, err = envelope(fields, payload)
	return body, len(fields) == 0 && payload == nil, err
}

func newSchedulesCreate(w world) *cobra.Command {
	var f scheduleFlags
	cmd := tenantCommand(w, &cobra.Command{
		Use: "create", Short: "Make a schedule", Args: exactly(),
		Example: `  postrider schedules create --tenant acme --cron '30 9 * * 1-5' --timezone Europe/Berlin --type report.due --data '{"report": "daily"}'`,
	}, func(cmd *cobra.Command, r *remote, tenant string, _ []string) error {
		body, _, err := f.body(cmd, w)
		if err != nil {
			return err
		}
		return r.fetch(cmd.Context(), call{method: http.MethodPost, path: schedulePath(tenant), body: body}, w.showSchedule)
	})
	f.flags(cmd)
	require(cmd, "cron", "type")
	requirePayload(cmd)
	return cmd
}

func newSchedulesList(w world) *cobra.Command {
	var l listing
	cmd := tenantCommand(w, &cobra.Command{Use: "list", Short: "List a tenant's schedules, newest first", Args: exactly()},
		func(cmd *cobra.Command, r *remote, tenant string, _ []string) error {
			return r.show(cmd, l, schedulePath(tenant), nil, w.listSchedules)
		})
	l.flags(cmd)
	return cmd
}

func (w world) listSchedules(p page) error {
	list, err := rows[schedule](p)
	if err != nil {
		return err
	}
	t := newTable("ID", "UID", "STATUS", "CRON", "TIME ZONE", "TYPE", "NEXT", "LAST")
	for _, s := range list {
		t.add(s.ID, text(s.UID), s.Status, s.Cron, s.Timezone, s.Type, w.clock(s.NextAt), w.clock(s.LastAt))
	}
	t.list(w.stdout, "schedules")
	return nil
}

func newSchedulesShow(w world) *cobra.Command {
	return tenantCommand(w, &cobra.Command{Use: "show SCHEDULE", Short: "Show a schedule and its last events", Args: exactly("SCHEDULE")},
		func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
			return r.fetch(cmd.Context(), call{method: http.MethodGet, path: schedulePath(tenant, args[0])}, w.showSchedule)
		})
}

func (w world) showSchedule(body json.RawMessage) error {
	s, err := decode[schedule](body)
	if err != nil {
		return err
	}
	endpoints := "all that subscribe"
	if s.EndpointIDs != nil {
		endpoints = strings.Join(s.EndpointIDs, ",")
	}
	t := &table{}
	t.add("id", s.ID)
	t.add("uid", text(s.UID))
	t.add("description", s.Description)
	t.add("cron", s.Cron+" ("+s.Timezone+")")
	t.add("status", s.Status)
	t.add("next", w.clock(s.NextAt))
	t.add("last", w.clock(s.LastAt))
	t.add("last event", text(s.LastEventID))
	t.add("last error", text(s.LastError))
	t.add("late", s.Late)
	t.add("skipped", strconv.FormatInt(s.Skipped, 10))
	t.add("type", s.Type)
	t.add("group key", text(s.GroupKey))
	t.add("endpoints", endpoints)
	t.add("payload", s.ContentType+" "+clip(string(s.Payload), 200))
	t.add("created", w.clock(&s.CreatedAt))
	for _, o := range s.Occurrences {
		what := text(o.EventID)
		if o.Error != nil {
			what = "failed: " + *o.Error
		}
		if o.ByHand {
			what += " (by hand)"
		}
		t.add("at "+w.clock(&o.At), what)
	}
	t.print(w.stdout)
	return nil
}

func newSchedulesUpdate(w world) *cobra.Command {
	var f scheduleFlags
	cmd := tenantCommand(w, &cobra.Command{
		Use: "update SCHEDULE", Short: "Change what is given by flags; --paused pauses it", Args: exactly("SCHEDULE"),
		Long: "Change what is given by flags, and nothing else. An empty value (--uid=) takes a field back to its default. Another --cron or\n" +
			"--timezone holds at once; --paused=false has it go on with the next time after now.",
		Example: "  postrider schedules update daily-report --tenant acme --paused",
	}, func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
		body, empty, err := f.body(cmd, w)
		if err != nil {
			return err
		}
		if empty {
			return usagef(cmd, "there is nothing to change: no flag says what")
		}
		return r.fetch(cmd.Context(), call{method: http.MethodPatch, path: schedulePath(tenant, args[0]), body: body}, w.showSchedule)
	})
	f.flags(cmd)
	return cmd
}

func newSchedulesDelete(w world) *cobra.Command {
	return tenantCommand(w, &cobra.Command{
		Use: "delete SCHEDULE", Short: "Delete a schedule; the events that it has made go their way", Args: exactly("SCHEDULE"),
	}, func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
		c, err := r.client()
		if err != nil {
			return err
		}
		if _, err := c.do(cmd.Context(), call{method: http.MethodDelete, path: schedulePath(tenant, args[0])}); err != nil {
			return err
		}
		return r.done("deleted", args[0])
	})
}

func newSchedulesRun(w world) *cobra.Command {
	return tenantCommand(w, &cobra.Command{
		Use: "run SCHEDULE", Short: "Make an event of a schedule now, beside its times", Args: exactly("SCHEDULE"),
	}, func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
		return r.fetch(cmd.Context(), call{method: http.MethodPost, path: schedulePath(tenant, args[0], "run")}, w.showReceipt)
	})
}
