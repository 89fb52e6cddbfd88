package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/internal/intake"
)

// event is what of an event is shown to people.
type event struct {
	ID          string     `json:"id"`
	UID         *string    `json:"uid"`
	Type        string     `json:"type"`
	Status      string     `json:"status"`
	ContentType string     `json:"content_type"`
	Size        int        `json:"size"`
	GroupKey    *string    `json:"group_key"`
	DeliverAt   *time.Time `json:"deliver_at"`
	FanOut      int        `json:"fan_out"`
	CreatedAt   time.Time  `json:"created_at"`
	Deliveries  []delivery `json:"deliveries"`
	Skipped     []struct {
		EndpointID string `json:"endpoint_id"`
		Reason     string `json:"reason"`
		Detail     string `json:"detail"`
	} `json:"skipped"`
}

func newEvents(w world) *cobra.Command {
	return group("events", "Send events and see what became of them",
		newEventsSend(w), newEventsShow(w), newEventsList(w),
		newEventsCancel(w), newEventsReplay(w))
}

func eventPath(tenant string, more ...string) []string {
	return append([]string{"tenants", tenant, "events"}, more...)
}

func newEventsShow(w world) *cobra.Command {
	return tenantCommand(w, &cobra.Command{
		Use: "show EVENT", Short: "Show an event, its deliveries and who did not get it", Args: exactly("EVENT"),
	}, func(cmd *cobra.Command, r *remote, tenant string, args []string) error {
		return r.fetch(cmd.Context(), call{method: http.MethodGet, path: eventPath(tenant, args[0])}, w.showEvent)
	})
}

func (w world) showEvent(body json.RawMessage) error {
	e, err := decode[event](body)
	if err != nil {
		return err
	}
	t := &table{}
	t.add("id", e.ID)
	t.add("uid", text(e.UID))
	t.add("type", e.Type)
	t.add("status", e.Status)
	t.add("payload", strconv.Itoa(e.Size)+" bytes, "+e.ContentType)
	t.add("group key", text(e.GroupKey))
	t.add("deliver at", w.clock(e.DeliverAt))
	t.add("created", w.clock(&e.CreatedAt))
	t.print(w.stdout)
	if len(e.Deliveries) > 0 {
		w.blankLine()
		w.deliveryTable(e.Deliveries).print(w.stdout)
	}
	if len(e.Skipped) > 0 {
		w.blankLine()
		skipped := newTable("SKIPPED", "WHY")
		for _, s := range e.Skipped {
			skipped.add(s.EndpointID, strings.TrimSuffix(s.Reason+": "+s.Detail, ": "))
		}
		skipped.print(w.stdout)
	}
	return nil
}

func newEventsList(w world) *cobra.Command {
	var l listing
	var eventType, status string
	cmd := tenantCommand(w, &cobra.Command{Use: "list", Short: "List a tenant's events, newest first", Args: exactly()},
		func(cmd *cobra.Command, r *remote, tenant string, _ []string) error {
			query := url.Values{}
			setQuery(query, "type", eventType)
			setQuery(query, "status", status)
			if err := w.setWindow(cmd, query); err != nil {
				return err
			}
			return r.show(cmd, l, eventPath(tenant), query, w.listEvents)
		})
	cmd.Flags().StringVar(&eventType, "type", "", "only this `type`")
	cmd.Flags().StringVar(&status, "status", "", "only this one: "+strings.Join(intake.Statuses(), ", "))
	judge(cmd, "status", among(intake.Statuses()...))
	windowFlags(cmd)
	l.flags(cmd)
	return cmd
}

func (w world) listEvents(p page) error {
	list, err := rows[event](p)
	if err != nil {
		return err
	}
	t := newTable("ID", "UID", "TYPE", "STATUS", "DELIVERIES", "BYTES", "CREATED")
	for _, e := range list {
		t.add(e.ID, text(e.UID), e.Type, e.Status, strconv.Itoa(e.FanOut), strconv.Itoa(e.Size), w.clock(&e.CreatedAt))
	}
	t.list(w.stdout, "events")
	return nil
}
