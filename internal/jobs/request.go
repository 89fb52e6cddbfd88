package jobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/subscriptions"
)

// MaxIDs is how many deliveries a request may name one by one.
const MaxIDs = 1000

// Request is what a job is to do.
type Request struct {
	Kind   Kind
	Tenant *id.ID // whose job it is, and nobody else's deliveries are touched by it; nil: the operator's

	// Of a retry or a cancellation: what the filter means, or the deliveries that are named, in which case the filter is
	// empty. Without states a retry means the failed ones, a cancellation all that wait. Of those that are named it means
	// any that can be retried or cancelled.
	Filter dispatcher.Filter
	IDs    []id.ID

	Window *Window // of a replay
}

// Window is what a replay is to send again. It needs a tenant.
type Window struct {
	// Endpoint with the time, Until excluded, or Event alone: that one goes to all endpoints that the tenant has now.
	Endpoint *id.ID
	Event    *id.ID
	Since    time.Time
	Until    time.Time // zero: until now
	Types    []string  // event types or patterns; none: all
	// States are succeeded, failed and cancelled, of deliveries that were made, and Missing for events that the endpoint
	// never got. None: all of them.
	States []string
}

// Missing stands among a window's states for events that the endpoint never got: it was not there, or dead.
const Missing = "missing"

// WindowStates gives what a window's states may be.
func WindowStates() []string {
	return []string{dispatcher.StateSucceeded.String(), dispatcher.StateFailed.String(), dispatcher.StateCancelled.String(), Missing}
}

var (
	retriable = []dispatcher.State{
		dispatcher.Scheduled, dispatcher.Pending, dispatcher.Held, dispatcher.StateSucceeded, dispatcher.StateFailed,
		dispatcher.StateCancelled,
	}
	cancellable = []dispatcher.State{dispatcher.Scheduled, dispatcher.Pending, dispatcher.Held}
)

// settle fills in what a request leaves open, and refuses what cannot be.
func (r *Request) settle(now time.Time) error {
	var faults fault.Fields
	switch r.Kind {
	case Retry:
		r.settleFilter(&faults, retriable, []dispatcher.State{dispatcher.StateFailed})
	case Cancel:
		r.settleFilter(&faults, cancellable, cancellable)
	case Replay:
		r.Window.settle(&faults, now)
	case Erase:
		faults.Addf("/kind", "is made by Jobs.Erase")
	}
	return faults.Err()
}

func (r *Request) settleFilter(faults *fault.Fields, possible, usual []dispatcher.State) {
	if r.Tenant != nil {
		if f := r.Filter.Tenant; f != nil && *f != *r.Tenant {
			faults.Addf("/tenant", "is another tenant")
		}
		r.Filter.Tenant = r.Tenant
	}
	for _, s := range r.Filter.States {
		if !slices.Contains(possible, s) {
			faults.Addf("/state", "deliveries that are %s cannot be taken by a job that is to %s them", s, r.Kind)
		}
	}
	switch {
	case len(r.IDs) > MaxIDs:
		faults.Addf("/ids", "has %d deliveries; %d is the most", len(r.IDs), MaxIDs)
	case len(r.IDs) > 0:
		f := r.Filter
		if f.Endpoint != nil || f.Event != nil || f.States != nil || f.EventType != "" || f.Outcomes != nil ||
			!f.Since.IsZero() || !f.Until.IsZero() || f.Query != "" {
			faults.Addf("/ids", "stand alone, without what a filter has beside the tenant")
		}
		r.Filter.States = possible
	case len(r.Filter.States) == 0:
		r.Filter.States = usual
	}
}

func (w *Window) settle(faults *fault.Fields, now time.Time) {
	if len(w.States) == 0 {
		w.States = WindowStates()
	}
	for i, s := range w.States {
		if !slices.Contains(WindowStates(), s) {
			faults.Addf(fmt.Sprintf("/states/%d", i), "is none of %v", WindowStates())
		}
	}
	for i, p := range w.Types {
		faults.Add(fmt.Sprintf("/types/%d", i), subscriptions.CheckPattern(p))
	}
	if w.Event != nil {
		return
	}
	if w.Until.IsZero() || w.Until.After(now) {
		w.Until = now
	}
	switch {
	case w.Since.IsZero():
		faults.Addf("/since", "is needed")
	case !w.Since.Before(w.Until):
		faults.Addf("/since", "has to be before until, and in the past")
	}
}

