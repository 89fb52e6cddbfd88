package console

import (
	"strings"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/schedules"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

type schedulesPage struct {
	Tenant subscriptions.Tenant
	Rows   []schedules.Schedule
	Pager  web.Pager
}

// schedules lists a tenant's.
func (p *pages) schedules(v *web.Visit) error {
	t, err := p.d.Subscriptions.Tenant(v.Ctx(), v.R.PathValue("ten"))
	if err != nil {
		return err
	}
	var faults fault.Fields
	before := readCursor(&faults, web.Form{Values: v.R.URL.Query()}, id.Schedule)
	if err := faults.Err(); err != nil {
		return err
	}
	found, err := p.d.Schedules.List(v.Ctx(), t.ID, web.PageSize+1, before)
	if err != nil {
		return err
	}
	found, next := web.Cut(found, func(s schedules.Schedule) id.ID { return s.ID })
	return v.Show(web.Page{Name: "schedules", Title: "Schedules of " + t.Name, Section: "tenants", Data: schedulesPage{
		Tenant: t, Rows: found, Pager: web.PagerOf(v.R.URL, id.Schedule, next),
	}})
}

type schedulePage struct {
	schedules.Schedule
	Status      schedules.Status
	TenantName  string
	Endpoints   string // "": all that subscribe
	Metadata    string
	Payload     web.Body
	Occurrences []schedules.Occurrence
	CanAct      bool
}

// shownOccurrences is how many of the last ones a page has.
const shownOccurrences = 20

func (p *pages) schedule(v *web.Visit) error {
	sch, err := p.namedSchedule(v)
	if err != nil {
		return err
	}
	data := schedulePage{
		Schedule: sch, Status: sch.Status(), CanAct: v.May(producers), Payload: web.NewBody(sch.Terms.Payload, false),
		Endpoints: strings.Join(sch.Terms.EndpointIDs, ", "),
	}
	if data.Metadata, err = prettyMetadata(sch.Terms.Metadata); err != nil {
		return err
	}
	if data.Occurrences, err = p.d.Schedules.Occurrences(v.Ctx(), sch.ID, shownOccurrences); err != nil {
		return err
	}
	t, err := p.d.Subscriptions.Tenant(v.Ctx(), id.Tenant.Format(sch.Tenant))
	if err != nil {
		return err // deleted: the schedule goes within the minute
	}
	data.TenantName = t.Name
	return v.Show(web.Page{Name: "schedule", Title: "Schedule " + id.Schedule.Format(sch.ID), Section: "tenants", Data: data})
}

func (p *pages) namedSchedule(v *web.Visit) (schedules.Schedule, error) {
	at, err := v.PathID("sch", id.Schedule, "schedule")
	if err != nil {
		return schedules.Schedule{}, err
	}
	return p.d.Schedules.ByID(v.Ctx(), at) //nolint:wrapcheck // says it all
}

func (p *pages) pauseSchedule(v *web.Visit) error {
	return p.setPaused(v, true, "The schedule is paused. It makes nothing, and misses nothing.")
}

func (p *pages) resumeSchedule(v *web.Visit) error {
	return p.setPaused(v, false, "The schedule goes on with the next time from now.")
}

func (p *pages) setPaused(v *web.Visit, paused bool, done string) error {
	sch, err := p.namedSchedule(v)
	if err != nil {
		return err
	}
	page := objectPath(id.Schedule, sch.ID)
	_, err = p.d.Schedules.Update(v.Ctx(), sch.Tenant, id.Schedule.Format(sch.ID), func(t *schedules.Terms) { t.Paused = paused })
	if err != nil {
		return v.Refused(page, err)
	}
	return v.Done(page, "%s", done)
}

func (p *pages) runSchedule(v *web.Visit) error {
	sch, err := p.namedSchedule(v)
	if err != nil {
		return err
	}
	page := objectPath(id.Schedule, sch.ID)
	receipt, err := p.d.Schedules.RunNow(v.Ctx(), sch.Tenant, id.Schedule.Format(sch.ID))
	if err != nil {
		return v.Refused(page, err)
	}
	return v.Done(page, "Event %s is on its way.", id.Event.Format(receipt.ID))
}
