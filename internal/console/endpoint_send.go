package console

import (
	"time"

	"github.com/postrider/postrider/internal/duration"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

func readOverlap(form web.Form) (time.Duration, error) {
	overlap, err := duration.Parse(form.Get("overlap"))
	if err != nil {
		return 0, fault.InvalidAt("/overlap", "is no span like 24h")
	}
	return overlap, nil
}

// testEndpoint sends one event to the endpoint alone, whatever it subscribes to, and leads to its delivery.
func (p *pages) testEndpoint(v *web.Visit) error {
	form, err := v.Form()
	if err != nil {
		return err
	}
	e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	receipt, err := p.d.Intake.AcceptTest(v.Ctx(), e.ID, e.TenantID, intake.Event{
		Type: form.Get("type"), Payload: []byte(form.Raw("payload")), ContentType: "application/json",
	})
	if form.Mark(err) {
		return p.showEndpoint(v, e, form, fault.HTTPStatus(fault.CodeOf(err)))
	}
	if err != nil {
		return v.Refused(endpointPath(e.ID), err)
	}
	return v.Done(Base+"/events/"+id.Event.Format(receipt.ID), "A test event is on its way to this endpoint alone.")
}

type replayPage struct {
	Form     web.Form
	Endpoint subscriptions.Endpoint
	States   []web.Option
	Count    *jobs.Count // nil: nothing was asked for yet
}

// replay shows how many past events a window has for the endpoint. It changes nothing; saying yes does.
func (p *pages) replay(v *web.Visit) error {
	e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	data := replayPage{Form: web.Form{Values: v.R.URL.Query()}, Endpoint: e, States: replayStates}
	if data.Form.Values.Has("since") {
		request, err := readReplay(data.Form, e)
		if err == nil {
			var count jobs.Count
			if count, err = p.d.Jobs.Preview(v.Ctx(), request); err == nil {
				data.Count = &count
				data.Form.Values.Set("until", request.Window.Until.Format(web.SecondForm))
				if request.Window.Until.IsZero() {
					data.Form.Values.Set("until", v.Now.UTC().Add(time.Second).Format(web.SecondForm))
				}
			}
		}
		if err != nil && !data.Form.Mark(err) {
			return err
		}
	}
	status := 0
	if len(data.Form.Faults) > 0 {
		status = fault.HTTPStatus(fault.Invalid)
	}
	return v.Show(web.Page{Name: "replay", Title: "Replay to an endpoint", Section: "endpoints", Status: status, Data: data})
}

// postReplay makes the job that replay has shown.
func (p *pages) postReplay(v *web.Visit) error {
	form, err := v.Form()
	if err != nil {
		return err
	}
	e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	back := endpointPath(e.ID) + "/replay?" + form.Values.Encode()
	request, err := readReplay(form, e)
	if err != nil {
		return v.Refused(back, err)
	}
	job, err := p.d.Jobs.Create(v.Ctx(), request)
	if err != nil {
		return v.Refused(back, err)
	}
	return v.Go(Base + "/jobs/" + id.Job.Format(job.ID))
}

// replayEvent sends one event again to all endpoints of its tenant.
func (p *pages) replayEvent(v *web.Visit) error {
	evt, err := v.PathID("evt", id.Event, "event")
	if err != nil {
		return err
	}
	owner, err := p.d.Intake.Owner(v.Ctx(), evt)
	if err != nil {
		return err
	}
	job, err := p.d.Jobs.Create(v.Ctx(), jobs.Request{Kind: jobs.Replay, Tenant: &owner, Window: &jobs.Window{Event: &evt}})
	if err != nil {
		return v.Refused(Base+"/events/"+id.Event.Format(evt), err)
	}
	return v.Go(Base + "/jobs/" + id.Job.Format(job.ID))
}

// replayStates are what of a window is sent again. None has an empty value: a browser takes that for nothing chosen.
var replayStates = []web.Option{
	{Value: "all", Label: "all of it"},
	{Value: jobs.Missing, Label: "what it never got"},
	{Value: "failed", Label: "what failed"},
	{Value: "cancelled", Label: "what was cancelled"},
	{Value: "succeeded", Label: "what succeeded"},
}

// readReplay reads a window: `since`, `until`, `state`, and `types` with commas between.
func readReplay(form web.Form, e subscriptions.Endpoint) (jobs.Request, error) {
	var faults fault.Fields
	w := &jobs.Window{Endpoint: &e.ID, Since: form.Time(&faults, "since"), Until: form.Time(&faults, "until"), Types: form.Words("types")}
	if state := form.Get("state"); state != "" && state != "all" {
		w.States = []string{state}
	}
	return jobs.Request{Kind: jobs.Replay, Tenant: &e.TenantID, Window: w}, faults.Err()
}
