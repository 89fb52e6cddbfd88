package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/jobs"
)

// words is one word, several with commas between, as in a query, or a list of them.
type words []string

// UnmarshalJSON reads what the schema has passed.
func (w *words) UnmarshalJSON(b []byte) error {
	var one string
	if bytes.HasPrefix(b, []byte(`"`)) {
		if err := json.Unmarshal(b, &one); err != nil {
			return fmt.Errorf("read a word: %w", err)
		}
		*w = strings.Split(one, ",")
		return nil
	}
	if err := json.Unmarshal(b, (*[]string)(w)); err != nil {
		return fmt.Errorf("read words: %w", err)
	}
	return nil
}

// Schema takes both.
func (words) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{
		{Type: huma.TypeString},
		{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}},
	}}
}

// manyDeliveries is what GET /v1/deliveries is asked by, as a body; or deliveries by their ids.
type manyDeliveries struct {
	State     words    `json:"state,omitempty" doc:"As of GET /v1/deliveries, or a list. Absent: failed, of a retry; pending, scheduled and held, of a cancellation."`
	Tenant    string   `json:"tenant,omitempty" maxLength:"200" doc:"A tenant's id or uid."`
	Endpoint  string   `json:"endpoint,omitempty" maxLength:"200" doc:"An endpoint's id, or its uid if tenant is given as well."`
	Event     string   `json:"event,omitempty" maxLength:"200" doc:"An event's id."`
	EventType string   `json:"event_type,omitempty" maxLength:"200"`
	Outcome   words    `json:"outcome,omitempty" doc:"Of the last attempt; as of GET /v1/deliveries, or a list."`
	Since     string   `json:"since,omitempty" format:"date-time" doc:"Made then or later."`
	Until     string   `json:"until,omitempty" format:"date-time" doc:"Made before."`
	Query     string   `json:"q,omitempty" maxLength:"500" doc:"As of GET /v1/deliveries."`
	IDs       []string `json:"ids,omitempty" maxItems:"1000" doc:"These, and nothing else but tenant beside."`
	DryRun    bool     `json:"dry_run,omitempty" doc:"Only says how many it would be."`
}

func (manyDeliveries) example() string {
	return `{"endpoint":"ep_07xk9v0e8g0003f","outcome":["timeout","connect_error"],"since":"2026-11-30T09:00:00Z","dry_run":true}`
}

type manyDeliveriesIn struct{ Body manyDeliveries }

func (s *server) retryDeliveries(ctx context.Context, in *manyDeliveriesIn) (*jobMadeOut, error) {
	return s.actOnDeliveries(ctx, jobs.Retry, in.Body)
}

func (s *server) cancelDeliveries(ctx context.Context, in *manyDeliveriesIn) (*jobMadeOut, error) {
	return s.actOnDeliveries(ctx, jobs.Cancel, in.Body)
}

func (s *server) actOnDeliveries(ctx context.Context, kind jobs.Kind, b manyDeliveries) (*jobMadeOut, error) {
	f, err := s.readFilter(ctx, DeliveryFilter{
		State: b.State, Tenant: b.Tenant, Endpoint: b.Endpoint, Event: b.Event, EventType: b.EventType, Outcome: b.Outcome,
		Since: b.Since, Until: b.Until, Query: b.Query,
	})
	if err != nil {
		return nil, intoBody(err)
	}
	r := jobs.Request{Kind: kind, Tenant: f.Tenant, Filter: f}
	var faults fault.Fields
	for i, text := range b.IDs {
		dlv, err := id.Delivery.Parse(text)
		faults.Add(fmt.Sprintf("/ids/%d", i), err)
		r.IDs = append(r.IDs, dlv)
	}
	if b.IDs != nil && len(b.IDs) == 0 { // not everything
		faults.Addf("/ids", "is empty; leave it out or name some")
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	out, err := s.job(ctx, r, b.DryRun)
	return out, intoBody(err)
}

// intoBody makes of a pointer into a query the same one into the body.
func intoBody(err error) error {
	return repoint(err, func(pointer string) string {
		if name, query := strings.CutPrefix(pointer, "?"); query {
			return "/" + name
		}
		return pointer
	})
}

// replayWindow is what an endpoint is to get again.
type replayWindow struct {
	Since  string   `json:"since" format:"date-time" doc:"Events accepted then or later."`
	Until  string   `json:"until,omitempty" format:"date-time" doc:"And before; now, if absent."`
	States []string `json:"states,omitempty" nullable:"false" enum:"succeeded,failed,cancelled,missing" doc:"How the deliveries ended; missing are the events that the endpoint never got, for it was dead or not there. Absent: all of them."`
	Types  []string `json:"types,omitempty" nullable:"false" doc:"Event types or patterns such as order.*. One that the endpoint did not ask for then and does now has to be named here. Absent: all."`
	DryRun bool     `json:"dry_run,omitempty" doc:"Only says how many it would be."`
}

func (replayWindow) example() string {
	return `{"since":"2026-11-30T09:00:00Z","until":"2026-11-30T12:00:00Z","states":["failed","cancelled","missing"],"dry_run":true}`
}

type replayIn struct {
	EndpointIn
	Body replayWindow
}

func (s *server) replayEndpoint(ctx context.Context, in *replayIn) (*jobMadeOut, error) {
	t := tenantOf(ctx)
	e, err := s.d.Subscriptions.Endpoint(ctx, t, in.Endpoint)
	if err != nil {
		return nil, err
	}
	var faults fault.Fields
	w := jobs.Window{
		Endpoint: &e.ID, States: in.Body.States, Types: in.Body.Types,
		Since: parseTime(&faults, "/since", in.Body.Since), Until: parseTime(&faults, "/until", in.Body.Until),
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return s.job(ctx, jobs.Request{Kind: jobs.Replay, Tenant: &t.ID, Window: &w}, in.Body.DryRun)
}

type replayEvent struct {
	DryRun bool `json:"dry_run,omitempty" doc:"Only says how many endpoints it would go to."`
}

func (replayEvent) example() string { return `{"dry_run":true}` }

type replayEventIn struct {
	EventIn
	Body *replayEvent
}

// replayEvent sends one event again: to all endpoints that got it and are done with it, and to those that want it now and were
// not there.
func (s *server) replayEvent(ctx context.Context, in *replayEventIn) (*jobMadeOut, error) {
	t := tenantOf(ctx)
	e, err := s.d.Intake.Event(ctx, t.ID, in.Event)
	if err != nil {
		return nil, err
	}
	r := jobs.Request{Kind: jobs.Replay, Tenant: &t.ID, Window: &jobs.Window{Event: &e.ID}}
	return s.job(ctx, r, in.Body != nil && in.Body.DryRun)
}