// spec is a request as it is kept and shown.
type spec struct {
	State     []string `json:"state,omitempty"`
	Tenant    string   `json:"tenant,omitempty"`
	Endpoint  string   `json:"endpoint,omitempty"`
	Event     string   `json:"event,omitempty"`
	EventType string   `json:"event_type,omitempty"`
	Outcome   []string `json:"outcome,omitempty"`
	Since     string   `json:"since,omitempty"`
	Until     string   `json:"until,omitempty"`
	Query     string   `json:"q,omitempty"`
	IDs       int      `json:"ids,omitempty"` // how many were named
	States    []string `json:"states,omitempty"`
	Types     []string `json:"types,omitempty"`
}

func (r *Request) spec() spec {
	if w := r.Window; w != nil {
		return spec{
			Tenant: spell(id.Tenant, r.Tenant), Endpoint: spell(id.Endpoint, w.Endpoint), Event: spell(id.Event, w.Event),
			Since: given(w.Since), Until: given(w.Until), States: w.States, Types: w.Types,
		}
	}
	f := r.Filter
	s := spec{
		Tenant: spell(id.Tenant, f.Tenant), Endpoint: spell(id.Endpoint, f.Endpoint), Event: spell(id.Event, f.Event),
		EventType: f.EventType, Since: given(f.Since), Until: given(f.Until), Query: f.Query, IDs: len(r.IDs),
	}
	for _, st := range f.States {
		s.State = append(s.State, st.String())
	}
	for _, o := range f.Outcomes {
		s.Outcome = append(s.Outcome, o.String())
	}
	return s
}

// readSpec is the way back.
func readSpec(text []byte) (s spec, err error) {
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("read what a job is to do: %w", err)
	}
	return s, nil
}

func (s spec) filter() (f dispatcher.Filter, err error) {
	var faults fault.Fields
	f = dispatcher.Filter{
		EventType: s.EventType, Query: s.Query, Since: taken(&faults, s.Since), Until: taken(&faults, s.Until),
	}
	f.Tenant = s.parse(&faults, id.Tenant, s.Tenant)
	f.Endpoint = s.parse(&faults, id.Endpoint, s.Endpoint)
	f.Event = s.parse(&faults, id.Event, s.Event)
	for _, name := range s.State {
		state, err := dispatcher.ParseState(name)
		faults.Add("/state", err)
		f.States = append(f.States, state)
	}
	for _, name := range s.Outcome {
		outcome, err := dispatcher.ParseOutcome(name)
		faults.Add("/outcome", err)
		f.Outcomes = append(f.Outcomes, outcome)
	}
	return f, faults.Err()
}

// replay is what intake is asked for. Nothing that is as new as the job itself is meant.
func (s spec) replay(tenant id.ID, job int64) (r intake.Replay, err error) {
	var faults fault.Fields
	r = intake.Replay{Tenant: tenant, Since: taken(&faults, s.Since), Before: job, Types: s.Types}
	r.Endpoint = s.parse(&faults, id.Endpoint, s.Endpoint)
	r.Event = s.parse(&faults, id.Event, s.Event)
	if s.Until != "" {
		r.Before = min(job, id.Floor(taken(&faults, s.Until)))
	}
	for _, name := range s.States {
		if name == Missing {
			r.Missing = true
			continue
		}
		state, err := dispatcher.ParseState(name)
		faults.Add("/states", err)
		r.States = append(r.States, state)
	}
	return r, faults.Err()
}

func (spec) parse(faults *fault.Fields, kind id.Kind, text string) *id.ID {
	if text == "" {
		return nil
	}
	found, err := kind.Parse(text)
	faults.Add("", err)
	return &found
}

func spell(kind id.Kind, i *id.ID) string {
	if i == nil {
		return ""
	}
	return kind.Format(*i)
}

// timeForm is how the API shows times. Ids, which bounds in time come down to, have no more than milliseconds either.
const timeForm = "2006-01-02T15:04:05.000Z"

func given(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeForm)
}

func taken(faults *fault.Fields, text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(timeForm, text)
	faults.Add("", err)
	return t
}
