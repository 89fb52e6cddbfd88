package portal

import (
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

type replayPage struct {
	Head   endpointHead
	Form   web.Form
	States []web.Option
	Types  []eventType
	Count  *jobs.Count // nil: nothing was asked for yet
}

// replay shows how many past events a window has for the endpoint. It changes nothing; saying yes does. What the endpoint
// missed is what it begins with.
func (p *pages) replay(v *web.Visit) error {
	t, e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	data := replayPage{Head: headOf(v, e, "replay"), Form: web.Form{Values: v.R.URL.Query()}, States: replayStates}
	if !data.Form.Values.Has("since") {
		data.Form = web.NewForm("since", v.Now.UTC().Add(-24*time.Hour).Format(web.MinuteForm), "state", jobs.Missing)
		return p.showReplay(v, data, nil)
	}
	request, err := readReplay(data.Form, t, e)
	if err == nil {
		var count jobs.Count
		err = p.counting.do(t.ID, func() (err error) {
			count, err = p.d.Jobs.Preview(v.Ctx(), request)
			return err
		})
		if err == nil {
			data.Count = &count
			if request.Window.Until.IsZero() { // what was counted is what is sent
				data.Form.Values.Set("until", v.Now.UTC().Add(time.Second).Format(web.SecondForm))
			}
		}
	}
	switch {
	case fault.Is(err, fault.TooMany):
		data.Form.Faults = map[string]string{"": web.Reason(err)}
	case err != nil && !data.Form.Mark(err):
		return err
	}
	return p.showReplay(v, data, err)
}

func (p *pages) showReplay(v *web.Visit, data replayPage, refused error) error {
	status := 0
	if refused != nil {
		status = fault.HTTPStatus(fault.CodeOf(refused))
	}
	return v.Show(web.Page{Name: "endpoint-replay", Title: "Replay", Section: "endpoints", Status: status, Data: data})
}

// postReplay makes the job that replay has shown.
func (p *pages) postReplay(v *web.Visit) error {
	t, e, err := p.endpointOf(v)
	if err != nil {
		return err
	}
	form, err := v.Form()
	if err != nil {
		return err
	}
	back := headOf(v, e, "").Path + "/replay?" + form.Values.Encode()
	request, err := readReplay(form, t, e)
	if err != nil {
		return v.Refused(back, err)
	}
	var job jobs.Job
	err = p.counting.do(t.ID, func() (err error) { // it is counted once more
		job, err = p.d.Jobs.Create(v.Ctx(), request)
		return err
	})
	if err != nil {
		return v.Refused(back, err)
	}
	return v.Go(Base + "/jobs/" + id.Job.Format(job.ID))
}

var replayStates = []web.Option{
	{Value: jobs.Missing, Label: "what it never got"},
	{Value: "failed", Label: "what failed"},
	{Value: "cancelled", Label: "what was cancelled"},
	{Value: "succeeded", Label: "what succeeded"},
	{Value: "all", Label: "all of it"},
}

// readReplay reads a window: `since`, `until`, `state`, and `types` with commas between.
func readReplay(form web.Form, t subscriptions.Tenant, e subscriptions.Endpoint) (jobs.Request, error) {
	var faults fault.Fields
	w := &jobs.Window{Endpoint: &e.ID, Since: form.Time(&faults, "since"), Until: form.Time(&faults, "until"), Types: form.Words("types")}
	if state := form.Get("state"); state != "all" {
		w.States = []string{state}
	}
	return jobs.Request{Kind: jobs.Replay, Tenant: &t.ID, Window: w}, faults.Err()
}

type jobPage struct {
	jobs.Job
	MayWrite bool
}

// jobOf gives the job of the path, which is a replay that was asked for here by the visitor's tenant or not there: what the
// producer does with the tenant's deliveries is its own affair.
func (p *pages) jobOf(v *web.Visit) (jobs.Job, error) {
	ref, err := id.Job.Parse(v.R.PathValue("job"))
	if err != nil {
		return jobs.Job{}, noJob()
	}
	job, err := p.d.Jobs.Get(v.Ctx(), ref)
	if err != nil {
		return jobs.Job{}, fmt.Errorf("look a job up: %w", err)
	}
	if job.Tenant == nil || *job.Tenant != *v.Session.Principal.Tenant || job.Kind != jobs.Replay || !job.InPortal {
		return jobs.Job{}, noJob()
	}
	return job, nil
}

func noJob() error { return fault.New(fault.NotFound, "no such job") }

// job shows how far a job has come. While it runs the page looks again by itself.
func (p *pages) job(v *web.Visit) error {
	job, err := p.jobOf(v)
	if err != nil {
		return err
	}
	return v.Show(web.Page{Name: "job", Title: "Replay", Section: "endpoints", Data: jobPage{Job: job, MayWrite: v.May(web.Writer)}})
}

func (p *pages) cancelJob(v *web.Visit) error {
	job, err := p.jobOf(v)
	if err != nil {
		return err
	}
	page := Base + "/jobs/" + id.Job.Format(job.ID)
	if _, err := p.d.Jobs.Cancel(v.Ctx(), job.ID); err != nil {
		return v.Refused(page, err)
	}
	return v.Done(page, "It is cancelled. What was sent again stays so.")
}
